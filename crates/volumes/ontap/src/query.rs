//! The part of a request after the question mark: which records, in which order, with which fields, and how many.
//!
//! `name=QoS*`, `name=a|b`, `name=!a`, `fixed.max_throughput_iops=>=500`, `…=100..500`, `fields=fixed,svm.name`, `fields=*`,
//! `order_by=name desc`, `max_records`, `return_records`, `return_timeout`, as ONTAP has them. What does not fit in an answer is
//! behind its `_links.next`, which begins with the first record that was left out (`start.uuid`).

use std::cmp::Ordering;
use std::num::IntErrorKind;

use serde_json::{Map, Value, json};

use crate::answer::links;
use crate::fault::{self, RestError};
use crate::fields::{Field, FieldKind};

const RECORDS_MAX: u64 = 10_000;
const TIMEOUT_S_MAX: u64 = 120;
/// The parameters that a query may have besides fields.
const PARAMETERS: [&str; 6] =
    ["fields", "order_by", "max_records", "return_records", "return_timeout", "start.uuid"];
/// Only where the records that are found are changed.
const CONTINUE: &str = "continue_on_failure";

/// Parameters, decoded, in their order.
#[derive(Debug)]
pub struct Query {
    text: String,
    pairs: Vec<(String, String)>,
}

/// Options of a call that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Wait for the end, and do not answer with a job alone.
    pub wait: bool,
    /// Answer with what was made.
    pub return_records: bool,
}

/// The records that a query finds, as many as are wanted at a time.
#[derive(Debug)]
pub struct Page {
    /// The records, with every field.
    pub records: Vec<Value>,
    /// Where the others are.
    pub next: Option<String>,
}

/// A kind of records, and where they are.
#[derive(Debug, Clone, Copy)]
pub struct Collection {
    /// The path, such as `/api/storage/volumes`.
    pub path: &'static str,
    /// Every field that a record can have.
    pub fields: &'static [Field],
    /// Those of every record in a list, whatever was asked for.
    pub always: &'static [&'static str],
}

impl Query {
    /// Reads what is after the question mark.
    pub fn parse(text: &str) -> Result<Self, RestError> {
        let bad = |part: &str| {
            RestError::bad(fault::VALUE, format!("\"{part}\" is not a query: its encoding is wrong"))
        };
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Some((decoded(name)?, decoded(value)?))
        };
        let parts = text.split('&').filter(|part| !part.is_empty());
        let pairs = parts.map(|part| pair(part).ok_or_else(|| bad(part))).collect::<Result<Vec<_>, _>>()?;
        for (at, (name, _)) in pairs.iter().enumerate() {
            if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
                let message = format!("Field \"{name}\" was specified twice");
                return Err(RestError::bad(fault::TWICE, message).about(name));
            }
        }
        Ok(Self { text: text.to_owned(), pairs })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn count(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, RestError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let count = match text.parse::<u64>() {
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => u64::MAX,
            Err(_) => return Err(RestError::value(name, text, "integer")),
            Ok(count) => count,
        };
        let due = format!("{min}..{max}");
        if (min..=max).contains(&count) { Ok(Some(count)) } else { Err(RestError::value(name, text, &due)) }
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, RestError> {
        match self.get(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(text) => Err(RestError::value(name, text, "boolean")),
        }
    }

    /// The parameters of a call that changes something; there are no others.
    pub fn options(&self, makes: bool) -> Result<Options, RestError> {
        let known = ["return_timeout", "return_records"];
        let known = if makes { &known[..] } else { &known[..1] };
        if let Some((name, _)) = self.pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            return Err(RestError::unexpected(name));
        }
        let wait = self.count("return_timeout", 0, TIMEOUT_S_MAX)?.unwrap_or(0) > 0;
        Ok(Options { wait, return_records: self.flag("return_records")?.unwrap_or(false) })
    }

    /// The parameters of a call that changes all records that the query finds: whether it goes on after a failure. It has to
    /// ask for something, so that nobody deletes everything by a query that was forgotten.
    pub fn found_options(&self, collection: &Collection) -> Result<bool, RestError> {
        collection.check_parameters(self, &[CONTINUE])?;
        collection.asked(self, false)?;
        self.flag("return_records")?;
        self.count("return_timeout", 0, TIMEOUT_S_MAX)?;
        if !self.pairs.iter().any(|(name, _)| collection.field(name).is_some()) {
            let message = "The operation is not supported on this resource without a field in the query";
            return Err(RestError::new(405, fault::UNSUPPORTED, message));
        }
        Ok(self.flag(CONTINUE)?.unwrap_or(false))
    }
}

impl Collection {
    /// Some of the records, as an answer.
    pub fn list(&self, query: &Query, records: Vec<Value>, with_links: bool) -> Result<Value, RestError> {
        self.check_parameters(query, &[])?;
        query.count("return_timeout", 0, TIMEOUT_S_MAX)?;
        let page = self.page(query, records)?;
        let mut body = self.body(query, &page, with_links, true)?;
        if with_links {
            body["_links"]["self"] = json!({ "href": self.link(&query.text) });
        }
        Ok(body)
    }

    /// The records that a query finds.
    pub fn page(&self, query: &Query, records: Vec<Value>) -> Result<Page, RestError> {
        let mut found = Vec::new();
        for record in records {
            if self.matches(query, &record)? {
                found.push(record);
            }
        }
        self.order(query, &mut found)?;
        if let Some(uuid) = query.get("start.uuid") {
            let first = found.iter().position(|record| record["uuid"] == uuid);
            found.drain(..first.ok_or_else(|| RestError::value("start.uuid", uuid, "UUID"))?);
        }
        let max = query.count("max_records", 1, RECORDS_MAX)?.unwrap_or(RECORDS_MAX);
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let next = found.get(max).map(|record| self.next(query, &record["uuid"]));
        found.truncate(max);
        Ok(Page { records: found, next })
    }

    /// A page as an answer, with its records where they are wanted; `by_default` is what holds where nothing is said.
    pub fn body(
        &self,
        query: &Query,
        page: &Page,
        with_links: bool,
        by_default: bool,
    ) -> Result<Value, RestError> {
        let fields = self.asked(query, false)?;
        let mut body = json!({ "num_records": page.records.len() });
        if query.flag("return_records")?.unwrap_or(by_default) {
            let chosen = page.records.iter().map(|record| self.chosen(record, &fields, with_links));
            body["records"] = chosen.collect();
        }
        if let Some(next) = &page.next {
            body["_links"]["next"] = json!({ "href": next });
        }
        Ok(body)
    }

    /// One record, as an answer.
    pub fn one(&self, query: &Query, record: &Value, with_links: bool) -> Result<Value, RestError> {
        let fields = self.asked(query, true)?;
        if let Some((name, _)) = query.pairs.iter().find(|(name, _)| name != "fields") {
            return Err(RestError::unexpected(name));
        }
        Ok(self.chosen(record, &fields, with_links))
    }

    fn link(&self, query: &str) -> String {
        if query.is_empty() { self.path.to_owned() } else { format!("{}?{query}", self.path) }
    }

    fn next(&self, query: &Query, uuid: &Value) -> String {
        let parts = query.text.split('&').filter(|part| !part.is_empty() && !part.starts_with("start.uuid="));
        let start = format!("start.uuid={}", uuid.as_str().unwrap_or_default());
        let parts: Vec<&str> = std::iter::once(start.as_str()).chain(parts).collect();
        self.link(&parts.join("&"))
    }

    fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    fn check_parameters(&self, query: &Query, more: &[&str]) -> Result<(), RestError> {
        let is_known =
            |name: &str| PARAMETERS.contains(&name) || more.contains(&name) || self.field(name).is_some();
        let unknown = query.pairs.iter().find(|(name, _)| !is_known(name));
        unknown.map_or(Ok(()), |(name, _)| Err(RestError::unexpected(name)))
    }

    /// The names of the fields that were asked for.
    fn asked(&self, query: &Query, is_one: bool) -> Result<Vec<&'static str>, RestError> {
        let mut names: Vec<&str> = self.always.to_vec();
        let text = query.get("fields").unwrap_or(if is_one { "*" } else { "" });
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let below = |field: &&Field| {
                field.name.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let is_all = matches!(part, "*" | "**");
            let before = names.len();
            names.extend(self.fields.iter().filter(|field| is_all || below(field)).map(|field| field.name));
            if names.len() == before {
                return Err(RestError::value("fields", part, "field"));
            }
        }
        Ok(names)
    }

    fn chosen(&self, record: &Value, fields: &[&str], with_links: bool) -> Value {
        let mut chosen = Value::Object(Map::new());
        for field in self.fields.iter().filter(|field| fields.contains(&field.name)) {
            if let Some(value) = at(record, field.name) {
                put(&mut chosen, field.name, value.clone());
            }
        }
        if with_links {
            let uuid = record["uuid"].as_str().unwrap_or_default();
            chosen["_links"] = links(&format!("{}/{uuid}", self.path));
        }
        chosen
    }

    fn matches(&self, query: &Query, record: &Value) -> Result<bool, RestError> {
        for (name, wanted) in &query.pairs {
            if let Some(field) = self.field(name)
                && !is_match(field, wanted, at(record, name))?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn order(&self, query: &Query, records: &mut [Value]) -> Result<(), RestError> {
        let mut keys = Vec::new();
        let default = self.field("name").map(|_| "name");
        let Some(asked) = query.get("order_by").or(default) else { return Ok(()) };
        for part in asked.split(',') {
            let (name, direction) = part.trim().split_once(' ').unwrap_or((part.trim(), "asc"));
            let known = self.field(name).is_some() && matches!(direction.trim(), "asc" | "desc");
            if !known {
                let message = format!("The field \"{}\" is not supported as an order_by= field", part.trim());
                return Err(RestError::bad(fault::ORDER, message).about("order_by"));
            }
            keys.push((name.to_owned(), direction.trim() == "desc"));
        }
        records.sort_by(|one, other| {
            let compared = keys.iter().map(|(name, is_down)| {
                let order = compare(at(one, name), at(other, name));
                if *is_down { order.reverse() } else { order }
            });
            compared.fold(Ordering::Equal, Ordering::then)
        });
        Ok(())
    }
}

/// The value at a dotted name.
fn at<'a>(record: &'a Value, name: &str) -> Option<&'a Value> {
    name.split('.').try_fold(record, |value, part| value.get(part))
}

fn put(record: &mut Value, name: &str, value: Value) {
    let place = name.split('.').fold(record, |place, part| &mut place[part]);
    *place = value;
}

fn compare(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    match (one, other) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => one.as_u64().cmp(&other.as_u64()),
        (Some(one), Some(other)) => text_of(one).cmp(&text_of(other)),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether a value is one of those that `a|b` asks for; `!` asks for the others.
fn is_match(field: &Field, wanted: &str, value: Option<&Value>) -> Result<bool, RestError> {
    if let Some(refused) = wanted.strip_prefix('!') {
        return Ok(!is_match(field, refused, value)?);
    }
    let mut found = false;
    for part in wanted.split('|') {
        found |= match field.kind {
            FieldKind::Count | FieldKind::Size => {
                is_number_match(field, part, value.and_then(Value::as_u64))?
            }
            _ => value.is_some_and(|value| is_text_match(part, &text_of(value))),
        };
    }
    Ok(found)
}

fn is_number_match(field: &Field, wanted: &str, value: Option<u64>) -> Result<bool, RestError> {
    if wanted == "*" {
        return Ok(value.is_some());
    }
    let number = |text: &str| {
        let bytes =
            if field.kind == FieldKind::Size { crate::fields::size_bytes(text) } else { text.parse().ok() };
        bytes.ok_or_else(|| RestError::value(field.name, wanted, "integer"))
    };
    let within: Box<dyn Fn(u64) -> bool> = if let Some((low, high)) = wanted.split_once("..") {
        let (low, high) = (number(low)?, number(high)?);
        Box::new(move |value| (low..=high).contains(&value))
    } else if let Some(least) = wanted.strip_prefix(">=") {
        let least = number(least)?;
        Box::new(move |value| value >= least)
    } else if let Some(most) = wanted.strip_prefix("<=") {
        let most = number(most)?;
        Box::new(move |value| value <= most)
    } else if let Some(above) = wanted.strip_prefix('>') {
        let above = number(above)?;
        Box::new(move |value| value > above)
    } else if let Some(below) = wanted.strip_prefix('<') {
        let below = number(below)?;
        Box::new(move |value| value < below)
    } else {
        let exactly = number(wanted)?;
        Box::new(move |value| value == exactly)
    };
    Ok(value.is_some_and(within))
}

/// Text with `*` for anything, or in quotes as it stands.
fn is_text_match(wanted: &str, text: &str) -> bool {
    if let Some(exact) = wanted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return exact == text;
    }
    let Some((first, rest)) = wanted.split_once('*') else { return wanted == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

/// Percent-encoded UTF-8 (RFC 3986), with `+` for a space as forms have it.
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
                rest = &rest[2..];
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::read_only;

    const THINGS: Collection = Collection {
        path: "/api/things",
        fields: &[
            read_only("uuid", FieldKind::Text),
            read_only("name", FieldKind::Text),
            read_only("svm.name", FieldKind::Text),
            read_only("limit", FieldKind::Count),
        ],
        always: &["uuid", "name"],
    };

    fn listed(query: &str) -> Result<Value, RestError> {
        let thing = |(name, limit): (&str, u64)| json!({ "uuid": format!("u-{name}"), "name": name, "svm": { "name": "s" }, "limit": limit });
        let mut things: Vec<Value> = [("b", 2), ("a10", 3), ("a", 1)].map(thing).to_vec();
        things.push(json!({ "uuid": "u-z", "name": "z", "svm": { "name": "t" } }));
        THINGS.list(&Query::parse(query)?, things, false)
    }

    fn names(query: &str) -> String {
        let body = listed(query).unwrap();
        let names: Vec<&str> =
            body["records"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        names.join(" ")
    }

    #[test]
    fn records_are_found_and_ordered() {
        for (query, expected) in [
            ("", "a a10 b z"),
            ("name=a*", "a a10"),
            ("name=*0", "a10"),
            ("name=a|z", "a z"),
            ("name=!a*", "b z"),
            ("name=%22a%22", "a"),
            ("svm.name=t", "z"),
            ("limit=>=2", "a10 b"),
            ("limit=1..2", "a b"),
            ("limit=%3C2", "a"),
            ("limit=*", "a a10 b"),
            ("limit=9", ""),
            ("order_by=name+desc", "z b a10 a"),
            ("order_by=limit%20desc,name", "a10 b a z"),
        ] {
            assert_eq!(names(query), expected, "{query}");
        }
    }

    #[test]
    fn fields_are_those_that_were_asked_for() {
        let first = |query: &str| listed(query).unwrap()["records"][0].clone();
        assert_eq!(first(""), json!({ "uuid": "u-a", "name": "a" }));
        assert_eq!(first("fields=svm"), json!({ "uuid": "u-a", "name": "a", "svm": { "name": "s" } }));
        assert_eq!(first("fields=*")["limit"], json!(1));
        assert_eq!(listed("return_records=false").unwrap(), json!({ "num_records": 4 }));
    }

    #[test]
    fn what_does_not_fit_is_behind_a_link() {
        let page = listed("max_records=3&fields=limit").unwrap();
        assert_eq!(page["num_records"], json!(3));
        let next = page["_links"]["next"]["href"].as_str().unwrap();
        assert_eq!(next, "/api/things?start.uuid=u-z&max_records=3&fields=limit");
        let last = listed(next.split_once('?').unwrap().1).unwrap();
        assert_eq!((&last["num_records"], &last["_links"]), (&json!(1), &Value::Null));
    }

    #[test]
    fn each_wrong_query_is_named() {
        for (query, code, target) in [
            ("nmae=a", fault::UNEXPECTED, Some("nmae")),
            ("fields=foo", fault::VALUE, Some("fields")),
            ("max_records=0", fault::VALUE, Some("max_records")),
            ("max_records=x", fault::VALUE, Some("max_records")),
            ("max_records=99999999999999999999", fault::VALUE, Some("max_records")),
            ("return_records=yes", fault::VALUE, Some("return_records")),
            ("return_timeout=121", fault::VALUE, Some("return_timeout")),
            ("order_by=foo", fault::ORDER, Some("order_by")),
            ("order_by=name%20up", fault::ORDER, Some("order_by")),
            ("limit=many", fault::VALUE, Some("limit")),
            ("start.uuid=x", fault::VALUE, Some("start.uuid")),
            ("name=a&name=b", fault::TWICE, Some("name")),
            ("name=%G1", fault::VALUE, None),
            ("name=%ff", fault::VALUE, None),
            ("name=%+1", fault::VALUE, None),
        ] {
            let fault = listed(query).unwrap_err();
            assert_eq!((fault.status, fault.code, fault.target.as_deref()), (400, code, target), "{query}");
        }
    }

    #[test]
    fn long_patterns_end() {
        let text = "a".repeat(5_000);
        assert!(!is_text_match(&format!("{}b", "*a".repeat(2_000)), &text));
        assert!(is_text_match("a*a*a", "aaa") && !is_text_match("a*a*a", "aa"));
    }
}
