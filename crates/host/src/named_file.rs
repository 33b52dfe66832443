//! The bounded reader of files that users name: experiments, certificates, templates, passwords.
//!
//! Such a name may lead to `/dev/zero`, to a directory, or to a file of many gigabytes. Each is refused before
//! memory is filled. A pipe is read like a file, because shells offer one as `<(command)` or `/dev/stdin`.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::Error;

/// The limit for files without a smaller one of their own.
pub const BYTES_MAX: u64 = 16 << 20;

/// The bytes of a file or a pipe, at most [`BYTES_MAX`]. Waits for the writer of a pipe.
///
/// # Errors
/// When it cannot be read, has more bytes, or is neither a regular file nor a pipe.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    read_at_most(path, BYTES_MAX)
}

/// The same with another limit.
///
/// # Errors
/// As [`read`].
pub fn read_at_most(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
    bounded(open(path)?, path, bytes_max)
}

/// A file or a pipe to read from, for what is too large to hold. Waits for the writer of a pipe.
///
/// # Errors
/// When it cannot be opened, or is neither a regular file nor a pipe.
pub fn open(path: &Path) -> Result<File, Error> {
    let failed = |cause| Error::Read { path: path.to_owned(), cause };
    // The kind is checked before the file is opened, because opening a device may already have an effect.
    let kind = std::fs::metadata(path).map_err(failed)?.file_type();
    refuse_unreadable(path, kind)?;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOCTTY);
    if !kind.is_fifo() {
        // If another process puts a pipe in this place meanwhile, opening it must not wait.
        options.custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK);
    }
    let file = options.open(path).map_err(failed)?;
    // The name may lead elsewhere than when it was looked at.
    refuse_unreadable(path, file.metadata().map_err(failed)?.file_type())?;
    Ok(file)
}

/// The text of a file or a pipe, at most [`BYTES_MAX`].
///
/// # Errors
/// As [`read`], and when it is not UTF-8.
pub fn text(path: &Path) -> Result<String, Error> {
    text_at_most(path, BYTES_MAX)
}

/// The same with another limit.
///
/// # Errors
/// As [`text`].
pub fn text_at_most(path: &Path, bytes_max: u64) -> Result<String, Error> {
    String::from_utf8(read_at_most(path, bytes_max)?).map_err(|_| {
        let cause = io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
        Error::Read { path: path.to_owned(), cause }
    })
}

/// The bytes of a regular file. Neither follows a link nor waits for anybody, so a server may call it.
///
/// # Errors
/// When it cannot be read, has more bytes, or is not a regular file.
pub fn read_regular(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
    let failed = |cause| Error::Read { path: path.to_owned(), cause };
    let kind = std::fs::symlink_metadata(path).map_err(failed)?.file_type();
    if !kind.is_file() {
        return Err(Error::NotAFile { path: path.to_owned(), kind });
    }
    let flags = libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    bounded(file, path, bytes_max)
}

fn refuse_unreadable(path: &Path, kind: FileType) -> Result<(), Error> {
    if kind.is_file() || kind.is_fifo() {
        return Ok(());
    }
    Err(Error::NotAFile { path: path.to_owned(), kind })
}

fn bounded(file: File, path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
    let failed = |cause| Error::Read { path: path.to_owned(), cause };
    let too_large = || Error::TooLarge { path: path.to_owned(), bytes_max };
    let metadata = file.metadata().map_err(failed)?;
    // The name may lead elsewhere than when it was looked at.
    refuse_unreadable(path, metadata.file_type())?;
    if metadata.len() > bytes_max {
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
        let refused = |path: &Path| read(path).unwrap_err().to_string();
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
        // Nothing could read this one whole.
        File::create(&large).unwrap().set_len(1 << 42).unwrap();
        assert!(read(&large).unwrap_err().to_string().ends_with("large: it has more than 16 MiB"));
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
        assert!(read(&path).unwrap_err().to_string().ends_with("it has more than 16 MiB"));
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
