//! Commands as the experiment that compares them: its text, from flags.

use std::collections::BTreeSet;
use std::fmt::Write;

use plumb_command::CommandSettings;
use plumb_path::tree::{Node, Value};

use crate::args::{CommandArguments, Parameter, keys};
use crate::exit::Failure;
use crate::experiments::in_yaml;

/// The longest name that is made of a command, in characters.
const NAME_MAX: usize = 32;
/// The longest part of a command in a title, in characters.
const TITLE_MAX: usize = 40;

/// The compared systems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contest {
    /// The experiment's text.
    pub text: String,
    /// Each variant's name and its command as people read it, the baseline first.
    pub commands: Vec<(String, String)>,
}

/// Keys that flags without a key of their own stand for. Parameters have their first values.
pub fn more_keys(arguments: &CommandArguments) -> Vec<(String, String)> {
    let first = |parameter: &Parameter| {
        (format!("load.parameters.{}", parameter.name), parameter.values.first().cloned().unwrap_or_default())
    };
    let exit = arguments.ignore_failure.then(|| ("load.exit".to_owned(), "any".to_owned()));
    arguments.parameter.iter().map(first).chain(exit).collect()
}

/// The experiment. `trees` has the keys of each command.
///
/// # Errors
/// When names are too few, too many or the same.
pub fn contest(arguments: &CommandArguments, trees: &[Node]) -> Result<Contest, Failure> {
    let several: Vec<&Parameter> = arguments.parameter.iter().filter(|it| it.values.len() > 1).collect();
    // Of one command, the values of a parameter are what is compared.
    let (varied, cells) = match several.split_first() {
        Some((first, rest)) if trees.len() == 1 => (Some(*first), rest),
        _ => (None, several.as_slice()),
    };
    let left_out: BTreeSet<String> =
        varied.iter().chain(cells).map(|it| format!("load.parameters.{}", it.name)).collect();
    let entrants = match varied {
        Some(parameter) => of_values(parameter, &trees[0])?,
        None => of_commands(trees)?,
    };
    let names = names(arguments, &entrants)?;
    let shared = match varied {
        Some(_) => without(&trees[0], &left_out, ""),
        None => without(&trees[0], &left_out.into_iter().chain(["load.command".to_owned()]).collect(), ""),
    };
    let commands: Vec<(String, String)> =
        names.into_iter().zip(entrants.iter().map(|entrant| entrant.words.clone())).collect();
    let text = text(arguments, &shared, (&commands, &entrants), cells);
    Ok(Contest { text, commands })
}

/// One of those that are compared.
struct Entrant {
    /// The command as people read it.
    words: String,
    /// The text from which a name is made.
    stem: String,
    /// The key that is its own, and its value.
    own: (String, String),
}

fn of_commands(trees: &[Node]) -> Result<Vec<Entrant>, Failure> {
    let entrant = |tree: &Node| {
        let load = keys::settings_of::<CommandSettings>(tree)?.load;
        Ok(Entrant {
            words: load.command.clone(),
            stem: stem(&load.command),
            own: ("command".to_owned(), load.command),
        })
    };
    trees.iter().map(entrant).collect()
}

fn of_values(parameter: &Parameter, tree: &Node) -> Result<Vec<Entrant>, Failure> {
    let settings = keys::settings_of::<CommandSettings>(tree)?;
    let Parameter { name, values } = parameter;
    let entrant = |value: &String| {
        let mut settings = settings.clone();
        settings.load.parameters.insert(name.clone(), value.clone());
        Entrant {
            words: settings.resolved().load.command,
            stem: format!("{name}-{value}"),
            own: (format!("parameters: {{ {name}"), value.clone()),
        }
    };
    Ok(values.iter().map(entrant).collect())
}

/// The text that names a command: its program without a path, and its arguments.
fn stem(command: &str) -> String {
    let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    format!("{program} {arguments}")
}

/// Names for variants: those that were given, or made of the commands, each once.
fn names(arguments: &CommandArguments, entrants: &[Entrant]) -> Result<Vec<String>, Failure> {
    let given = &arguments.name;
    if !given.is_empty() && given.len() != entrants.len() {
        return Err(Failure::usage(format!(
            "--name: there are {} and {} to be named",
            plumb_report::plural(given.len(), "name"),
            plumb_report::plural(entrants.len(), "command")
        )));
    }
    let mut names: Vec<String> = Vec::new();
    for (at, entrant) in entrants.iter().enumerate() {
        let name = given.get(at).cloned().unwrap_or_else(|| slug(&entrant.stem));
        if !names.contains(&name) {
            names.push(name);
        } else if given.is_empty() {
            let numbered = (2..).map(|number| format!("{name}-{number}"));
            names.extend(numbered.filter(|name| !names.contains(name)).take(1).collect::<Vec<String>>());
        } else {
            return Err(Failure::usage(format!("--name: `{name}` appears twice")));
        }
    }
    Ok(names)
}

/// A text as a variant's name: a letter, and then letters, digits, `-` and `_`.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars() {
        if character.is_ascii_alphanumeric() || (character == '_' && !slug.is_empty()) {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    if !slug.starts_with(|first: char| first.is_ascii_alphabetic()) {
        slug.insert_str(0, "c-");
    }
    slug.truncate(NAME_MAX);
    slug.trim_end_matches('-').to_owned()
}

fn text(
    arguments: &CommandArguments,
    shared: &Node,
    (commands, entrants): (&[(String, String)], &[Entrant]),
    cells: &[&Parameter],
) -> String {
    let mut text = format!(
        "# Written by `plumb command`.\napiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata:\n  name: command\n  \
         title: {}\nspec:\n  path: command\n",
        in_yaml(&title(commands))
    );
    // Writing to a String cannot fail.
    lines(shared, 1, &mut text);
    let baseline = &commands[0].0;
    let _ = writeln!(text, "  baseline: {}\n  variants:", in_yaml(baseline));
    for ((name, _), Entrant { own: (key, value), .. }) in commands.iter().zip(entrants) {
        let close = if key.contains('{') { " }" } else { "" };
        let _ = writeln!(text, "    {}: {{ load: {{ {key}: {}{close} }} }}", in_yaml(name), in_yaml(value));
    }
    if !cells.is_empty() {
        text.push_str("  matrix:\n");
    }
    for Parameter { name, values } in cells {
        let values: Vec<String> = values.iter().map(|value| in_yaml(value)).collect();
        let _ =
            writeln!(text, "    {}: [{}]", in_yaml(&format!("load.parameters.{name}")), values.join(", "));
    }
    let _ = writeln!(
        text,
        "  blocks: {{ min: 6, max: 12 }}\n  noise: {{ others_max: {} }}\n  failures_max: {}\n  until:",
        arguments.others_max, arguments.shown.failures_max
    );
    for (name, _) in &commands[1..] {
        let within = arguments.within.map_or_else(|| "2% or apart".to_owned(), |share| share.to_string());
        let estimate = format!("{name}.wall_time.avg / {baseline}.wall_time.avg within {within}");
        let _ = writeln!(text, "    - {}", in_yaml(&estimate));
    }
    text
}

fn title(commands: &[(String, String)]) -> String {
    let short = |words: &str| match words.char_indices().nth(TITLE_MAX) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.to_owned(),
    };
    match commands {
        [(_, first), (_, second)] => format!("Does '{}' take as long as '{}'?", short(second), short(first)),
        _ => format!("How long do {} commands take, beside '{}'?", commands.len() - 1, short(&commands[0].1)),
    }
}

/// The tree without some of its keys.
fn without(node: &Node, left_out: &BTreeSet<String>, prefix: &str) -> Node {
    let Value::Mapping(entries) = &node.value else { return node.clone() };
    let kept = entries.iter().filter_map(|(key, value)| {
        let dotted = if prefix.is_empty() { key.text.clone() } else { format!("{prefix}.{}", key.text) };
        let kept = (!left_out.contains(&dotted)).then(|| without(value, left_out, &dotted))?;
        let is_empty = matches!(&kept.value, Value::Mapping(entries) if entries.is_empty());
        (!is_empty).then(|| (key.clone(), kept))
    });
    Node { span: node.span, value: Value::Mapping(kept.collect()) }
}

/// The entries of a mapping as lines of YAML.
fn lines(node: &Node, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for (key, value) in node.entries() {
        let _ = match &value.value {
            Value::Mapping(_) => {
                let _ = writeln!(text, "{indent}{}:", quoted_key(&key.text));
                lines(value, depth + 1, text);
                Ok(())
            }
            Value::Sequence(items) => {
                let items = items.iter().filter_map(Node::scalar).map(|scalar| in_yaml(&scalar.text));
                let items: Vec<String> = items.collect();
                writeln!(text, "{indent}{}: [{}]", quoted_key(&key.text), items.join(", "))
            }
            Value::Scalar(scalar) => {
                writeln!(text, "{indent}{}: {}", quoted_key(&key.text), in_yaml(&scalar.text))
            }
            Value::Null => Ok(()),
        };
    }
}

fn quoted_key(key: &str) -> String {
    let is_plain = key.chars().all(|character| character.is_ascii_lowercase() || character == '_');
    if is_plain { key.to_owned() } else { in_yaml(key) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command as Which, PlanArguments};
    use crate::commands::planning;
    use crate::experiments::Source;

    fn contest_of(line: &str) -> Result<Contest, Failure> {
        let parsed =
            Arguments::try_parse_from(line.split('~')).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Which::Programs(arguments) = parsed.command else { panic!("{line}") };
        let trees = arguments.keys.trees(&more_keys(&arguments))?;
        contest(&arguments, &trees)
    }

    #[test]
    fn commands_become_an_experiment_with_the_first_as_baseline() {
        let contest = contest_of(
            "plumb~command~sleep 0.050~sleep 0.055~./a \"b: {c}\"~-r~5~--env~A=b~--exit~0,1~--prepare~sync~--within~3%",
        )
        .unwrap();
        insta::assert_snapshot!(contest.text, @r#"
        # Written by `plumb command`.
        apiVersion: plumbline.dev/v1alpha1
        kind: Experiment
        metadata:
          name: command
          title: "How long do 2 commands take, beside 'sleep 0.050'?"
        spec:
          path: command
          load:
            runs: "5"
            prepare: "sync"
            exit: ["0", "1"]
            env:
              "A": "b"
          baseline: "sleep-0-050"
          variants:
            "sleep-0-050": { load: { command: "sleep 0.050" } }
            "sleep-0-055": { load: { command: "sleep 0.055" } }
            "a-b-c": { load: { command: "./a \"b: {c}\"" } }
          blocks: { min: 6, max: 12 }
          noise: { others_max: 10% }
          failures_max: 1%
          until:
            - "sleep-0-055.wall_time.avg / sleep-0-050.wall_time.avg within 3%"
            - "a-b-c.wall_time.avg / sleep-0-050.wall_time.avg within 3%"
        "#);
    }

    #[test]
    fn values_are_variants_of_one_command_and_cells_of_several() {
        let of_one = contest_of("plumb~command~sleep 0.{n} {m}~-P~n=1,2~-P~m=3,4~-i").unwrap();
        assert_eq!(of_one.commands[1], ("n-2".to_owned(), "sleep 0.2 3".to_owned()));
        insta::assert_snapshot!(of_one.text.lines().skip(6).collect::<Vec<_>>().join("\n"), @r#"
        spec:
          path: command
          load:
            exit: "any"
            command: "sleep 0.{n} {m}"
          baseline: "n-1"
          variants:
            "n-1": { load: { parameters: { n: "1" } } }
            "n-2": { load: { parameters: { n: "2" } } }
          matrix:
            "load.parameters.m": ["3", "4"]
          blocks: { min: 6, max: 12 }
          noise: { others_max: 10% }
          failures_max: 1%
          until:
            - "n-2.wall_time.avg / n-1.wall_time.avg within 2% or apart"
        "#);
        let of_two = contest_of("plumb~command~a {n}~b {n}~-P~n=1,2").unwrap();
        assert!(of_two.text.contains("\"load.parameters.n\": [\"1\", \"2\"]"), "{}", of_two.text);
        assert!(of_two.text.contains("\"b-n\": { load: { command: \"b {n}\" } }"), "{}", of_two.text);
    }

    #[test]
    fn what_is_written_is_an_experiment_whatever_is_in_the_commands() {
        let any = PlanArguments { seed: Some(0), may_repeat: true, ..PlanArguments::default() };
        for line in [
            "plumb~command~sleep 1~sleep 2",
            "plumb~command~--shell~sh~echo \"a: b\" # c | wc~printf '%s\n' {}",
            "plumb~command~sleep {n}~-P~n=1,2,3",
            "plumb~command~echo {n}~printf {n}~-P~n=1,2~-i~-d~200ms~-w~0~--name~one~--name~two",
            "plumb~command~1/2/3~1/2/3~-s~make -C 'a b'~--start~serve~--ready~true",
        ] {
            let text = contest_of(line).unwrap().text;
            let source = Source { name: "x.yaml".to_owned(), bytes: text.clone().into_bytes() };
            let plan = planning::read_source(&source, &any)
                .unwrap_or_else(|error| panic!("{line}: {error:?}\n{text}"))
                .plan;
            assert!(plan.variants.len() >= 2 && plan.claims.len() == plan.variants.len() - 1, "{text}");
        }
    }

    #[test]
    fn names_are_given_or_made_and_each_is_one() {
        assert_eq!(slug("/usr/bin/x --y=1"), "usr-bin-x-y-1");
        assert_eq!(slug("_x fio_uring"), "x-fio_uring");
        assert_eq!(slug("7z a"), "c-7z-a");
        assert_eq!(slug("…"), "c-".trim_end_matches('-'));
        assert_eq!(slug(&"ab ".repeat(40)).len(), 32);
        let twins = contest_of("plumb~command~/a/x 1~/b/x 1").unwrap();
        assert_eq!([twins.commands[0].0.as_str(), twins.commands[1].0.as_str()], ["x-1", "x-1-2"]);
        let failure = |line: &str| format!("{:?}", contest_of(line).unwrap_err());
        assert!(failure("plumb~command~a~b~--name~x").contains("1 name and 2 commands"));
        assert!(failure("plumb~command~a~b~--name~x~--name~x").contains("`x` appears twice"));
    }
}
