//! Flags that are keys of an experiment file.
//!
//! The settings' schema says what such a flag takes, its default and its meaning, so a command states only its name. The
//! values become the tree that a file would have been, and the settings read them: each mistake then stands at a flag.

use std::fmt::Display;
use std::marker::PhantomData;

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use plumb_path::tree::{Location, Mistake, Node, Scalar, Value, from_node_thorough};
use plumb_path::{DataPath, Settings, SettingsFault, schema_of};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::error::ArgumentError;
use crate::exit::Failure;

/// The settings of a data path with a command that measures it once.
pub trait Flagged: Settings + Serialize + DeserializeOwned + JsonSchema + Clone + 'static {
    /// The data path.
    const PATH: DataPath;

    /// Keys that the command sets itself.
    const FIXED: &'static [(&'static str, &'static str)] = &[];

    /// The flags; the id of each is its key.
    fn flags() -> Vec<Arg>;
}

/// A flag for a key, named after the last part of it.
pub fn key(key: &'static str, value_name: &'static str) -> Arg {
    Arg::new(key).long(name_of(key)).value_name(value_name)
}

/// A flag without a value, which makes a key true.
pub fn switch(key: &'static str) -> Arg {
    Arg::new(key).long(name_of(key)).action(ArgAction::SetTrue)
}

/// A length of time.
pub fn time(key: &'static str) -> Arg {
    self::key(key, "TIME")
}

/// How long to measure, unless another flag says how much.
pub fn time_unless(ends: &'static str) -> Arg {
    const DEFAULT: &str = "10 s";
    const LONGEST: &str = "24 h";
    let other = name_of(ends);
    time("load.duration")
        .short('d')
        .help(format!("How long to measure, such as `30s`; {DEFAULT} unless --{other} says how many"))
        .default_value(DEFAULT)
        .default_value_if(ends, clap::builder::ArgPredicate::IsPresent, LONGEST)
        .hide_default_value(true)
}

/// The flags of a search for the capacity, beside which `others` make no sense.
pub fn capacity(others: &[&'static str]) -> [Arg; 4] {
    const OBJECTIVE: &str = "load.capacity.objective";
    let objective = key(OBJECTIVE, "LIMIT").action(ArgAction::Append).conflicts_with_all(others).help(
        "Search for the highest rate that meets this limit, such as `p99 < 10 ms`; may be given more than once",
    );
    let rest =
        [key("load.capacity.trials", "N"), time("load.capacity.trial"), key("load.capacity.step", "PERCENT")];
    let [trials, trial, step] = rest.map(|flag| flag.requires(OBJECTIVE));
    [objective, trials, trial, step]
}

fn name_of(key: &str) -> String {
    key.rsplit('.').next().unwrap_or(key).replace('_', "-")
}

/// The keys that were given, each with the place of its flag among [`Flagged::flags`] and its values.
#[derive(Debug, Clone)]
pub struct Keys<F> {
    given: Vec<(usize, Vec<String>)>,
    family: PhantomData<F>,
}

impl<F: Flagged> Args for Keys<F> {
    fn augment_args(command: Command) -> Command {
        let schema = schema_of::<F>();
        command.args(F::flags().into_iter().map(|flag| described(flag, &schema)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<F: Flagged> FromArgMatches for Keys<F> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |flag: &Arg| {
            let id = flag.get_id().as_str();
            let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
            match flag.get_action() {
                ArgAction::SetTrue => is_given.then(|| vec!["true".to_owned()]),
                ArgAction::SetFalse => is_given.then(|| vec!["false".to_owned()]),
                _ => Some(matches.get_many::<String>(id)?.cloned().collect()),
            }
        };
        let flags = F::flags().into_iter().enumerate();
        let given = flags.filter_map(|(at, flag)| Some((at, values(&flag)?)));
        Ok(Self { given: given.collect(), family: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<F: Flagged> Keys<F> {
    /// The settings that the flags make.
    ///
    /// # Errors
    /// Every mistake, after the flag that it is about.
    pub fn settings(&self) -> Result<F, Failure> {
        settings_of::<F>(&self.trees(&[])?[0])
    }

    /// The settings for each combination of values, where a flag takes several values of a key that has one.
    ///
    /// # Errors
    /// As [`Self::settings`].
    pub fn every(&self) -> Result<Vec<F>, Failure> {
        self.trees(&[])?.iter().map(settings_of::<F>).collect()
    }

    /// Whether a key was given.
    pub fn has(&self, key: &str) -> bool {
        let flags = F::flags();
        self.given.iter().any(|(at, _)| flags[*at].get_id() == key)
    }

    /// The trees that a file would have under `spec`, for each combination of values, with `more` keys and their values.
    ///
    /// # Errors
    /// As [`Self::settings`], of what can be seen without the settings' types.
    pub fn trees(&self, more: &[(String, String)]) -> Result<Vec<Node>, Failure> {
        let schema = schema_of::<F>();
        let mut root = Node::mapping(Vec::new());
        let fixed = F::FIXED.iter().copied();
        for (key, value) in fixed.chain(more.iter().map(|(key, value)| (key.as_str(), value.as_str()))) {
            insert(&mut root, key, text(value, Location::default()));
        }
        let mut trees = vec![root];
        let flags = F::flags();
        for (at, values) in &self.given {
            let (key, place) = (flags[*at].get_id().as_str(), place_of(*at));
            let nodes = nodes(values, of_key(&schema, key), place)
                .map_err(|error| blamed::<F>(&[Mistake::new(place, error.to_string())]))?;
            let with = |tree: &Node, node: &Node| {
                let mut tree = tree.clone();
                insert(&mut tree, key, node.clone());
                tree
            };
            trees = trees.iter().flat_map(|tree| nodes.iter().map(move |node| with(tree, node))).collect();
        }
        Ok(trees)
    }
}

/// The settings that one of [`Keys::trees`] makes.
pub fn settings_of<F: Flagged>(tree: &Node) -> Result<F, Failure> {
    from_node_thorough(tree).map_err(|mistakes| blamed::<F>(&mistakes))
}

/// A fault of settings that came from flags.
pub fn fault<F: Flagged>(fault: &SettingsFault) -> Failure {
    let key = fault.key.split('[').next().unwrap_or_default();
    let flag = F::flags().iter().find(|flag| flag.get_id() == key).map(called);
    Failure::usage(said(flag.as_deref().unwrap_or(key), &fault.message))
}

fn blamed<F: Flagged>(mistakes: &[Mistake]) -> Failure {
    let flags = F::flags();
    let line = |mistake: &Mistake| match mistake.span.offset.checked_sub(1).and_then(|at| flags.get(at)) {
        Some(flag) => said(&called(flag), &mistake.message),
        None => mistake.message.clone(),
    };
    let lines: Vec<String> = mistakes.iter().map(line).collect();
    // One line gets its `error:` when it is printed.
    let first = if lines.len() > 1 { "error: " } else { "" };
    Failure::usage(format!("{first}{}", lines.join("\nerror: ")))
}

fn said(flag: &str, message: impl Display) -> String {
    format!("{flag}: {message}")
}

/// The flag as a user writes it; of an argument without one, the name that help gives it.
fn called(flag: &Arg) -> String {
    let place = || flag.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    flag.get_long().map(|long| format!("--{long}")).or_else(place).unwrap_or_default()
}

/// Flags stand side by side on one line.
fn place_of(flag: usize) -> Location {
    Location { offset: flag + 1, length: 1, line: 1, column: flag + 1 }
}

fn scalar(text: &str, span: Location) -> Scalar {
    Scalar { text: text.to_owned(), span, quoted: true, inset: None }
}

fn text(text: &str, span: Location) -> Node {
    Node { span, value: Value::Scalar(scalar(text, span)) }
}

/// The values of a key: one for a list or a mapping, or else each by itself.
fn nodes(values: &[String], schema: &Json, span: Location) -> Result<Vec<Node>, ArgumentError> {
    if schema.get("items").is_some() {
        let items = values.iter().map(|value| text(value, span)).collect();
        return Ok(vec![Node { span, value: Value::Sequence(items) }]);
    }
    if schema.get("additionalProperties").is_none() {
        return Ok(values.iter().map(|value| text(value, span)).collect());
    }
    let mut entries: Vec<(Scalar, Node)> = Vec::new();
    for value in values {
        let (name, value) = value.split_once(':').ok_or_else(|| ArgumentError::NoColon(value.clone()))?;
        entries.retain(|(other, _)| other.text != name.trim());
        entries.push((scalar(name.trim(), span), text(value.trim(), span)));
    }
    Ok(vec![Node { span, value: Value::Mapping(entries) }])
}

fn insert(tree: &mut Node, key: &str, value: Node) {
    let Value::Mapping(entries) = &mut tree.value else { return };
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    let Some(rest) = rest else {
        let place = value.span;
        entries.push((scalar(first, place), value));
        return;
    };
    let at = entries.iter().position(|(name, _)| name.text == first).unwrap_or_else(|| {
        entries.push((scalar(first, Location::default()), Node::mapping(Vec::new())));
        entries.len() - 1
    });
    insert(&mut entries[at].1, rest, value);
}

/// The schema of one key.
fn of_key<'s>(schema: &'s Json, key: &str) -> &'s Json {
    key.split('.').fold(schema, |schema, part| {
        // The schema of an optional key is that of its type, or null.
        let own = &schema["properties"];
        let properties = if own.is_null() { &schema["anyOf"][0]["properties"] } else { own };
        &properties[part]
    })
}

/// A flag with what the schema says of its key, as far as the command says nothing else.
fn described(mut flag: Arg, schema: &Json) -> Arg {
    let schema = of_key(schema, flag.get_id().as_str());
    let takes_values = flag.get_action().takes_values();
    if takes_values && flag.get_value_parser().possible_values().is_none() {
        let names = names(schema);
        if !names.is_empty() {
            flag = flag.value_parser(PossibleValuesParser::new(names));
        }
    }
    let help = flag.get_help().map(ToString::to_string);
    let help = help.or_else(|| Some(schema["description"].as_str()?.replace('\n', " "))).unwrap_or_default();
    let help = help.trim_end_matches('.');
    let default = default_of(schema).filter(|_| takes_values && flag.get_default_values().is_empty());
    match default.filter(|_| !flag.is_hide_default_value_set()) {
        Some(default) => flag.help(format!("{help} [default: {default}]")),
        None => flag.help(help.to_owned()),
    }
}

/// The names that a key can have, where it has no other values.
fn names(schema: &Json) -> Vec<String> {
    let is_bool = |kind: &Json| kind == "boolean" || kind[0] == "boolean";
    if is_bool(&schema["type"]) {
        return vec!["on".to_owned(), "off".to_owned()];
    }
    let parts = ["oneOf", "anyOf", "items"].into_iter().flat_map(|key| match &schema[key] {
        Json::Array(parts) => parts.iter().collect(),
        Json::Null => Vec::new(),
        part => vec![part],
    });
    let name = schema["const"].as_str().map(str::to_owned);
    name.into_iter().chain(parts.flat_map(names)).collect()
}

fn default_of(schema: &Json) -> Option<String> {
    match &schema["default"] {
        Json::Bool(default) => Some(if *default { "on" } else { "off" }.to_owned()),
        Json::Number(default) => Some(default.to_string()),
        Json::String(default) => Some(default.clone()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use plumb_command::CommandSettings;
    use plumb_crypto::settings::CryptoSettings;
    use plumb_http::settings::{HttpSettings, IngressKind};
    use plumb_migration::settings::MigrationSettings;
    use plumb_model::Span;
    use plumb_network::settings::NetworkSettings;
    use plumb_storage::settings::StorageSettings;

    use super::*;
    use crate::args::{Arguments, Command as Which};

    fn check<F: Flagged>() {
        let schema = schema_of::<F>();
        for flag in F::flags() {
            let key = of_key(&schema, flag.get_id().as_str());
            assert!(key.is_object(), "{} has no key {}", F::PATH.name, flag.get_id());
            let help = described(flag.clone(), &schema).get_help().map(ToString::to_string);
            assert!(help.is_some_and(|help| !help.is_empty()), "{}", flag.get_id());
        }
    }

    #[test]
    fn each_flag_is_a_key_that_an_experiment_has() {
        check::<CommandSettings>();
        check::<CryptoSettings>();
        check::<HttpSettings>();
        check::<MigrationSettings>();
        check::<NetworkSettings>();
        check::<StorageSettings>();
    }

    fn keys_of_http(line: &str) -> Keys<HttpSettings> {
        let Which::Http(http) = Arguments::try_parse_from(line.split('|')).unwrap().command else { panic!() };
        http.keys
    }

    #[test]
    fn flags_make_the_settings_that_a_file_would_have_made() {
        let HttpSettings { system, load } =
            keys_of_http("plumb|http|http://a/|-c|3|-H|a: b:c|-H|d:e|--check|status == 200|-k|-d|1.5")
                .settings()
                .unwrap();
        assert_eq!(
            (system.ingress.kind, system.ingress.url.as_deref()),
            (IngressKind::External, Some("http://a/"))
        );
        let headers: Vec<(&str, &str)> = load.headers.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(headers, [("a", "b:c"), ("d", "e")]);
        assert_eq!(
            (load.connections, load.threads, load.insecure, load.duration),
            (3, 1, true, Span(1_500_000_000))
        );
        assert_eq!(load.checks, ["status == 200"]);
        // The command's own defaults, and those of the settings.
        assert_eq!((load.warmup, load.timeout), (Span(0), Span(30_000_000_000)));
        let counted = keys_of_http("plumb|http|http://a/|-n|5").settings().unwrap().load;
        assert_eq!((counted.requests, counted.duration), (Some(5), Span(24 * 3_600_000_000_000)));
    }

    #[test]
    fn every_mistake_is_at_its_flag() {
        let failure = |line| format!("{:?}", keys_of_http(line).settings().unwrap_err());
        let wrong = failure("plumb|http|http://a/|-c|many|-R|fast|-H|none");
        assert!(wrong.contains("--header: `none` has no colon"), "{wrong}");
        let wrong = failure("plumb|http|http://a/|-c|many|-R|fast");
        assert!(wrong.contains("error: --connections: expected a whole number"), "{wrong}");
        assert!(wrong.contains("error: --rate: `fast` does not begin"), "{wrong}");
        let fault = |key: &str| format!("{:?}", fault::<NetworkSettings>(&SettingsFault::new(key, "wrong")));
        assert!(fault("load.tests").contains("\"TEST: wrong\""));
        assert!(fault("load.send_buffer").contains("\"--send-buffer: wrong\""));
    }

    #[test]
    fn several_values_of_one_key_are_several_settings() {
        let line = "plumb network 192.0.2.1 tcp_lat udp_lat -m 1,2K";
        let Which::Network(network) = Arguments::try_parse_from(line.split(' ')).unwrap().command else {
            panic!()
        };
        let sizes = network.keys.every().unwrap().into_iter().map(|each| each.load.msg_size.unwrap().0);
        assert_eq!(sizes.collect::<Vec<_>>(), [1, 2048]);
    }
}
