//! The places file: on which hosts an experiment's two sides are.

use plumb_host::cpu::CpuSet;
use plumb_model::{PlaceOf, Places};
use plumb_path::tree::{Mistake, Node, from_node_thorough};
use schemars::JsonSchema;
use serde::Deserialize;

use super::document::ApiVersion;
use super::error::FileError;
use super::parse::{decode, parse};

/// On which hosts an experiment's two sides are.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Plumbline places")]
pub(super) struct PlacesDocument {
    /// The version of this format.
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    /// What the document is.
    #[serde(rename = "kind")]
    _kind: PlacesKind,
    /// Where the system is built, or from where one that exists is watched; the host that runs plumb if absent.
    #[serde(default)]
    system: PlaceOf,
    /// Where the load comes from, the host that runs plumb if absent. Of several hosts, each drives its share.
    #[serde(default)]
    load: Vec<PlaceOf>,
}

/// The kinds of documents.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
enum PlacesKind {
    /// Places.
    Places,
}

/// Reads a places file.
///
/// # Errors
/// What is wrong with the file, with its places in it.
pub fn read_places(name_of_file: &str, bytes: &[u8]) -> Result<Places, FileError> {
    let text = decode(bytes).map_err(|mistake| FileError::new(name_of_file, "", vec![mistake]))?;
    places(text).map_err(|mistakes| FileError::new(name_of_file, text, mistakes))
}

fn places(text: &str) -> Result<Places, Vec<Mistake>> {
    let root = parse(text).map_err(|mistake| vec![mistake])?;
    let PlacesDocument { system, load, .. } = from_node_thorough(&root)?;
    let mut mistakes: Vec<Mistake> = Vec::new();
    let loads = root.get("load").map_or(&[][..], Node::items);
    for (place, node) in
        std::iter::once((&system, root.get("system"))).chain(load.iter().zip(loads.iter().map(Some)))
    {
        let wrong = |key: &str, message: String| {
            let span = node.and_then(|node| node.get(key)).map_or(root.span, |value| value.span);
            Mistake::new(span, message)
        };
        let ssh = place.ssh.as_deref().map(PlaceOf::parse);
        mistakes.extend(ssh.and_then(Result::err).map(|message| wrong("ssh", message)));
        let cpus = place.cpus.as_deref().map(str::parse::<CpuSet>);
        mistakes.extend(cpus.and_then(Result::err).map(|error| wrong("cpus", error.to_string())));
    }
    if mistakes.is_empty() { Ok(Places { system, load }) } else { Err(mistakes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: plumbline.dev/v1alpha1\nkind: Places\n";

    fn read(text: &str) -> Result<Places, String> {
        read_places("lab.yaml", format!("{HEAD}{text}").as_bytes()).map_err(|error| error.plain())
    }

    #[test]
    fn places_are_read() {
        let places =
            read("system: { ssh: root@s, cpus: 2-7 }\nload: [{ ssh: c1 }, { ssh: c2, cpus: 0 }]").unwrap();
        assert_eq!((places.system.name(), places.system.cpus.as_deref()), ("root@s", Some("2-7")));
        assert_eq!(places.others(), ["root@s", "c1", "c2"]);
        assert!(read("").unwrap().are_here());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let wrong = |text: &str| read(text).unwrap_err();
        assert!(
            wrong("system: { ssh: -oProxyCommand=x }")
                .starts_with("lab.yaml:3:16: `-oProxyCommand=x` is no host")
        );
        assert!(wrong("load: [{ ssh: c1 }, { cpus: x }]").starts_with("lab.yaml:3:29: "));
        assert!(wrong("lode: []").contains("lode"));
    }
}
