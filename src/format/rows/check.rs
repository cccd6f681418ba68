//! Whether the bytes of a row are one JSON object that can be written again.

use crate::record::{Reason, Rejection};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The deepest nesting that later stages can parse: serde_json's own limit.
const MAX_DEPTH: usize = 127;
/// That many zero bytes or more in a row are a hole in the file, not a slip.
const NUL_RUN: usize = 2;

/// Fails with the first thing that is wrong with the bytes of a row.
///
/// Numbers are not looked at: a number that no machine type can hold is still JSON, and is copied digit for digit.
pub fn check(bytes: &[u8]) -> Result<(), Rejection> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        nul_run(bytes).unwrap_or_else(|| {
            Rejection::new(Reason::InvalidUtf8, format!("byte {} of the line is not UTF-8", error.valid_up_to() + 1))
        })
    })?;
    // Passes over values without recursion, so hostile nesting cannot overflow the stack.
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
        nul_run(bytes).unwrap_or_else(|| Rejection::new(Reason::InvalidJson, explained(text, &error)))
    })?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Rejection::new(Reason::NotAnObject, format!("the line is {}", kind(text))));
    }
    let opened = bytes.iter().filter(|&&byte| byte == b'{' || byte == b'[').count();
    if opened > MAX_DEPTH && depth(bytes) > MAX_DEPTH {
        return Err(Rejection::new(Reason::TooDeep, format!("more than {MAX_DEPTH} levels")));
    }
    if text.contains("\\u")
        && let Some(at) = lone_surrogate(bytes)
    {
        return Err(Rejection::new(Reason::LoneSurrogate, format!("at byte {} of the line", at + 1)));
    }
    Ok(())
}

/// What serde_json says, and a hint where the cause is plain.
fn explained(text: &str, error: &serde_json::Error) -> String {
    match text.trim_ascii_end().strip_suffix(',') {
        Some(before) if serde_json::from_str::<IgnoredAny>(before).is_ok() => {
            "a comma follows the row: JSON lines have none between rows".to_owned()
        }
        _ => error.to_string(),
    }
}

/// The JSON type of a value, in words.
fn kind(text: &str) -> &'static str {
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// A run of zero bytes, as a file system leaves it after a crash.
fn nul_run(bytes: &[u8]) -> Option<Rejection> {
    let all = !bytes.is_empty() && bytes.iter().all(|&byte| byte == 0);
    let longest = bytes.split(|&byte| byte != 0).map(<[u8]>::len).max().unwrap_or(0);
    (all || longest >= NUL_RUN).then(|| Rejection::new(Reason::NulBlock, format!("{longest} zero bytes in a row")))
}

/// The deepest nesting of brackets outside strings.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for &byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Where the first escaped half of a surrogate pair stands without its other half, in valid JSON.
fn lone_surrogate(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = bytes.get(at..)?.iter().position(|&byte| byte == b'\\') {
        at += found;
        match escaped_unit(bytes, at) {
            Some(0xd800..=0xdbff) => match escaped_unit(bytes, at + 6) {
                Some(0xdc00..=0xdfff) => at += 12,
                _ => return Some(at),
            },
            Some(0xdc00..=0xdfff) => return Some(at),
            _ => at += 2,
        }
    }
    None
}

/// The number of a `\uXXXX` at this place.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Whether the text is a single object: one over several lines, or one line that holds rows under their ids.
///
/// `text` is the beginning of the input, `whole` says that nothing follows it. A first line that is merely torn
/// is not taken for that, or one bad line would stop the whole file.
pub fn is_one_object(text: &[u8], whole: bool) -> bool {
    let text = text.trim_ascii_start();
    let Some(end) = text.iter().position(|&byte| byte == b'\n') else {
        return whole && is_keyed(text);
    };
    let (first, rest) = text.split_at(end);
    if rest.trim_ascii().is_empty() {
        return whole && is_keyed(first);
    }
    if !text.starts_with(b"{") || !is_unfinished(first) {
        return false;
    }
    match serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>().next() {
        Some(Ok(_)) => true,
        Some(Err(error)) => error.is_eof() && !whole,
        None => false,
    }
}

/// Whether the bytes are JSON so far, and no more.
fn is_unfinished(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_err_and(|error| error.is_eof())
}

/// Whether the bytes are an object of several rows, each with its chat.
fn is_keyed(bytes: &[u8]) -> bool {
    let rows: BTreeMap<String, &RawValue> = serde_json::from_slice(bytes).unwrap_or_default();
    rows.len() > 1 && rows.values().all(|row| super::super::shape::detect(row.get().as_bytes()).is_some())
}
