//! The promises of every codec, checked for each that this host has.

use std::io::{self, Write};

use proptest::prelude::*;

use super::*;
use crate::content::ContentSettings;

/// Every codec at its default level and at the ends of its levels, with the libraries that are not here left out by name.
fn specs() -> Vec<CodecSettings> {
    let mut specs = Vec::new();
    for kind in CodecKind::ALL {
        match CodecSettings::at_default_level(kind).feasible() {
            Ok(()) => {
                let ends = kind.levels().map_or(Vec::new(), |levels| vec![*levels.start(), *levels.end()]);
                specs.push(CodecSettings::at_default_level(kind));
                specs.extend(ends.into_iter().filter_map(|level| CodecSettings::at(kind, level).ok()));
            }
            // No library here could do it: only QEMU has it.
            Err(error) if kind == CodecKind::Uadk => {
                assert!(error.to_string().contains("only QEMU"), "{error}")
            }
            // They come with their devices: Debian 12 has packages of neither.
            Err(reason) if kind.name().starts_with('q') => {
                let _ = writeln!(io::stderr(), "test skipped: {}: hardware: {reason}", kind.name());
            }
            Err(reason) => {
                let _ = writeln!(io::stderr(), "test skipped: {}: {reason}", kind.name());
            }
        }
    }
    specs.dedup();
    specs
}

/// A unit of every kind of data, one of zeros and one that does not compress.
fn units() -> Vec<Vec<u8>> {
    let content = ContentSettings::default().open(4).unwrap();
    let filled = |page| {
        let mut unit = vec![0; UNIT_BYTES];
        content.fill(page, &mut unit).unwrap();
        unit
    };
    let of_each_kind = (0..8).map(|region| filled(region * 2048));
    let random = ContentSettings { incompressible: plumb_model::Percent(1.0), ..ContentSettings::default() };
    let mut noise = vec![0; UNIT_BYTES];
    random.fill(&mut noise, 4).unwrap();
    of_each_kind.chain([vec![0; UNIT_BYTES], noise]).collect()
}

/// Restores into the middle of a larger buffer, and checks that nothing around it was written.
fn restore(codec: &mut dyn Codec, form: &[u8], bytes: usize) -> Result<Vec<u8>, CodecError> {
    const GUARD: usize = 256;
    let mut buffer = vec![0xa5; bytes + 2 * GUARD];
    let restored = codec.decompress(form, &mut buffer[GUARD..GUARD + bytes]);
    assert!(
        buffer[..GUARD].iter().chain(&buffer[GUARD + bytes..]).all(|byte| *byte == 0xa5),
        "it wrote beyond"
    );
    restored.map(|()| buffer[GUARD..GUARD + bytes].to_vec())
}

#[test]
fn every_codec_restores_every_unit_with_the_same_contexts() {
    let units = units();
    for spec in specs() {
        let mut codec = spec.build().unwrap();
        let mut form = Vec::new();
        for unit in &units {
            codec.compress(unit, &mut form).unwrap();
            assert!(restore(&mut *codec, &form, unit.len()).unwrap() == *unit, "{spec}");
        }
        let counters = codec.counters();
        let frames = counters.hardware_frames + counters.software_frames;
        assert_eq!(frames, 2 * units.len() as u64, "{spec}");
        if !spec.wants_hardware() {
            assert_eq!(counters.hardware_frames, 0, "{spec}");
        }
    }
}

#[test]
fn every_codec_makes_less_of_data_and_little_more_of_noise() {
    let units = units();
    let (data, noise) = (&units[..8], &units[9]);
    for spec in specs().into_iter().filter(|spec| !spec.is_none()) {
        let mut codec = spec.build().unwrap();
        let mut form = Vec::new();
        let sum: usize = data
            .iter()
            .map(|unit| {
                codec.compress(unit, &mut form).unwrap();
                form.len()
            })
            .sum();
        assert!(sum < 8 * UNIT_BYTES, "{spec}: {sum}");
        codec.compress(noise, &mut form).unwrap();
        assert!(form.len() < UNIT_BYTES + UNIT_BYTES / 7, "{spec}: {}", form.len());
    }
}

#[test]
fn a_form_that_was_cut_or_has_more_behind_it_is_an_error() {
    let unit = &units()[0][..5 * PAGE_BYTES];
    for spec in specs() {
        let mut codec = spec.build().unwrap();
        let mut form = Vec::new();
        codec.compress(unit, &mut form).unwrap();
        for cut in [0, 1, 2, form.len() / 2, form.len() - 16] {
            assert!(
                restore(&mut *codec, &form[..cut], unit.len()).is_err(),
                "{spec}: {cut} of {}",
                form.len()
            );
        }
        // QATzip does without the checksum behind the data.
        for cut in form.len() - 9..form.len() {
            let restored = restore(&mut *codec, &form[..cut], unit.len());
            assert!(restored.is_err() || restored.unwrap() == unit, "{spec}: {cut} of {}", form.len());
        }
        assert!(restore(&mut *codec, &form, unit.len() - 1).is_err(), "{spec}: less room");
        assert!(restore(&mut *codec, &form, unit.len() + 1).is_err(), "{spec}: more room");
        // A failed unit does not affect the next one.
        assert!(restore(&mut *codec, &form, unit.len()).unwrap() == unit, "{spec}");
    }
}

#[test]
fn an_empty_unit_is_restored_or_refused() {
    for spec in specs() {
        let mut codec = spec.build().unwrap();
        let mut form = vec![1];
        if codec.compress(&[], &mut form).is_ok() {
            assert_eq!(restore(&mut *codec, &form, 0), Ok(Vec::new()), "{spec}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_restored(pages in proptest::collection::vec((any::<u8>(), 1_usize..600, any::<bool>()), 1..40)) {
        let mut unit = Vec::new();
        for (byte, length, rising) in pages {
            unit.extend((0..length).map(|at| if rising { byte.wrapping_add(at as u8) } else { byte }));
        }
        for spec in specs_at_default() {
            let mut codec = spec.build().unwrap();
            let mut form = Vec::new();
            codec.compress(&unit, &mut form).unwrap();
            prop_assert!(restore(&mut *codec, &form, unit.len()).unwrap() == unit, "{}", spec);
        }
    }

    #[test]
    fn foreign_bytes_never_write_beyond_the_unit(form in proptest::collection::vec(any::<u8>(), 0..3000), bytes in 0_usize..9000) {
        for spec in specs_at_default() {
            // That it returns, and stays within the unit, is what is checked.
            let _ = restore(&mut *spec.build().unwrap(), &form, bytes);
        }
    }

    #[test]
    fn a_damaged_form_never_writes_beyond_the_unit(flips in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..8)) {
        let mut unit = vec![0; 4 * PAGE_BYTES];
        ContentSettings::default().fill(&mut unit, 6).unwrap();
        for spec in specs_at_default() {
            let mut codec = spec.build().unwrap();
            let mut form = Vec::new();
            codec.compress(&unit, &mut form).unwrap();
            let whole = form.clone();
            for (at, flip) in &flips {
                let length = form.len();
                form[at.index(length)] ^= flip;
            }
            let _ = restore(&mut *codec, &form, unit.len());
            prop_assert!(restore(&mut *codec, &whole, unit.len()).unwrap() == unit, "{}", spec);
        }
    }
}

fn specs_at_default() -> Vec<CodecSettings> {
    let specs = CodecKind::ALL.into_iter().map(CodecSettings::at_default_level);
    specs.filter(|spec| spec.feasible().is_ok()).collect()
}
