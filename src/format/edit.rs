//! Changes to a JSON text that leave every other byte as it was (pure).
//!
//! A row that is parsed and written again is another row: numbers beyond 2^53 change, keys are sorted, spaces vanish. So
//! a value is found by its span, and only that span is replaced. The text must be valid JSON; on any other text the
//! functions find nothing, and do not panic.

use std::ops::Range;

/// One step on the way to a value.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// The value of this key; the last one, if the key is doubled, as parsers have it.
    Key(&'a str),
    /// The last element of a list.
    Last,
}

/// Where the value at `path` stands.
pub fn find(json: &[u8], path: &[Step<'_>]) -> Option<Range<usize>> {
    let mut span = value_at(json, 0)?;
    for step in path {
        span = match step {
            Step::Key(key) => fields(json, span)?.into_iter().rev().find(|field| is_key(json, field, key))?.value,
            Step::Last => elements(json, span)?.pop()?,
        };
    }
    Some(span)
}

/// The text with `value` in place of what stands at `span`.
pub fn replace(json: &[u8], span: Range<usize>, value: &str) -> Option<Vec<u8>> {
    let (before, after) = (json.get(..span.start)?, json.get(span.end..)?);
    Some([before, value.as_bytes(), after].concat())
}

/// The text with `key` set to `value` in the object at `path`: replaced where it is, added at the end where it is not.
pub fn set(json: &[u8], path: &[Step<'_>], key: &str, value: &str) -> Option<Vec<u8>> {
    let object = find(json, path)?;
    let fields = fields(json, object.clone())?;
    if let Some(field) = fields.iter().rev().find(|field| is_key(json, field, key)) {
        return replace(json, field.value.clone(), value);
    }
    let entry = format!("{}:{value}", serde_json::Value::from(key));
    insert(json, object, fields.last().map(|field| field.value.end), &entry)
}

/// The text with `value` added to the end of the list at `path`.
pub fn push(json: &[u8], path: &[Step<'_>], value: &str) -> Option<Vec<u8>> {
    let list = find(json, path)?;
    let last = elements(json, list.clone())?.pop();
    insert(json, list, last.map(|last| last.end), value)
}

/// Puts `entry` behind `last`, or right behind the opening bracket of an empty `container`.
fn insert(json: &[u8], container: Range<usize>, last: Option<usize>, entry: &str) -> Option<Vec<u8>> {
    let (at, comma) = match last {
        Some(end) => (end, ","),
        None => (container.start + 1, ""),
    };
    replace(json, at..at, &format!("{comma}{entry}"))
}

/// A key and its value, as spans.
struct Field {
    key: Range<usize>,
    value: Range<usize>,
}

fn is_key(json: &[u8], field: &Field, key: &str) -> bool {
    let Some(written) = json.get(field.key.clone()) else { return false };
    // Most keys hold no escape.
    if written.len() == key.len() + 2 && written.get(1..=key.len()) == Some(key.as_bytes()) {
        return true;
    }
    written.contains(&b'\\') && serde_json::from_slice::<String>(written).is_ok_and(|written| written == key)
}

fn fields(json: &[u8], object: Range<usize>) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let mut at = open(json, &object, b'{')?;
    while json.get(at) != Some(&b'}') {
        let key = value_at(json, at)?;
        let colon = blanks(json, key.end);
        if json.get(colon) != Some(&b':') {
            return None;
        }
        let value = value_at(json, colon + 1)?;
        at = behind(json, value.end, b'}')?;
        fields.push(Field { key, value });
    }
    Some(fields)
}

fn elements(json: &[u8], list: Range<usize>) -> Option<Vec<Range<usize>>> {
    let mut elements = Vec::new();
    let mut at = open(json, &list, b'[')?;
    while json.get(at) != Some(&b']') {
        let value = value_at(json, at)?;
        at = behind(json, value.end, b']')?;
        elements.push(value);
    }
    Some(elements)
}

/// The first place inside a container that opens with `bracket`.
fn open(json: &[u8], container: &Range<usize>, bracket: u8) -> Option<usize> {
    (json.get(container.start) == Some(&bracket)).then(|| blanks(json, container.start + 1))
}

/// The place of the next entry, or of the closing bracket, behind an entry that ends at `end`.
fn behind(json: &[u8], end: usize, closing: u8) -> Option<usize> {
    let at = blanks(json, end);
    match json.get(at)? {
        b',' => Some(blanks(json, at + 1)),
        byte if *byte == closing => Some(at),
        _ => None,
    }
}

fn blanks(json: &[u8], from: usize) -> usize {
    let rest = json.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The span of the value that begins at `from` or after white space.
fn value_at(json: &[u8], from: usize) -> Option<Range<usize>> {
    let start = blanks(json, from);
    let end = match json.get(start)? {
        b'"' => string_end(json, start)?,
        b'{' | b'[' => container_end(json, start)?,
        _ => {
            let rest = json.get(start..)?;
            let length = rest
                .iter()
                .take_while(|byte| !matches!(byte, b',' | b'}' | b']' | b':') && !byte.is_ascii_whitespace());
            start + length.count()
        }
    };
    (end > start).then_some(start..end)
}

fn string_end(json: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', json.get(at..)?)?;
        match json.get(at)? {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

fn container_end(json: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0_u64);
    loop {
        match json.get(at)? {
            b'"' => {
                at = string_end(json, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn text(bytes: Option<Vec<u8>>) -> String {
        String::from_utf8(bytes.expect("an edit")).expect("text")
    }

    #[test]
    fn only_the_value_changes() {
        let row = r#"{ "id":9007199254740993 , "m": [ {"a":"x,]\"}"}, {"c" : "", "d":1e400} ], "z": -0 }"#;
        let path = [Step::Key("m"), Step::Last];
        let changed = text(set(row.as_bytes(), &path, "c", "\"new\""));
        assert_eq!(changed, row.replace("\"c\" : \"\"", "\"c\" : \"new\""));
        let added = text(set(row.as_bytes(), &path, "e", "true"));
        assert_eq!(added, row.replace("1e400}", "1e400,\"e\":true}"));
        let pushed = text(push(row.as_bytes(), &[Step::Key("m")], "{}"));
        assert_eq!(pushed, row.replace("1e400} ]", "1e400},{} ]"));
    }

    #[test]
    fn empty_containers_doubled_and_escaped_keys_are_understood() {
        assert_eq!(text(set(b"{}", &[], "a", "1")), r#"{"a":1}"#);
        assert_eq!(text(push(b"[ ]", &[], "1")), "[1 ]");
        assert_eq!(text(set(br#"{"a":1,"a":2}"#, &[], "a", "3")), r#"{"a":1,"a":3}"#);
        assert_eq!(text(set(br#"{"\u0061":1}"#, &[], "a", "3")), r#"{"\u0061":3}"#);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-c\"\\\\{}\\[\\],: é]{0,6}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-c\"]{1,2}", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_result_is_what_a_parser_would_have_made(
            row in proptest::collection::btree_map("[a-d]{1,2}", value(), 0..5), key in "[a-d]{1,2}", new in value(), pretty: bool,
        ) {
            let mut row = json!(row);
            let text = if pretty { serde_json::to_string_pretty(&row) } else { serde_json::to_string(&row) }.expect("JSON");
            let changed = set(text.as_bytes(), &[], &key, &new.to_string()).expect("an edit");
            row.as_object_mut().expect("an object").insert(key, new);
            prop_assert_eq!(serde_json::from_slice::<Value>(&changed).expect("JSON"), row);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(prop_oneof![Just(b'{'), Just(b'"'), Just(b'['), Just(b':'), Just(b','), Just(b'}'), Just(b'\\'), any::<u8>()], 0..30)) {
            let _none_or_some = set(&bytes, &[Step::Key("a"), Step::Last], "b", "1");
            let _none_or_some = push(&bytes, &[Step::Key("a")], "1");
        }
    }
}
