//! Which shell runs a command line.
//!
//! bash does where it is installed, because it tells how each part of a pipeline ended. `sh` knows that of the last part alone:
//! `gzip -dc missing | sort` succeeds, and fast.

/// Bash's trap for the end of a command line: the exit code is that of the first part of its last pipeline that failed. A part
/// that wrote to one that had read enough (SIGPIPE, 128 + 13) did not fail, and an `exit` says itself how the line ended.
const WATCH: &str = r#"trap 'plumb_exit=$? plumb_parts=("${PIPESTATUS[@]}")
case $BASH_COMMAND in exit | "exit "*) exit $plumb_exit ;; esac
for ((plumb_at = 0; plumb_at + 1 < ${#plumb_parts[@]}; plumb_at++)); do
  case ${plumb_parts[plumb_at]} in
    0 | 141) ;;
    *) echo "part $((plumb_at + 1)) of ${#plumb_parts[@]} of the pipeline ended with exit code ${plumb_parts[plumb_at]}" >&2
       exit ${plumb_parts[plumb_at]} ;;
  esac
done
exit $plumb_exit' EXIT
"#;

/// The shell that runs a command line, by name, and its arguments.
pub(crate) fn line(text: &str, has: impl Fn(&str) -> bool) -> (&'static str, [String; 2]) {
    let (shell, script) =
        if has("bash") { ("bash", format!("{WATCH}{text}")) } else { ("sh", text.to_owned()) };
    (shell, ["-c".to_owned(), script])
}

/// Whether a command line has a pipeline, as far as a look at it tells.
pub(crate) fn has_pipeline(text: &str) -> bool {
    text.replace("||", "").contains('|')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_runs_a_line_where_it_is_there() {
        let (shell, [_, script]) = line("a | b", |_| true);
        assert!(shell == "bash" && script.ends_with("\na | b"), "{script}");
        assert_eq!(line("a | b", |_| false), ("sh", ["-c".to_owned(), "a | b".to_owned()]));
        assert!(has_pipeline("a | b") && has_pipeline("a |& b") && !has_pipeline("a || b"));
    }
}
