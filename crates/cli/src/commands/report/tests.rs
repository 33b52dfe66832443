//! Reports of run directories that were damaged, or made by somebody else.

use std::fs;
use std::path::PathBuf;

use crate::synthetic::{Scene, planned};

/// Numbers by the method of SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end.max(1) as u64).unwrap()
    }
}

const EXTREMES: [&str; 16] = [
    "0",
    "-1",
    "1",
    "1e300",
    "-1e300",
    "1e-300",
    "1e18",
    "9007199254740992",
    "18446744073709551615",
    "4294967295",
    "null",
    "\"x\"",
    "[]",
    "{}",
    "1000",
    "0.5",
];

/// The places of all numbers in a JSON text.
fn numbers(text: &[u8]) -> Vec<(usize, usize)> {
    let is_part = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if text[at].is_ascii_digit() && at > 0 && b":,[ -".contains(&text[at - 1]) {
            let end = (at..text.len()).find(|end| !is_part(text[*end])).unwrap_or(text.len());
            found.push((at, end));
            at = end;
        }
        at += 1;
    }
    found
}

fn mutated(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut text = text.to_vec();
    let (from, length) = (random.below(text.len()), 1 + random.below(64));
    let to = (from + length).min(text.len());
    match random.below(8) {
        0 => text[from] ^= 1 << random.below(8),
        1 => drop(text.drain(from..to)),
        2 => text.extend_from_within(from..to),
        3 => text.truncate(from),
        _ => {
            let places = numbers(&text);
            let Some((from, to)) = places.get(random.below(places.len())).copied() else { return text };
            let extreme = EXTREMES[random.below(EXTREMES.len())].bytes();
            text.splice(from..to, extreme);
        }
    }
    text
}

#[test]
fn no_damage_makes_a_report_panic() {
    let scene = Scene::new();
    let planned = planned(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1500 /s } }\nload: { duration: 3 s }\n\
         blocks: { min: 2, max: 2 }\nclaims: [b.throughput >= 1.2 * a.throughput, b.throughput <= 1700 /s within 50%]",
    );
    scene.begin(planned).unwrap();
    let path = scene.path();
    let files: Vec<(PathBuf, Vec<u8>)> = ["run.json", "slots.jsonl", "end.json", "experiment.yaml"]
        .into_iter()
        .map(|name| (path.join(name), fs::read(path.join(name)).unwrap()))
        .collect();
    let mut random = Random(11);
    let mut survived = 0;
    for _ in 0..400 {
        // Slots twice as often as the others.
        let (file, text) = &files[[0, 1, 1, 2, 3][random.below(5)]];
        fs::write(file, mutated(text, &mut random)).unwrap();
        if let Ok(run) = plumb_store::read_run(&path) {
            let judgement = plumb_judge::judge(&run.header.plan, &run.slots);
            let style = plumb_report::TextStyle { colour: true, width: 100 };
            let lengths = [
                plumb_report::text(&run, &judgement, &style).len(),
                plumb_report::markdown(&run, &judgement).len(),
                plumb_report::html(&run, &judgement).len(),
                plumb_report::json(&run, &judgement).len(),
                plumb_report::junit(&run, &judgement).len(),
            ];
            assert!(lengths.iter().all(|length| *length < 16 << 20), "{lengths:?}");
            survived += 1;
        }
        fs::write(file, text).unwrap();
    }
    assert!(survived > 40, "only {survived} of 400 damaged runs could be read, so hardly anything was tried");
}
