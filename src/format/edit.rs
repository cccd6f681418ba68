//! Changing one value inside a JSON text, and leaving every other byte as it was.
//!
//! A row that is parsed and written again loses digits, spacing, the order of keys and escapes; a row edited here
//! does not. All functions take text that is valid JSON (RFC 8259), as [`Rows`](super::Rows) hands it out; on other
//! text they may find nothing or the wrong thing, but never panic. Where a key stands twice, the last one counts.

use std::{borrow::Cow, ops::Range};

/// One step from a value to a value inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Into an object, to the value of this key.
    Key(&'a str),
    /// Into an array, to this element, from 0.
    Index(usize),
}

/// A key of an object and its value, as places in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The key with its quotes.
    pub key: Range<usize>,
    /// The value.
    pub value: Range<usize>,
}

/// The span of the value at `path`, without the blanks around it; `None` if there is none.
pub fn find(text: &[u8], path: &[Step<'_>]) -> Option<Range<usize>> {
    path.iter().try_fold(root(text)?, |span, step| match *step {
        Step::Key(key) => member(text, span, key).map(|member| member.value),
        Step::Index(index) => elements(text, span)?.into_iter().nth(index),
    })
}

/// The span of the whole value, without the blanks around it.
pub fn root(text: &[u8]) -> Option<Range<usize>> {
    let start = skip_blanks(text, 0);
    Some(start..skip_value(text, start)?)
}

/// The members of the object at `span`, in the text's order; `None` if there is no object.
pub fn members(text: &[u8], span: Range<usize>) -> Option<Vec<Member>> {
    let mut found = Vec::new();
    let mut at = enter(text, &span, b'{')?;
    while *text.get(at)? != b'}' {
        let key = at..skip_value(text, at)?;
        let colon = skip_blanks(text, key.end);
        let start = skip_blanks(text, colon + 1);
        let value = start..skip_value(text, start)?;
        at = after_comma(text, value.end);
        found.push(Member { key, value });
    }
    Some(found)
}

/// The elements of the array at `span`; `None` if there is no array.
pub fn elements(text: &[u8], span: Range<usize>) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let mut at = enter(text, &span, b'[')?;
    while *text.get(at)? != b']' {
        let element = at..skip_value(text, at)?;
        at = after_comma(text, element.end);
        found.push(element);
    }
    Some(found)
}

/// What a key or another string means, without quotes and escapes; `None` if it is not a string.
pub fn string(text: &[u8], span: Range<usize>) -> Option<Cow<'_, str>> {
    let quoted = text.get(span)?;
    if quoted.contains(&b'\\') {
        return serde_json::from_slice(quoted).ok().map(Cow::Owned);
    }
    std::str::from_utf8(quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?).ok().map(Cow::Borrowed)
}

/// The text with the bytes of `span` replaced by `value`, which is JSON itself.
pub fn replace(text: &[u8], span: Range<usize>, value: &[u8]) -> Vec<u8> {
    let before = text.get(..span.start).unwrap_or(text);
    let after = text.get(span.end..).unwrap_or_default();
    [before, value, after].concat()
}

/// The text in which `key` of the object at `span` has `value`: replaced where it stands, else put in at the end.
///
/// A new key is spaced as its neighbours are. `None` if there is no object.
pub fn set(text: &[u8], span: Range<usize>, key: &str, value: &[u8]) -> Option<Vec<u8>> {
    let members = members(text, span.clone())?;
    if let Some(there) = last_named(text, &members, key) {
        return Some(replace(text, there.value.clone(), value));
    }
    let spaced = members.last().is_none_or(|last| text.get(last.value.start.wrapping_sub(1)) == Some(&b' '));
    let (comma, colon): (&[u8], &[u8]) = if spaced { (b", ", b": ") } else { (b",", b":") };
    let key = serde_json::Value::from(key).to_string();
    let (at, comma) = members.last().map_or((span.start + 1, &b""[..]), |last| (last.value.end, comma));
    Some(replace(text, at..at, &[comma, key.as_bytes(), colon, value].concat()))
}

/// The text without `key` in the object at `span`, however often it stands there. `None` if there is no object.
pub fn remove(text: &[u8], span: Range<usize>, key: &str) -> Option<Vec<u8>> {
    let all = members(text, span)?;
    let named = |member: &Member| string(text, member.key.clone()).is_some_and(|name| name == key);
    let mut out = text.to_vec();
    // From the end, so that the places before stay true. The comma that goes is the one before the member, or,
    // when nothing stays before it, the one after.
    let mut next: Option<usize> = None;
    for (index, gone) in all.iter().enumerate().rev() {
        if named(gone) {
            let before = all.get(..index).unwrap_or_default();
            let stays = before.iter().any(|member| !named(member));
            let from = before.last().filter(|_| stays).map_or(gone.key.start, |previous| previous.value.end);
            out.drain(from..if stays { gone.value.end } else { next.unwrap_or(gone.value.end) });
        }
        next = Some(gone.key.start);
    }
    Some(out)
}

/// The text with `value` as the new last element of the array at `span`. `None` if there is no array.
pub fn append(text: &[u8], span: Range<usize>, value: &[u8]) -> Option<Vec<u8>> {
    let elements = elements(text, span.clone())?;
    let spaced = match elements.as_slice() {
        [.., before, last] => text.get(before.end + 1..last.start).is_some_and(|between| between == b" "),
        _ => true,
    };
    let comma: &[u8] = if spaced { b", " } else { b"," };
    let (at, comma) = elements.last().map_or((span.start + 1, &b""[..]), |last| (last.end, comma));
    Some(replace(text, at..at, &[comma, value].concat()))
}

/// The member with this key; the last, if there are several.
pub fn member(text: &[u8], span: Range<usize>, key: &str) -> Option<Member> {
    last_named(text, &members(text, span)?, key).cloned()
}

fn last_named<'a>(text: &[u8], members: &'a [Member], key: &str) -> Option<&'a Member> {
    members.iter().rev().find(|member| string(text, member.key.clone()).is_some_and(|name| name == key))
}

/// The place of the first thing inside the bracket at the start of `span`.
fn enter(text: &[u8], span: &Range<usize>, bracket: u8) -> Option<usize> {
    (*text.get(span.start)? == bracket).then(|| skip_blanks(text, span.start + 1))
}

fn after_comma(text: &[u8], at: usize) -> usize {
    let at = skip_blanks(text, at);
    if text.get(at) == Some(&b',') { skip_blanks(text, at + 1) } else { at }
}

fn skip_blanks(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// The place after the value that starts at `at`; always further on than `at`.
fn skip_value(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => skip_string(text, at),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0_usize, at);
            loop {
                match text.get(at)? {
                    b'"' => at = skip_string(text, at)? - 1,
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
        _ => {
            let rest = text.get(at..)?;
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\n' | b'\r');
            let length = rest.iter().position(ends).unwrap_or(rest.len());
            (length > 0).then_some(at + length)
        }
    }
}

fn skip_string(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests;
