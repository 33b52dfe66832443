//! Reads an nginx configuration, and puts the contents of included files in place of each `include`.
//!
//! An included file may send requests anywhere and may change later, so a template must hold its contents.

use std::path::{Path, PathBuf};

use plumb_host::named_file;

use super::config::LONG_TEMPLATE;
use super::directives::{Directive, parse};
use super::error::TemplateError;

/// The deepest nesting of included files.
const DEPTH_MAX: usize = 16;
/// The most files of a configuration.
const FILES_MAX: usize = 500;

/// All directives of a configuration.
///
/// # Errors
/// The file that cannot be read, and the place that includes it.
pub(super) fn whole(file: &Path, directory: &Path) -> Result<Vec<Directive>, TemplateError> {
    Reader { directory, files: 0, bytes: 0 }.read_file(file, 0)
}

/// A reader with the amount that it has read so far.
struct Reader<'a> {
    /// The directory of relative paths.
    directory: &'a Path,
    files: usize,
    bytes: u64,
}

impl Reader<'_> {
    fn read_file(&mut self, file: &Path, depth: usize) -> Result<Vec<Directive>, TemplateError> {
        let text = named_file::text_at_most(file, LONG_TEMPLATE).map_err(TemplateError::Unreadable)?;
        self.files += 1;
        self.bytes += text.len() as u64;
        if depth > DEPTH_MAX {
            return Err(TemplateError::Deep { file: file.to_owned(), depth_max: DEPTH_MAX });
        }
        if self.files > FILES_MAX || self.bytes > LONG_TEMPLATE {
            return Err(TemplateError::Large { file: file.to_owned(), files_max: FILES_MAX });
        }
        let found = parse(&text, &file.display().to_string())?;
        self.expanded(found, depth)
    }

    fn expanded(
        &mut self,
        directives: Vec<Directive>,
        depth: usize,
    ) -> Result<Vec<Directive>, TemplateError> {
        let mut all = Vec::new();
        for mut directive in directives {
            if directive.name() == "include" && directive.block.is_none() {
                let place =
                    |cause| TemplateError::Included { at: directive.at.clone(), cause: Box::new(cause) };
                let files = self.files(directive.argument().unwrap_or_default()).map_err(place)?;
                for file in files {
                    all.extend(self.read_file(&file, depth + 1).map_err(place)?);
                }
            } else {
                let block = directive.block.take();
                directive.block = block.map(|block| self.expanded(block, depth)).transpose()?;
                all.push(directive);
            }
        }
        Ok(all)
    }

    /// The files of an `include`, whose name may have one `*`.
    fn files(&self, pattern: &str) -> Result<Vec<PathBuf>, TemplateError> {
        let path = self.directory.join(pattern);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_pattern = |text: &str| text.contains(['*', '?', '[', '\\', '$']);
        let (begin, end) = name.split_once('*').unwrap_or((name, ""));
        let parent = path.parent().unwrap_or(Path::new("/"));
        if [begin, end, &parent.to_string_lossy()].into_iter().any(is_pattern) {
            return Err(TemplateError::Pattern { pattern: pattern.to_owned() });
        }
        if !name.contains('*') {
            return Ok(vec![path]);
        }
        let entries = std::fs::read_dir(parent).into_iter().flatten();
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| {
            let name = file.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| {
                let is_hidden = begin.is_empty() && name.starts_with('.');
                !is_hidden
                    && name.len() >= begin.len() + end.len()
                    && name.starts_with(begin)
                    && name.ends_with(end)
            })
        });
        files.sort();
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::super::directives::print;
    use super::*;

    fn printed_whole(files: &[(&str, &str)]) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let hide = |text: &str| text.replace(directory.path().to_str().unwrap(), "DIR");
        let found = whole(&directory.path().join("a"), directory.path());
        found.map(|found| print(&found)).map_err(|error| hide(&error.to_string()))
    }

    #[test]
    fn included_files_stand_in_place_at_every_depth() {
        let files = [
            ("a", "http { server { include 'b*.conf'; } map $x $y { include c; } }"),
            ("b1.conf", "location / { include c; }"),
            ("b2.conf", "d e;"),
            (".b3.conf", "f g;"),
            ("c", "h i;"),
        ];
        insta::assert_snapshot!(printed_whole(&files).unwrap(), @r"
        http {
            server {
                location / {
                    h i;
                }
                d e;
            }
            map $x $y {
                h i;
            }
        }
        ");
    }

    #[test]
    fn what_cannot_be_included_says_where() {
        let refused = |text: &str| printed_whole(&[("a", text)]).unwrap_err();
        insta::assert_snapshot!(refused("b;\ninclude none;"), @"DIR/a:2: `include`: failed to read DIR/none: No such file or directory (os error 2)");
        insta::assert_snapshot!(refused("include x/*/y;"), @"DIR/a:1: `include`: `x/*/y` is not supported; a path may have one `*`, in its last part");
        let circle = refused("include a;");
        assert!(circle.ends_with("DIR/a: files include each other more than 16 levels deep"), "{circle}");
        let tree = refused("include a; include a;");
        assert!(tree.contains("files"), "{tree}");
    }
}
