//! Bounded reading of files that users name: experiments, certificates, templates, passwords.
//!
//! Such a name may lead to `/dev/zero`, to a directory, or to a file of many gigabytes. Each is refused before it
//! can fill the memory. A pipe is read like a file, because shells pass one as `<(command)` or `/dev/stdin`.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::Error;

/// The default limit for the size of a file.
pub const BYTES_MAX: u64 = 16 << 20;

/// Reads a file or a pipe of at most [`BYTES_MAX`] bytes. Waits for the writer of a pipe.
///
/// # Errors
/// When it cannot be read, has more bytes, or is neither a regular file nor a pipe.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    read_at_most(path, BYTES_MAX)
}

/// Like [`read_file`], with another limit in bytes.
///
/// # Errors
/// As [`read_file`].
pub fn read_at_most(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
    bounded(open(path)?, path, bytes_max)
}

/// Opens a file or a pipe that may be too large for memory. Waits for the writer of a pipe.
///
/// # Errors
/// When it cannot be opened, or is neither a regular file nor a pipe.
pub fn open(path: &Path) -> Result<File, Error> {
    let is_readable = |kind: &FileType| kind.is_file() || kind.is_fifo();
    let kind = checked(path, std::fs::metadata(path), is_readable)?;
    // If another process has put a pipe in place of the file, opening it must not wait.
    let flags = if kind.is_fifo() { 0 } else { libc::O_NONBLOCK };
    open_checked(path, flags, is_readable)
}

/// Reads the text of a file or a pipe of at most [`BYTES_MAX`] bytes.
///
/// # Errors
/// As [`read_file`], and when it is not UTF-8.
pub fn text(path: &Path) -> Result<String, Error> {
    text_at_most(path, BYTES_MAX)
}

/// Like [`text`], with another limit in bytes.
///
/// # Errors
/// As [`text`].
pub fn text_at_most(path: &Path, bytes_max: u64) -> Result<String, Error> {
    String::from_utf8(read_at_most(path, bytes_max)?).map_err(|_| {
        let cause = io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
        Error::Read { path: path.to_owned(), cause }
    })
}

/// Reads a regular file. Follows no link and never waits, so a server can use it for files of other users.
///
/// # Errors
/// When it cannot be read, has more bytes, or is not a regular file.
pub fn read_regular(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
    checked(path, std::fs::symlink_metadata(path), FileType::is_file)?;
    bounded(open_checked(path, libc::O_NONBLOCK | libc::O_NOFOLLOW, FileType::is_file)?, path, bytes_max)
}

/// Opens a path whose kind has been checked, and checks it again, because the path may lead elsewhere by now. The first
/// check is needed because opening a device may already have an effect.
fn open_checked(path: &Path, flags: i32, is_allowed: impl Fn(&FileType) -> bool) -> Result<File, Error> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOCTTY | flags).open(path);
    let file = file.map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
    checked(path, file.metadata(), is_allowed)?;
    Ok(file)
}

fn checked(
    path: &Path,
    metadata: io::Result<Metadata>,
    is_allowed: impl Fn(&FileType) -> bool,
) -> Result<FileType, Error> {
    let kind = metadata.map_err(|cause| Error::Read { path: path.to_owned(), cause })?.file_type();
    if is_allowed(&kind) { Ok(kind) } else { Err(Error::NotAFile { path: path.to_owned(), kind }) }
}

fn bounded(file: File, path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
    let failed = |cause| Error::Read { path: path.to_owned(), cause };
    let too_large = || Error::TooLarge { path: path.to_owned(), bytes_max };
    if file.metadata().map_err(failed)?.len() > bytes_max {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // Files of /proc have a length of 0, and a file may grow while it is read.
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > bytes_max { Err(too_large()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    fn pipe(directory: &Path) -> PathBuf {
        let path = directory.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        path
    }

    #[test]
    fn only_files_and_pipes_are_read() {
        let temporary = tempfile::tempdir().unwrap();
        let socket = temporary.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let refused = |path: &Path| read_file(path).unwrap_err().to_string();
        assert_eq!(refused(Path::new("/dev/zero")), "read /dev/zero: it is a character device, not a file");
        assert_eq!(refused(Path::new("/proc")), "read /proc: it is a directory, not a file");
        assert!(refused(&socket).ends_with("socket: it is a socket, not a file"));
        assert_eq!(refused(Path::new("/nowhere")), "read /nowhere: No such file or directory (os error 2)");
        assert!(text(Path::new("/proc/self/status")).unwrap().starts_with("Name:"), "its length is 0");
    }

    #[test]
    fn a_file_above_the_limit_is_refused_before_it_is_read() {
        let temporary = tempfile::tempdir().unwrap();
        let large = temporary.path().join("large");
        // No memory could hold this one.
        File::create(&large).unwrap().set_len(1 << 42).unwrap();
        assert!(read_file(&large).unwrap_err().to_string().ends_with("large: it has more than 16 MiB"));
        std::fs::write(&large, "12345").unwrap();
        assert_eq!(read_at_most(&large, 5).unwrap(), b"12345");
        assert!(read_at_most(&large, 4).unwrap_err().to_string().ends_with("it has more than 4 bytes"));
        std::fs::write(&large, [0xff]).unwrap();
        assert!(text(&large).unwrap_err().to_string().ends_with("large: it is not UTF-8 text"));
    }

    #[test]
    fn a_pipe_is_read_up_to_the_limit() {
        let temporary = tempfile::tempdir().unwrap();
        let path = pipe(temporary.path());
        let write = |bytes: &'static [u8]| {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut pipe = OpenOptions::new().write(true).open(path).unwrap();
                // The reader of an endless stream closes the pipe.
                while pipe.write_all(bytes).is_ok() && bytes.len() > 5 {}
            })
        };
        let writer = write(b"hello");
        assert_eq!(text(&path).unwrap(), "hello");
        writer.join().unwrap();
        let writer = write(&[b'x'; 4096]);
        assert!(read_file(&path).unwrap_err().to_string().ends_with("it has more than 16 MiB"));
        writer.join().unwrap();
    }

    #[test]
    fn a_server_follows_no_link_and_waits_for_no_pipe() {
        let temporary = tempfile::tempdir().unwrap();
        let path = pipe(temporary.path());
        let refused = |path: &Path| read_regular(path, 9).unwrap_err().to_string();
        assert!(refused(&path).ends_with("it is a pipe, not a file"));
        let (file, link) = (temporary.path().join("file"), temporary.path().join("link"));
        std::fs::write(&file, "123456789").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(refused(&link).ends_with("it is a symbolic link, not a file"));
        assert_eq!(read_regular(&file, 9).unwrap(), b"123456789");
        std::fs::write(&file, "1234567890").unwrap();
        assert!(refused(&file).ends_with("it has more than 9 bytes"));
    }
}
