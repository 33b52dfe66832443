//! JSON that tools write, with whatever other text is around it.

use serde_json::Value;

/// Every JSON object of a text that begins on a line of its own, with the text outside of them.
///
/// Tools print warnings before their JSON and between documents; what does not parse is such text.
pub(crate) fn documents(text: &str) -> (Vec<Value>, Vec<&str>) {
    let (mut found, mut around) = (Vec::new(), Vec::new());
    let mut rest = text;
    while !rest.is_empty() {
        let line_end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let line = &rest[..line_end];
        if line.trim_start().starts_with('{') {
            let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            if let Some(Ok(value)) = stream.next() {
                rest = &rest[stream.byte_offset()..];
                found.push(value);
                continue;
            }
        }
        around.extend(Some(line.trim()).filter(|line| !line.is_empty()));
        rest = &rest[line_end..];
    }
    (found, around)
}

/// A finite number at a JSON pointer.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer)?.as_f64().filter(|number| number.is_finite())
}

/// A finite number that is not negative.
pub(crate) fn positive(value: &Value, pointer: &str) -> Option<f64> {
    number(value, pointer).filter(|number| *number >= 0.0)
}

/// A whole number; some tools write counts as floats.
pub(crate) fn count(value: &Value, pointer: &str) -> Option<u64> {
    let found = value.pointer(pointer)?;
    found
        .as_u64()
        .or_else(|| Some(found.as_f64().filter(|number| (0.0..9e15).contains(number))?.round() as u64))
}

/// A text.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str()
}

/// A scalar as text, for options.
pub(crate) fn scalar(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The elements of an array; none where there is no array.
pub(crate) fn items<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_among_other_text() {
        let text = "fio: note\n{ not json\n{\"a\": 1}\ntrailer {x}\n{\n \"a\": 2\n}{\"a\":3}\n";
        let (found, around) = documents(text);
        let values: Vec<f64> = found.iter().filter_map(|value| number(value, "/a")).collect();
        assert_eq!(values, [1.0, 2.0, 3.0]);
        assert_eq!(around, ["fio: note", "{ not json", "trailer {x}"]);
    }

    #[test]
    fn numbers_that_are_none_are_none() {
        let value = serde_json::json!({ "a": -1, "b": 2.6, "c": "3" });
        assert_eq!(positive(&value, "/a"), None);
        assert_eq!(count(&value, "/b"), Some(3));
        assert_eq!(number(&value, "/c"), None);
        assert_eq!(scalar(&value, "/c").as_deref(), Some("3"));
    }
}
