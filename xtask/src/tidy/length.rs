//! Short files, which a reader can keep in mind. A file counts without its tests. Clippy holds the length of functions.

use super::rust_file::RustFile;
use super::violation::Violation;

const FILE_LINES_MAX: usize = 600;

pub fn check(file: &RustFile) -> Option<Violation> {
    let lines = file.lines_without_tests();
    let what = format!("{lines} lines without tests; at most {FILE_LINES_MAX}: split it along its nouns");
    (lines > FILE_LINES_MAX).then(|| Violation::new(&file.path, 1, what))
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::*;

    #[test]
    fn a_file_may_have_600_lines_without_its_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// A.\n".repeat(700));
        let is_long = |path, text: &str| check(&sample(path, text)).is_some();
        let lines_of_code = |count| "const _: u8 = 0;\n".repeat(count);
        assert!(!is_long("a.rs", &format!("{}{tests}", lines_of_code(600))));
        assert!(is_long("a.rs", &format!("{}{tests}", lines_of_code(601))));
        assert!(!is_long("tests/a.rs", &lines_of_code(700)));
    }
}
