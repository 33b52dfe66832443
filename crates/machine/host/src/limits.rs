//! Limits that the kernel sets to this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files that this process may have open from its soft to its hard limit, and
/// says how many that are now. A load of thousands of connections needs them.
///
/// Children inherit it. Where the kernel refuses, the limit stays as it was.
pub fn raise_open_files_limit() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, ..before };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { before.current };
    // No limit at all is shown as none.
    current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: hard });
        assert_eq!(raise_open_files_limit(), hard.unwrap_or(u64::MAX));
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}
