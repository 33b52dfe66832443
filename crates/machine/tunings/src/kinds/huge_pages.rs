//! Huge pages.

use plumb_host::settings::{Machine, Setting};

use crate::found::Found;

/// When memory is backed by huge pages.
pub(crate) fn huge_pages(machine: &Machine, argument: Option<&str>) -> Found {
    let mut found = Found::default();
    let setting = Setting::sys("kernel/mm/transparent_hugepage/enabled");
    found.want(machine, "transparent huge pages", setting, argument.unwrap_or("never"));
    found
}
