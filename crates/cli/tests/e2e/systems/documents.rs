//! The commands of the documents, run as a reader runs them: all `sh` blocks of a page, from top to bottom, in one shell.
//!
//! A block that needs another host or a real device is `sh elsewhere`, and only what the program understands of it is tested.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{code, plumb, run, skip_unprivileged, stderr, write};

/// A fenced block of a page: what stands behind the fence, and the text.
struct Block {
    info: String,
    line: usize,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in page.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(info) if !open => {
                blocks.push(Block { info: info.to_owned(), line: number + 1, text: String::new() });
                open = true;
            }
            Some(_) => open = false,
            None if open => {
                let block = blocks.last_mut().expect("a block is open");
                writeln!(block.text, "{line}").unwrap();
            }
            None => {}
        }
    }
    blocks
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages that users read: the README, and all of `docs/`.
fn pages() -> Vec<(PathBuf, String)> {
    let mut pages = vec![repository().join("README.md")];
    let mut directories = vec![repository().join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// `plumb` as a page has it, for a test that has this directory to itself.
fn stand_in(directory: &Path) -> String {
    let text = include_str!("documents/stand-in.sh");
    let directory = directory.to_str().unwrap();
    text.replace("@PLUMB@", env!("CARGO_BIN_EXE_plumb")).replace("@DIRECTORY@", directory)
}

/// A test for each page that has commands, so that pages run side by side.
macro_rules! pages_with_commands {
    ($($name:ident: $page:literal),* $(,)?) => {
        const WITH_COMMANDS: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $name() {
                runs_from_top_to_bottom($page);
            }
        )*
    };
}

pages_with_commands! {
    commands_of_the_readme_run: "README.md",
    commands_of_audit_run: "docs/guides/audit.md",
    commands_of_capacity_run: "docs/guides/capacity.md",
    commands_of_change_nginx_run: "docs/guides/change-nginx.md",
    commands_of_change_ovs_run: "docs/guides/change-ovs.md",
    commands_of_ci_run: "docs/guides/ci.md",
    commands_of_commands_run: "docs/guides/commands.md",
    commands_of_container_network_run: "docs/guides/container-network.md",
    commands_of_history_run: "docs/guides/history.md",
    commands_of_http_versions_run: "docs/guides/http-versions.md",
    commands_of_page_run: "docs/guides/page.md",
    commands_of_migration_codecs_run: "docs/guides/migration-codecs.md",
    commands_of_tls_ingress_run: "docs/guides/tls-ingress.md",
    commands_of_tune_host_run: "docs/guides/tune-host.md",
    commands_of_volumes_run: "docs/guides/volumes.md",
    commands_of_command_run: "docs/reference/command.md",
    commands_of_crypto_run: "docs/reference/crypto.md",
    commands_of_experiment_run: "docs/reference/experiment.md",
    commands_of_export_run: "docs/reference/export.md",
    commands_of_http_run: "docs/reference/http.md",
    commands_of_import_run: "docs/reference/import.md",
    commands_of_network_run: "docs/reference/network.md",
    commands_of_runs_run: "docs/reference/runs.md",
    commands_of_storage_run: "docs/reference/storage.md",
}

fn runs_from_top_to_bottom(page: &str) {
    let has_namespaces = Command::new("unshare").args(["--net", "--pid", "--fork", "true"]).status();
    if !has_namespaces.is_ok_and(|status| status.success()) {
        skip_unprivileged("make namespaces");
        return;
    }
    let text = fs::read_to_string(repository().join(page)).unwrap();
    // Namespaces with names end with the page as well.
    let mut script =
        "set -eu\nip link set lo up\nmkdir -p /run/netns\nmount -t tmpfs none /run/netns\n".to_owned();
    for block in blocks(&text).iter().filter(|block| block.info == "sh") {
        writeln!(script, "echo '{page}:{}' >&2\n{}", block.line, block.text).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let script = write(directory.path(), "page.sh", script);
    let programs = tempfile::tempdir().unwrap();
    let program = write(programs.path(), "plumb", stand_in(programs.path()));
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    // Background processes of a block end with the PID namespace.
    let output = Command::new("timeout")
        .args(["--kill-after=5", "400"])
        .args(["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash"])
        .arg(&script)
        .current_dir(directory.path())
        .env("PATH", format!("{}:{path}", programs.path().display()))
        // Only one process at a time changes a host, and pages run side by side.
        .env("PLUMB_STATE_DIR", programs.path().join("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{page}: {}", stderr(&output));
}

/// Commands stand in blocks that are run, or in blocks that say that they need something from elsewhere.
#[test]
fn no_block_of_a_document_is_left_untested() {
    let root = repository();
    let mut with_commands = Vec::new();
    for (path, page) in pages() {
        let blocks = blocks(&page);
        if blocks.iter().any(|block| block.info == "sh") {
            with_commands.push(path.strip_prefix(&root).unwrap().to_owned());
        }
        // A decision is a record of its time: commands in it would have to change with the program.
        let is_decision = path.parent().is_some_and(|parent| parent.ends_with("docs/decisions"));
        for block in blocks {
            let place = format!("{}:{}", path.display(), block.line);
            let is_of_commands = block.info.starts_with("sh");
            assert!(!is_of_commands || !is_decision, "{place}: a decision has no block of `sh`");
            check_block(&place, &block);
        }
    }
    let mut tested: Vec<PathBuf> = WITH_COMMANDS.iter().map(PathBuf::from).collect();
    with_commands.sort();
    tested.sort();
    assert_eq!(
        with_commands, tested,
        "`pages_with_commands!` must name each page that has blocks of `sh`, and no other"
    );
}

/// The facts about a block without running it.
fn check_block(place: &str, block: &Block) {
    assert!(
        !block.info.is_empty(),
        "{place}: a block needs a language: `sh`, `sh elsewhere`, `yaml`, `text`"
    );
    let has_command = block.text.lines().any(|line| line.trim_start().starts_with("plumb "));
    assert!(!has_command || block.info.starts_with("sh"), "{place}: commands belong into a block of `sh`");
    if block.info == "sh elsewhere" {
        for line in block.text.lines().filter(|line| line.starts_with("plumb ")) {
            understands(place, line);
        }
    }
    // What a block of `sh` writes to a file is checked where the block is run.
    if block.info == "yaml" && block.text.contains("kind: Experiment") {
        let directory = tempfile::tempdir().unwrap();
        let file = write(directory.path(), "page.yaml", &block.text);
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{place}: {}", stderr(&output));
    }
}

/// Whether the program knows the command and each of the options.
fn understands(place: &str, line: &str) {
    let words = line.split(" #").next().unwrap_or_default().split_whitespace().skip(1);
    let (options, names): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with("--"));
    let mut known = String::new();
    for depth in 1..=names.len().min(3) {
        let output = plumb().args(&names[..depth]).arg("--help").output().unwrap();
        known.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    assert!(!known.is_empty(), "{place}: no such command: {line}");
    for option in options {
        let option = option.split('=').next().unwrap_or_default();
        assert!(known.contains(option), "{place}: `{option}` is unknown: {line}");
    }
}
