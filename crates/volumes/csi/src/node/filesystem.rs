//! The file system of a volume: made, checked and grown.
//!
//! A file system is created and checked on the volume's own file, before any client has the volume as a
//! device. Neither step counts against the volume's policy: an empty volume under an adaptive policy of used
//! space has one operation per second. For the same reason nothing is left for later: ext4 would otherwise
//! write its tables in the background, in the middle of a measurement.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use plumb_host::process::{Exit, run_for_output, which};

use crate::capability::FILE_SYSTEM;
use crate::fault::{CallError, Lacking};
use crate::record::failed;

/// Where ext4's superblock has its magic number (`s_magic`, <https://docs.kernel.org/filesystems/ext4/super.html>).
const MAGIC_AT: u64 = SUPERBLOCK_AT + 0x38;
const SUPERBLOCK_AT: u64 = 1024;
const MAGIC: [u8; 2] = [0x53, 0xef];
/// How many bytes are read at a time in the search for other content.
const LOOK_BYTES: usize = 1 << 20;
/// A check of a large file system with errors reads all its tables.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The exit codes of e2fsck(8) that leave a good file system: no errors, errors corrected, and errors
/// corrected with a reboot advised for a root file system.
const GOOD_CODES: [i32; 3] = [0, 1, 2];

/// The contents of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Nothing,
    FileSystem,
    Other,
}

/// Creates a file system on an empty volume, and checks an existing one.
///
/// `unfinished` is a file that exists while one is being made: after a kill in the middle it is made again.
///
/// # Errors
/// When the volume holds something else, or the file system has errors that e2fsck does not correct unasked.
pub fn prepare(volume: &Path, unfinished: &Path) -> Result<(), CallError> {
    let content = content(volume).map_err(|cause| failed("look at", volume, &cause))?;
    match content {
        _ if unfinished.exists() => make(volume, unfinished),
        Content::Nothing => make(volume, unfinished),
        Content::FileSystem => check(volume),
        Content::Other => Err(CallError::Precondition(format!(
            "the volume holds data that is no {FILE_SYSTEM} file system, and it is not overwritten; use it as a block device"
        ))),
    }
}

fn make(volume: &Path, unfinished: &Path) -> Result<(), CallError> {
    File::create(unfinished).map_err(|cause| failed("make", unfinished, &cause))?;
    let options = ["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let code = run("mkfs.ext4", &options, volume)?;
    if code.0 != Exit::Code(0) {
        return Err(CallError::host(format!("make a file system on {}: {}", volume.display(), code.1)));
    }
    std::fs::remove_file(unfinished).map_err(|cause| failed("remove", unfinished, &cause))
}

/// Corrects errors that need no decision, and fills a volume that grew while it was not in use.
fn check(volume: &Path) -> Result<(), CallError> {
    mend(volume, &["-p"])?;
    if !is_smaller(volume).map_err(|cause| failed("look at", volume, &cause))? {
        return Ok(());
    }
    // resize2fs asks for a full check before it.
    mend(volume, &["-p", "-f"])?;
    grow(volume)
}

fn mend(volume: &Path, options: &[&str]) -> Result<(), CallError> {
    match run("e2fsck", options, volume)? {
        (Exit::Code(code), _) if GOOD_CODES.contains(&code) => Ok(()),
        (exit, words) => Err(CallError::host(format!(
            "check the file system on {}: e2fsck ended with {exit} and says: {words}; `e2fsck -f` by hand may mend it",
            volume.display()
        ))),
    }
}

/// Grows a file system to fill its device or file, also while it is mounted.
///
/// # Errors
/// When resize2fs fails.
pub fn grow(device: &Path) -> Result<(), CallError> {
    match run("resize2fs", &[], device)? {
        (Exit::Code(0), _) => Ok(()),
        (_, words) if words.contains("Permission denied") => Err(CallError::Precondition(format!(
            "the kernel lets only a process with CAP_SYS_RESOURCE grow a mounted file system; that on {} grows when the volume is \
             staged again",
            device.display()
        ))),
        (_, words) => Err(CallError::host(format!("grow the file system on {}: {words}", device.display()))),
    }
}

/// Whether this host has the programs for file systems.
///
/// # Errors
/// When it lacks one.
pub fn can_be_made() -> Result<(), Lacking> {
    let missing = ["mkfs.ext4", "e2fsck", "resize2fs"].into_iter().find(|program| which(program).is_none());
    missing.map_or(Ok(()), |program| Err(Lacking::Program { program, package: "e2fsprogs" }))
}

/// Runs a program on a path. Returns how it ended, and its output.
fn run(program: &str, options: &[&str], path: &Path) -> Result<(Exit, String), CallError> {
    can_be_made()?;
    let found = which(program).unwrap_or_else(|| program.into());
    let arguments = options.iter().map(|option| option.as_ref()).chain([path.as_os_str()]);
    let output = run_for_output(found, arguments, PATIENCE)?;
    let words = format!("{} {}", output.stdout.trim(), output.stderr.trim());
    Ok((output.exit, words.trim().replace('\n', "; ")))
}

/// Whether the file system ends at least one block before its volume. The superblock's offsets are those
/// above.
fn is_smaller(volume: &Path) -> io::Result<bool> {
    let file = File::open(volume)?;
    let number = |at: u64| -> io::Result<u64> {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, SUPERBLOCK_AT + at)?;
        Ok(u64::from(u32::from_le_bytes(bytes)))
    };
    let block_bytes = 1024_u64 << number(0x18)?.min(16);
    let blocks = number(0x4)? | number(0x150)? << 32;
    Ok(blocks.saturating_add(1).saturating_mul(block_bytes) <= file.metadata()?.len())
}

fn content(volume: &Path) -> io::Result<Content> {
    let file = File::open(volume)?;
    let mut magic = [0; 2];
    if file.read_exact_at(&mut magic, MAGIC_AT).is_ok() && magic == MAGIC {
        return Ok(Content::FileSystem);
    }
    if is_zero(&file)? { Ok(Content::Nothing) } else { Ok(Content::Other) }
}

/// Whether a file holds only zeros. Holes are not read.
fn is_zero(file: &File) -> io::Result<bool> {
    let mut block = vec![0; LOOK_BYTES];
    let mut at = 0;
    loop {
        at = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            // No data follows.
            Err(rustix::io::Errno::NXIO) => return Ok(true),
            found => found?,
        };
        let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(at))?;
        while at < end {
            let most = usize::try_from(end - at).map_or(LOOK_BYTES, |left| left.min(LOOK_BYTES));
            let read = file.read_at(&mut block[..most], at)?;
            if read == 0 {
                return Ok(true);
            }
            if block[..read].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += read as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nothing_is_overwritten_and_an_interrupted_start_is_made_anew() {
        if let Err(reason) = can_be_made() {
            let _ = io::Write::write_all(
                &mut io::stderr(),
                format!("test skipped: csi::node::filesystem: {reason}\n").as_bytes(),
            );
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let (volume, unfinished) = (directory.path().join("volume"), directory.path().join("unfinished"));
        let file = File::create_new(&volume).unwrap();
        file.set_len(32 << 20).unwrap();
        file.write_all_at(b"precious", 4096).unwrap();
        assert!(matches!(prepare(&volume, &unfinished), Err(CallError::Precondition(_))));
        file.write_all_at(&[0; 8], 4096).unwrap();
        assert_eq!(content(&volume).unwrap(), Content::Nothing);
        file.write_all_at(b"precious", 20 << 20).unwrap();
        assert_eq!(content(&volume).unwrap(), Content::Other, "far from the beginning");
        file.write_all_at(&[0; 8], 20 << 20).unwrap();
        prepare(&volume, &unfinished).unwrap();
        assert_eq!(content(&volume).unwrap(), Content::FileSystem);
        assert!(!unfinished.exists());
        assert!(!is_smaller(&volume).unwrap());
        file.set_len(64 << 20).unwrap();
        assert!(is_smaller(&volume).unwrap());
        prepare(&volume, &unfinished).unwrap();
        assert!(!is_smaller(&volume).unwrap());
        // A kill during mkfs leaves this state.
        file.write_all_at(b"half", 0).unwrap();
        file.write_all_at(&[0; 2], MAGIC_AT).unwrap();
        File::create(&unfinished).unwrap();
        prepare(&volume, &unfinished).unwrap();
        assert!(content(&volume).unwrap() == Content::FileSystem && !unfinished.exists());
    }
}
