//! QuickAssist devices and their virtual functions.
//!
//! Ids, drivers and firmware are those of the kernel's `drivers/crypto/intel/qat` (`qat_common/adf_accel_devices.h`,
//! `qat_*/adf_drv.c`) and `include/linux/pci_ids.h`; the id of D15xx is of Intel's own driver, as the kernel has none for
//! it. `qat/state` and `qat/cfg_services` are described in `Documentation/ABI/testing/sysfs-driver-qat`; older families
//! have neither. That qatlib uses virtual functions which are bound to vfio-pci is said in qat_init.sh(8).

use super::accelerator::{Accelerator, AcceleratorKind};
use super::pci::PciDevice;

/// One family.
struct Model {
    physical: u16,
    virtual_function: u16,
    /// The driver's name in /sys.
    name: &'static str,
    /// The kernel's module for it.
    module: Option<&'static str>,
    /// The kernel's module for its virtual functions; later families have none but vfio-pci.
    virtual_module: Option<&'static str>,
}

const fn model(
    physical: u16,
    virtual_function: u16,
    name: &'static str,
    module: Option<&'static str>,
    virtual_module: Option<&'static str>,
) -> Model {
    Model { physical, virtual_function, name, module, virtual_module }
}

const MODELS: [Model; 9] = [
    model(0x0435, 0x0443, "dh895xcc", Some("qat_dh895xcc"), Some("qat_dh895xccvf")),
    model(0x37c8, 0x37c9, "c6xx", Some("qat_c62x"), Some("qat_c62xvf")),
    model(0x19e2, 0x19e3, "c3xxx", Some("qat_c3xxx"), Some("qat_c3xxxvf")),
    model(0x6f54, 0x6f55, "d15xx", None, None),
    model(0x4940, 0x4941, "4xxx", Some("qat_4xxx"), None),
    model(0x4942, 0x4943, "401xx", Some("qat_4xxx"), None),
    model(0x4944, 0x4945, "402xx", Some("qat_4xxx"), None),
    model(0x4946, 0x4947, "420xx", Some("qat_420xx"), None),
    model(0x4948, 0x4949, "6xxx", Some("qat_6xxx"), None),
];

/// Drivers that hand a device to a guest or to a program in user space.
const HANDS_ON: [&str; 3] = ["vfio-pci", "qat_vfio_pci", "igb_uio"];

/// The device, if it is one.
pub(super) fn describe(device: &PciDevice) -> Option<Accelerator> {
    let is_one = |model: &&Model| [model.physical, model.virtual_function].contains(&device.id);
    let model = MODELS.iter().find(is_one)?;
    let is_virtual = device.id == model.virtual_function;
    let configured = device.file_text("qat/cfg_services");
    let services = configured.iter().flat_map(|services| services.split([';', ',', ' ']));
    let mut found = Accelerator {
        kind: AcceleratorKind::Qat,
        model: model.name.to_owned(),
        address: device.address.clone(),
        id: device.full_id(),
        driver: device.driver(),
        numa_node: device.numa_node(),
        state: device.file_text("qat/state"),
        services: services.filter(|service| !service.is_empty()).map(str::to_owned).collect(),
        physical_function: is_virtual.then(|| device.physical_function().unwrap_or("unknown".to_owned())),
        virtual_functions: device.virtual_functions(),
        virtual_functions_max: device.virtual_functions_max(),
        missing: None,
        notes: Vec::new(),
    };
    if is_virtual {
        found.missing = missing_of_virtual(&found, model);
    } else {
        found.missing = missing(&found, model, configured.is_some());
        found.notes = notes(&found, configured.is_some());
    }
    Some(found)
}

fn missing(found: &Accelerator, model: &Model, has_services: bool) -> Option<String> {
    let directory = format!("/sys/bus/pci/devices/{}/qat", found.address);
    let Some(driver) = &found.driver else {
        return Some(match model.module {
            Some(module) => {
                format!(
                    "no driver is bound to it: `modprobe {module}`, with its firmware from linux-firmware installed"
                )
            }
            None => {
                "no driver is bound to it: install Intel's QAT driver, because the kernel has none for it"
                    .to_owned()
            }
        });
    };
    if HANDS_ON.contains(&driver.as_str()) {
        let own = model.module.unwrap_or("Intel's own driver");
        return Some(format!(
            "{driver} holds it for a guest or another program: bind it to the driver of {own} instead"
        ));
    }
    let is_down = found.state.as_deref() == Some("down");
    if has_services && found.services.is_empty() {
        let first = if is_down { String::new() } else { format!("`echo down > {directory}/state`, ") };
        return Some(format!(
            "no service is configured: {first}`echo 'sym;asym' > {directory}/cfg_services`, `echo up > {directory}/state`"
        ));
    }
    match found.state.as_deref() {
        Some("down") => Some(format!("it is down: `echo up > {directory}/state`")),
        Some("up") | None => None,
        Some(other) => {
            Some(format!("its state is `{other}`: look for {} in the kernel's log", found.address))
        }
    }
}

fn notes(found: &Accelerator, has_services: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if has_services && found.is_usable() && !found.services.iter().any(|service| service == "asym") {
        notes.push("its services do no private-key operations: TLS handshakes need `asym`".to_owned());
    }
    if found.is_usable() && found.virtual_functions.is_empty() && found.virtual_functions_max > Some(0) {
        notes.push(
            "it has no virtual functions: programs that use qatlib need some (`systemctl start qat` makes them)".to_owned(),
        );
    }
    notes
}

fn missing_of_virtual(found: &Accelerator, model: &Model) -> Option<String> {
    if found.driver.is_some() {
        return None;
    }
    let kernel =
        model.virtual_module.map(|module| format!(", or `modprobe {module}` for the kernel's own use"));
    Some(format!(
        "no driver is bound to it: bind it to vfio-pci for qatlib (`systemctl start qat`){}",
        kernel.unwrap_or_default()
    ))
}
