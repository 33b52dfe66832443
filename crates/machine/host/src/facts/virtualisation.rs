//! Whether this machine is a virtual one, and whose.
//!
//! On x86 the CPU itself tells, by a flag and by a name in a CPUID leaf that is reserved for
//! hypervisors. Elsewhere the firmware's tables give it away, unless the hypervisor hides.

use crate::text;

/// The hypervisor by its name; `None` on bare metal. `has_flag` is what the CPU's flags say.
pub(super) fn hypervisor(has_flag: bool) -> Option<String> {
    if has_flag {
        let name = cpuid_signature().and_then(|signature| name_of_signature(&signature));
        return Some(name.unwrap_or("unknown").to_owned());
    }
    // The control domain of Xen is privileged, but runs on a hypervisor too.
    let tree_name = text::read_trimmed("/proc/device-tree/hypervisor/compatible");
    let tells_itself = text::read_trimmed("/sys/hypervisor/type").or(tree_name);
    let by_firmware = || platform().and_then(|platform| name_of_platform(&platform).map(str::to_owned));
    tells_itself
        .map(|name| name.trim_matches('\0').to_owned())
        .or_else(|| if cfg!(target_arch = "x86_64") { None } else { by_firmware() })
}

/// Maker and product as the firmware has them.
pub(super) fn platform() -> Option<String> {
    let part = |name: &str| text::read_trimmed(format!("/sys/class/dmi/id/{name}"));
    let parts: Vec<String> = ["sys_vendor", "product_name"].into_iter().filter_map(part).collect();
    let platform = parts.join(" ").trim().to_owned();
    (!platform.is_empty()).then_some(platform)
}

/// Names that hypervisors give in CPUID leaf 0x4000_0000, as the kernel's `detect_hypervisor_vendor`
/// drivers know them (arch/x86/kernel/cpu/hypervisor.c).
fn name_of_signature(signature: &[u8]) -> Option<&'static str> {
    Some(match signature {
        b"KVMKVMKVM\0\0\0" => "KVM",
        b"Microsoft Hv" => "Hyper-V",
        b"VMwareVMware" => "VMware",
        b"XenVMMXenVMM" => "Xen",
        b"TCGTCGTCGTCG" => "QEMU without KVM",
        b"VBoxVBoxVBox" => "VirtualBox",
        b"bhyve bhyve " => "bhyve",
        b"ACRNACRNACRN" => "ACRN",
        b"Jailhouse\0\0\0" => "Jailhouse",
        _ => return None,
    })
}

fn name_of_platform(platform: &str) -> Option<&'static str> {
    // Amazon's machines without a hypervisor have names that end so.
    if platform.starts_with("Amazon EC2") {
        return (!platform.ends_with("metal")).then_some("KVM");
    }
    let names = [("QEMU", "QEMU"), ("KVM", "KVM"), ("VMware", "VMware"), ("Google Compute Engine", "KVM")];
    names.into_iter().find(|(part, _)| platform.contains(part)).map(|(_, name)| name)
}

#[cfg(target_arch = "x86_64")]
fn cpuid_signature() -> Option<Vec<u8>> {
    let leaf = core::arch::x86_64::__cpuid(0x4000_0000);
    Some([leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes).collect())
}

#[cfg(not(target_arch = "x86_64"))]
fn cpuid_signature() -> Option<Vec<u8>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hypervisors_are_known_by_what_they_call_themselves() {
        assert_eq!(name_of_signature(b"KVMKVMKVM\0\0\0"), Some("KVM"));
        assert_eq!(name_of_signature(b"Microsoft Hv"), Some("Hyper-V"));
        assert_eq!(name_of_signature(b"someone-else"), None);
        assert_eq!(name_of_signature(b""), None);
    }

    #[test]
    fn platforms_give_virtual_machines_away() {
        assert_eq!(name_of_platform("Amazon EC2 m7g.large"), Some("KVM"));
        assert_eq!(name_of_platform("Amazon EC2 m7g.metal"), None);
        assert_eq!(name_of_platform("QEMU KVM Virtual Machine"), Some("QEMU"));
        assert_eq!(name_of_platform("Ampere Mt. Jade"), None);
    }

    #[test]
    fn the_flag_alone_is_enough() {
        assert!(hypervisor(true).is_some());
    }
}
