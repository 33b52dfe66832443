//! The devices, CPU features and libraries that can take encryption, compression and copies off a program here, as text.

use plumb_host::acceleration::{AccelerationLibrary, CpuFeature};
use plumb_host::accelerators::{Accelerator, AcceleratorKind, is_part_of_another};
use plumb_report::wrap;

/// Devices, instructions and libraries: what is there, and what to do about what cannot be used.
pub fn describe(
    devices: &[Accelerator],
    features: &[CpuFeature],
    libraries: &[AccelerationLibrary],
    width: usize,
) -> String {
    let mut lines = vec!["accelerators".to_owned()];
    let own: Vec<&Accelerator> =
        devices.iter().filter(|device| !is_part_of_another(device, devices)).collect();
    if own.is_empty() {
        lines.push("  no QAT, DSA or IAA device".to_owned());
    }
    for device in own {
        let advice = device.missing.iter().chain(&device.notes);
        lines.extend(entry(device.is_usable(), &device_words(device, devices), advice, width));
    }
    for feature in features {
        let what = format!("{} ({})", feature.name, feature.good_for);
        let lack = (!feature.present).then(|| "this CPU does not have it".to_owned());
        lines.extend(entry(feature.present, &what, lack.iter(), width));
    }
    for library in libraries {
        let file = library.file.as_ref().map(|file| format!("  {file}")).unwrap_or_default();
        let what = format!("{}{file}", library.name);
        lines.extend(entry(library.missing.is_none(), &what, library.missing.iter(), width));
    }
    lines.join("\n") + "\n"
}

fn device_words(device: &Accelerator, devices: &[Accelerator]) -> String {
    let virtual_function = if device.physical_function.is_some() { " VF" } else { "" };
    let mut words =
        vec![format!("{} {}{virtual_function} {}", device.kind.name(), device.model, device.address)];
    words.extend(device.driver.as_ref().map(|driver| format!("driver {driver}")));
    words.extend(device.numa_node.map(|node| format!("node {node}")));
    words.extend(device.state.clone());
    let separator = if device.kind == AcceleratorKind::Qat { ";" } else { ", " };
    words.extend((!device.services.is_empty()).then(|| device.services.join(separator)));
    words.extend(functions_words(device, devices));
    words.join(" · ")
}

/// `12 of 16 virtual functions, 11 on vfio-pci`.
fn functions_words(device: &Accelerator, devices: &[Accelerator]) -> Option<String> {
    let most = device.virtual_functions_max.filter(|most| *most > 0)?;
    let mut words = format!("{} of {most} virtual functions", device.virtual_functions.len());
    let drivers = device
        .virtual_functions
        .iter()
        .filter_map(|address| devices.iter().find(|other| other.address == *address)?.driver.clone());
    let mut counted: Vec<(String, usize)> = Vec::new();
    for driver in drivers {
        match counted.iter_mut().find(|(known, _)| *known == driver) {
            Some((_, count)) => *count += 1,
            None => counted.push((driver, 1)),
        }
    }
    for (driver, count) in counted {
        words.push_str(&format!(", {count} on {driver}"));
    }
    Some(words)
}

/// A line with its mark, and below it what to do, in lines of the terminal's width.
fn entry<'a>(
    is_fine: bool,
    what: &str,
    advice: impl Iterator<Item = &'a String>,
    width: usize,
) -> Vec<String> {
    let mark = if is_fine { "✔" } else { "!" };
    let mut lines = vec![format!("{mark} {what}")];
    for advice in advice {
        let lead = |at: usize| if at == 0 { "    → " } else { "      " };
        let advice = wrap(advice, width.saturating_sub(lead(0).chars().count()));
        lines.extend(advice.iter().enumerate().map(|(at, line)| format!("{}{line}", lead(at))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(kind: AcceleratorKind, model: &str, address: &str) -> Accelerator {
        Accelerator {
            kind,
            model: model.to_owned(),
            address: address.to_owned(),
            id: "8086:4940".to_owned(),
            driver: None,
            numa_node: None,
            state: None,
            services: Vec::new(),
            physical_function: None,
            virtual_functions: Vec::new(),
            virtual_functions_max: None,
            missing: None,
            notes: Vec::new(),
        }
    }

    /// A server with a card that is up and has two virtual functions, one that is down, and an IAA device.
    fn server() -> Vec<Accelerator> {
        let of = |address: &str, driver: Option<&str>| Accelerator {
            physical_function: Some("0000:6b:00.0".to_owned()),
            driver: driver.map(str::to_owned),
            ..device(AcceleratorKind::Qat, "4xxx", address)
        };
        let up = Accelerator {
            driver: Some("4xxx".to_owned()),
            numa_node: Some(0),
            state: Some("up".to_owned()),
            services: ["sym", "asym"].map(str::to_owned).into(),
            virtual_functions: ["0000:6b:00.1", "0000:6b:00.2"].map(str::to_owned).into(),
            virtual_functions_max: Some(16),
            ..device(AcceleratorKind::Qat, "4xxx", "0000:6b:00.0")
        };
        let down = Accelerator {
            driver: Some("4xxx".to_owned()),
            numa_node: Some(1),
            state: Some("down".to_owned()),
            services: vec!["dc".to_owned()],
            missing: Some("it is down: `echo up > /sys/bus/pci/devices/0000:e8:00.0/qat/state`".to_owned()),
            ..device(AcceleratorKind::Qat, "4xxx", "0000:e8:00.0")
        };
        let iaa = Accelerator {
            driver: Some("idxd".to_owned()),
            state: Some("enabled".to_owned()),
            services: vec!["wq1.0 kernel".to_owned()],
            notes: vec!["its queues belong to the kernel: programs need one of type `user`".to_owned()],
            ..device(AcceleratorKind::Iaa, "spr", "0000:6a:02.0")
        };
        vec![up, of("0000:6b:00.1", Some("vfio-pci")), of("0000:6b:00.2", None), down, iaa]
    }

    #[test]
    fn a_server_with_devices_is_described() {
        let features = [
            CpuFeature {
                name: "AVX-512 IFMA",
                flag: "avx512ifma",
                present: true,
                good_for: "eight operations in one pass",
            },
            CpuFeature { name: "SHA", flag: "sha_ni", present: false, good_for: "SHA-256 in hardware" },
        ];
        let libraries = [
            AccelerationLibrary {
                name: "crypto_mb".to_owned(),
                file: Some("/usr/local/lib/plumbline/crypto-mb/libcrypto_mb.so".to_owned()),
                missing: None,
            },
            AccelerationLibrary {
                name: "QATzip".to_owned(),
                file: Some("/lib/libqatzip.so.3".to_owned()),
                missing: Some(
                    "it loads, and there is no QAT device with the service `dc`: it would compress in software".to_owned(),
                ),
            },
            AccelerationLibrary {
                name: "QPL".to_owned(),
                file: None,
                missing: Some("it is not installed: build github.com/intel/qpl".to_owned()),
            },
        ];
        insta::assert_snapshot!(describe(&server(), &features, &libraries, 80), @"
        accelerators
        ✔ QAT 4xxx 0000:6b:00.0 · driver 4xxx · node 0 · up · sym;asym · 2 of 16 virtual functions, 1 on vfio-pci
        ! QAT 4xxx 0000:e8:00.0 · driver 4xxx · node 1 · down · dc
            → it is down: `echo up > /sys/bus/pci/devices/0000:e8:00.0/qat/state`
        ✔ IAA spr 0000:6a:02.0 · driver idxd · enabled · wq1.0 kernel
            → its queues belong to the kernel: programs need one of type `user`
        ✔ AVX-512 IFMA (eight operations in one pass)
        ! SHA (SHA-256 in hardware)
            → this CPU does not have it
        ✔ crypto_mb  /usr/local/lib/plumbline/crypto-mb/libcrypto_mb.so
        ! QATzip  /lib/libqatzip.so.3
            → it loads, and there is no QAT device with the service `dc`: it would
              compress in software
        ! QPL
            → it is not installed: build github.com/intel/qpl
        ");
    }

    #[test]
    fn a_machine_without_devices_says_so_and_a_guest_shows_its_virtual_function() {
        let alone = Accelerator {
            physical_function: Some("unknown".to_owned()),
            missing: Some("no driver is bound to it: bind it to vfio-pci for qatlib".to_owned()),
            ..device(AcceleratorKind::Qat, "420xx", "0000:00:05.0")
        };
        let texts = [describe(&[], &[], &[], 80), describe(&[alone], &[], &[], 60)];
        insta::assert_snapshot!(texts.join("\n"), @"
        accelerators
          no QAT, DSA or IAA device

        accelerators
        ! QAT 420xx VF 0000:00:05.0
            → no driver is bound to it: bind it to vfio-pci for
              qatlib
        ");
    }
}
