//! From YAML text to the tree of [`plumb_path::tree`], within limits.
//!
//! It uses the events of `saphyr-parser`, the maintained parser beneath saphyr and serde-saphyr. It uses no
//! value type and no `serde`: only events carry a scalar's own text and its place. YAML's surprises are
//! refused with a message: duplicate keys, tags, merge keys, several documents. Aliases are followed within a
//! budget, so that a file of 1 kB cannot use up all memory.

use std::collections::HashMap;

use plumb_model::Bytes;
use plumb_path::tree::{Location, Mistake, Node, Scalar, Value};
use saphyr_parser::{BufferedInput, Event, Marker, Parser, ScalarStyle, ScanError, Span as Marks};

/// The largest experiment file, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// How deep lists and mappings may nest.
const MAX_DEPTH: usize = 64;

/// The largest weight of the tree, in bytes: each node's text and a fixed share for the node itself.
const MAX_WEIGHT: usize = 16 << 20;

const NODE_WEIGHT: usize = 64;

const EMPTY: &str = "the file is empty; an experiment begins with `apiVersion: plumbline.dev/v1alpha1`";

/// The file's text without its byte order mark.
pub(super) fn decode(bytes: &[u8]) -> Result<&str, Mistake> {
    let start = Location { offset: 0, length: 0, line: 1, column: 1 };
    if bytes.len() > MAX_BYTES {
        let size = match bytes.len() {
            small if small < 2_000_000 => Bytes(small as u64).to_string(),
            large => format!("{} MB", large / 1_000_000),
        };
        let message =
            format!("an experiment file is at most {}; this one has {size}", Bytes(MAX_BYTES as u64));
        return Err(Mistake::new(start, message));
    }
    let text = str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        let valid = str::from_utf8(&bytes[..offset]).unwrap_or_default();
        let place = Places::new(valid).at(offset, offset);
        let byte = bytes[offset];
        let message = format!("the file is not UTF-8 text: byte {byte:#04x} at offset {offset}");
        Mistake::new(place, message)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads the one document of a file.
pub(super) fn parse(text: &str) -> Result<Node, Mistake> {
    let mut builder = Builder {
        places: Places::new(text),
        parser: Parser::new_from_iter(text.chars()),
        anchors: HashMap::new(),
        weight: 0,
        last: 0,
    };
    let root = builder.document()?;
    match root.value {
        Value::Null => Err(Mistake::new(root.span, EMPTY)),
        _ => Ok(root),
    }
}

/// Translates byte offsets into lines and columns.
struct Places<'t> {
    text: &'t str,
    /// Byte offset of every character and of the end; empty if all characters are one byte.
    characters: Vec<usize>,
    /// Byte offset of every line's start.
    lines: Vec<usize>,
}

impl<'t> Places<'t> {
    fn new(text: &'t str) -> Self {
        let mut characters = Vec::new();
        if !text.is_ascii() {
            characters.extend(text.char_indices().map(|(offset, _)| offset));
            characters.push(text.len());
        }
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, characters, lines: std::iter::once(0).chain(starts).collect() }
    }

    fn offset(&self, marker: Marker) -> usize {
        let index = marker.index();
        if self.characters.is_empty() {
            return index.min(self.text.len());
        }
        self.characters.get(index).copied().unwrap_or(self.text.len())
    }

    /// How many characters precede a byte offset. Counting them from the line's start would be quadratic in a
    /// file of one line.
    fn index(&self, offset: usize) -> usize {
        match self.characters.as_slice() {
            [] => offset,
            offsets => offsets.partition_point(|start| *start < offset),
        }
    }

    /// The part of `from..to` that is on the line of `from`, without trailing white space.
    fn at(&self, from: usize, to: usize) -> Location {
        let line = self.lines.partition_point(|start| *start <= from);
        let start = self.lines[line - 1];
        let written = &self.text[from..to.max(from)];
        let first_line = written.split(['\n', '\r']).next().unwrap_or_default();
        Location {
            offset: from,
            length: first_line.trim_end().len(),
            line,
            column: self.index(from) - self.index(start) + 1,
        }
    }

    fn marks(&self, marks: Marks) -> Location {
        self.at(self.offset(marks.start), self.offset(marks.end))
    }
}

/// A finished node with an anchor.
struct Anchored {
    node: Node,
    weight: usize,
    height: usize,
}

struct Builder<'t> {
    places: Places<'t>,
    parser: Parser<'t, BufferedInput<std::str::Chars<'t>>>,
    anchors: HashMap<usize, Anchored>,
    weight: usize,
    /// Byte offset of the last event, to look for tabs after it when the next one fails.
    last: usize,
}

/// A node, and the levels of nesting below it.
type Built = (Node, usize);

impl<'t> Builder<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Marks), Mistake> {
        match self.parser.next_event() {
            Some(Ok((event, marks))) => {
                self.last = self.places.offset(marks.start);
                Ok((event, marks))
            }
            Some(Err(error)) => Err(scan_mistake(&error, &self.places, self.last)),
            None => Ok((Event::StreamEnd, Marks::default())),
        }
    }

    fn document(&mut self) -> Result<Node, Mistake> {
        let mut root = None;
        loop {
            let (event, marks) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(_) if root.is_some() => {
                    let place = self.places.marks(marks);
                    return Err(Mistake::new(
                        place,
                        "a second document begins here; an experiment file has one",
                    ));
                }
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => {}
                event => root = Some(self.node(event, marks, 0)?.0),
            }
        }
        root.ok_or_else(|| Mistake::new(self.places.at(0, 0), EMPTY))
    }

    fn node(&mut self, event: Event<'t>, marks: Marks, depth: usize) -> Result<Built, Mistake> {
        if depth > MAX_DEPTH {
            let message = format!("lists and mappings nest deeper than {MAX_DEPTH} levels here");
            return Err(Mistake::new(self.places.marks(marks), message));
        }
        let before = self.weight;
        let (anchor, (node, height)) = match event {
            Event::Alias(id) => return self.alias(id, marks, depth),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), marks)?;
                (anchor, (self.scalar(&text, style, marks)?, 0))
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), marks)?;
                (anchor, self.sequence(marks, depth)?)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), marks)?;
                (anchor, self.mapping(marks, depth)?)
            }
            _ => return Err(Mistake::new(self.places.marks(marks), "a value is missing here")),
        };
        if anchor != 0 {
            let weight = self.weight - before;
            self.anchors.insert(anchor, Anchored { node: node.clone(), weight, height });
        }
        Ok((node, height))
    }

    fn weigh(&mut self, weight: usize, marks: Marks) -> Result<(), Mistake> {
        self.weight += weight;
        if self.weight > MAX_WEIGHT {
            let message = "the file grows too large here: more values than any experiment needs, aliases counted \
                           as often as they are used";
            return Err(Mistake::new(self.places.marks(marks), message));
        }
        Ok(())
    }

    fn refuse_tag(&self, tagged: bool, marks: Marks) -> Result<(), Mistake> {
        if !tagged {
            return Ok(());
        }
        let message = "the value here has a YAML tag (`!…`), which has no meaning in an experiment";
        Err(Mistake::new(self.places.marks(marks), message)
            .help("remove the tag; the setting itself says what its text means"))
    }

    fn alias(&mut self, id: usize, marks: Marks, depth: usize) -> Result<Built, Mistake> {
        let place = self.places.marks(marks);
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(Mistake::new(place, "the alias is inside the value that it refers to"));
        };
        let (weight, height) = (anchored.weight, anchored.height);
        if depth + height > MAX_DEPTH {
            let message = format!("with this alias, lists and mappings nest deeper than {MAX_DEPTH} levels");
            return Err(Mistake::new(place, message));
        }
        self.weigh(weight, marks)?;
        Ok((self.anchors[&id].node.clone(), height))
    }

    fn text(&mut self, text: &str, style: ScalarStyle, marks: Marks) -> Result<Scalar, Mistake> {
        self.weigh(NODE_WEIGHT + text.len(), marks)?;
        let span = self.places.marks(marks);
        let quoted = style != ScalarStyle::Plain;
        let inset = usize::from(quoted);
        let written = self.places.text.get(span.offset + inset..).unwrap_or_default();
        let literal = written.starts_with(text) && !text.contains(['\n', '\r']);
        Ok(Scalar { text: text.to_owned(), span, quoted, inset: literal.then_some(inset) })
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, marks: Marks) -> Result<Node, Mistake> {
        let scalar = self.text(text, style, marks)?;
        let null = !scalar.quoted && matches!(text, "" | "~" | "null" | "Null" | "NULL");
        let value = if null { Value::Null } else { Value::Scalar(scalar.clone()) };
        Ok(Node { span: scalar.span, value })
    }

    fn sequence(&mut self, start: Marks, depth: usize) -> Result<Built, Mistake> {
        self.weigh(NODE_WEIGHT, start)?;
        let mut items = Vec::new();
        let mut height = 0;
        loop {
            let (event, marks) = self.next()?;
            if event == Event::SequenceEnd {
                let span = self.collection(start, marks);
                return Ok((Node { span, value: Value::Sequence(items) }, height + 1));
            }
            let (item, below) = self.node(event, marks, depth + 1)?;
            height = height.max(below);
            items.push(item);
        }
    }

    fn mapping(&mut self, start: Marks, depth: usize) -> Result<Built, Mistake> {
        self.weigh(NODE_WEIGHT, start)?;
        let mut entries: Vec<(Scalar, Node)> = Vec::new();
        let mut seen = HashMap::new();
        let mut height = 0;
        loop {
            let (event, marks) = self.next()?;
            if event == Event::MappingEnd {
                let span = self.collection(start, marks);
                return Ok((Node { span, value: Value::Mapping(entries) }, height + 1));
            }
            let key = self.key(event, marks)?;
            if let Some(first) = seen.insert(key.text.clone(), key.span) {
                return Err(Mistake::new(
                    key.span,
                    format!("the key `{}` appears a second time here", key.text),
                )
                .also(first, "it is first set here"));
            }
            let (event, marks) = self.next()?;
            let (value, below) = self.node(event, marks, depth + 1)?;
            if value.value == Value::Null && !self.is_written(value.span) {
                return Err(self.no_value(&key, entries.last()));
            }
            height = height.max(below);
            entries.push((key, value));
        }
    }

    /// Whether the file itself says `null` here: the parser reports a missing value as `null`, too.
    fn is_written(&self, span: Location) -> bool {
        matches!(&self.places.text[span.offset..span.offset + span.length], "~" | "null" | "Null" | "NULL")
    }

    /// A key without a value would be ignored. In braces it is often the end of a number, as in `{ connections: 1,000 }`.
    fn no_value(&self, key: &Scalar, before: Option<&(Scalar, Node)>) -> Mistake {
        let mistake = Mistake::new(key.span, format!("the key `{}` has no value", key.text));
        let number = before.and_then(|(_, node)| match &node.value {
            Value::Scalar(scalar) if key.text.starts_with(|first: char| first.is_ascii_digit()) => {
                Some(scalar)
            }
            _ => None,
        });
        match number {
            Some(number) => mistake.help(format!(
                "a comma ends the value before it; write the number without one: {}{}",
                number.text, key.text
            )),
            None => mistake.help("write one, `{}` for nothing in it, or `null` for the default"),
        }
    }

    fn key(&mut self, event: Event<'t>, marks: Marks) -> Result<Scalar, Mistake> {
        let place = self.places.marks(marks);
        let Event::Scalar(text, style, _, tag) = event else {
            return Err(Mistake::new(place, "a key must be a plain text"));
        };
        self.refuse_tag(tag.is_some(), marks)?;
        let key = self.text(&text, style, marks)?;
        if key.text.is_empty() {
            return Err(Mistake::new(place, "a key is missing here"));
        }
        if key.text == "<<" && !key.quoted {
            return Err(Mistake::new(place, "merge keys (`<<`) are not supported")
                .help("a variant is merged over the baseline by itself and needs to say only what differs"));
        }
        Ok(key)
    }

    /// The place of a list or mapping: all of it if it is in brackets on one line, otherwise its first line.
    fn collection(&self, start: Marks, end: Marks) -> Location {
        let from = self.places.offset(start.start);
        let bracketed = self.places.text[from..].starts_with(['{', '[']);
        let to = if bracketed { self.places.offset(end.end) } else { self.places.text.len() };
        self.places.at(from, to)
    }
}

/// The parser's messages, with their meaning for the author of an experiment.
const WORDS: &[(&str, &str)] = &[
    ("recursion limit exceeded", "lists and mappings nest too deep here"),
    ("quoted scalar, found unexpected end of stream", "the closing quote of this text is missing"),
    ("invalid indentation in quoted scalar", "the closing quote of this text is missing"),
    (
        "invalid trailing content after",
        "a text ends with its closing quote; expected `,` or the end of the line",
    ),
    ("mapping values are not allowed", "a key is not allowed here; quote the text if its `:` ends no key"),
    ("did not find expected key", "this line is not indented as those before it"),
    ("did not find expected '-' indicator", "this line is not indented as the list before it"),
    ("expected ',' or ']'", "a `[` before this was not closed: expected `,` or `]`"),
    ("expected ',' or '}'", "a `{` before this was not closed: expected `,` or `}`"),
    ("misplaced bracket", "this bracket closes nothing"),
    ("unexpected character", "no text can begin with this character unless it is quoted"),
    ("unknown anchor", "no anchor has this name; quote the text if its `*` is not an alias"),
    ("found unprintable character", "a text file must not contain this character"),
    ("scanning a block scalar", "a text that begins with `>` or `|` must be quoted"),
    (
        "unknown escape character",
        "there is an unknown `\\` escape in this text; in single quotes it would be a plain `\\`",
    ),
];

/// The parser's error in terms of an experiment file.
fn scan_mistake(error: &ScanError, places: &Places<'_>, last: usize) -> Mistake {
    let offset = places.offset(*error.marker());
    if let Some(tab) = indenting_tab(places.text, last, offset) {
        return Mistake::new(
            places.at(tab, tab + 1),
            "a tab indents this line; YAML is indented with spaces",
        );
    }
    let words = WORDS.iter().find(|(theirs, _)| error.info().contains(theirs)).map(|(_, ours)| *ours);
    let character = places.text[offset..].chars().next().map_or(0, char::len_utf8);
    let place = places.at(offset, offset + character);
    Mistake::new(place, format!("this is not valid YAML: {}", words.unwrap_or_else(|| error.info())))
}

/// The first tab in the indentation of a line from that of `from` to that of `to`.
fn indenting_tab(text: &str, from: usize, to: usize) -> Option<usize> {
    let start = text[..from.min(to)].rfind('\n').map_or(0, |at| at + 1);
    let mut offset = start;
    for line in text[start..].split_inclusive('\n') {
        if offset > to {
            return None;
        }
        let indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = line[..indentation].find('\t') {
            return Some(offset + tab);
        }
        offset += line.len();
    }
    None
}
