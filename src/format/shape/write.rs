//! A new answer put into its row, with every other byte as it was.

use super::{
    Fields,
    turns::{role, turn_spans, turns_key},
};
use crate::format::edit::{self, Step};
use crate::record::{Layout, Reason, Rejection, Role, Shape};
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap, ops::Range};

/// The key of the thought beside an answer.
const REASONING: &str = "reasoning_content";
/// The key of the calls of tools beside an answer.
const TOOL_CALLS: &str = "tool_calls";
/// Other names of the same two in a turn; with a new answer they would belong to the old one.
const OLDER_NAMES: [&str; 2] = ["reasoning", "function_call"];
/// The top-level key that says where an answer is from.
const PROVENANCE: &str = "forebay";

/// The row with a new answer.
///
/// If the conversation ends with a turn of the assistant, its content is replaced; else a turn is added, in the role
/// word the dataset uses. The thought and the calls of tools stand beside the content; those of an older answer are
/// taken out. `provenance` is put under the top-level key `forebay`. Fails if the shape is unknown or the last turn cannot be read.
pub fn with_answer(
    row: &[u8],
    layout: &Layout,
    content: &str,
    reasoning: Option<&str>,
    tool_calls: Option<&Value>,
    provenance: &Value,
) -> Result<Vec<u8>, Rejection> {
    let fields = Fields::of(row)?;
    let shape = fields.shape(layout)?;
    // An answer that only calls a tool has no content.
    let content = Some(content).filter(|content| !content.is_empty() || tool_calls.is_none());
    let content = Value::from(content).to_string();
    let beside = [
        (REASONING, reasoning.map(|text| Value::from(text).to_string())),
        (TOOL_CALLS, tool_calls.map(Value::to_string)),
    ];
    let answered = if matches!(shape, Shape::Messages | Shape::Conversations) {
        in_turns(&fields, shape, &layout.roles, &content, &beside)?
    } else {
        let text = edit::set(row, fields.span.clone(), fields.answer_key(shape), content.as_bytes());
        put_beside(text.ok_or(Reason::NotAnObject)?, &[], &beside)?
    };
    put(&answered, &[], PROVENANCE, provenance.to_string().as_bytes())
}

/// What stands beside the content: key and JSON text, `None` to take the key out.
type Beside = [(&'static str, Option<String>); 2];

/// The row with the answer in its last turn, or in a new one.
fn in_turns(
    fields: &Fields<'_>,
    shape: Shape,
    roles: &BTreeMap<String, Role>,
    content: &str,
    beside: &Beside,
) -> Result<Vec<u8>, Rejection> {
    let spans = turn_spans(fields, shape)?;
    let last = spans.last().map(|span| speaker(fields, span)).transpose()?;
    let path = [Step::Key(turns_key(shape)), Step::Index(spans.len().saturating_sub(1))];
    match last {
        Some((_, word)) if known(&word, roles)? == Role::Assistant => {
            let turn = spans.last().and_then(|span| edit::members(fields.row, span.clone())).unwrap_or_default();
            let has =
                |key: &str| turn.iter().any(|m| edit::string(fields.row, m.key.clone()).is_some_and(|k| k == key));
            // The reader takes `content` first, so that is the one to replace if a turn has both.
            let by_value = !has("content") && (has("value") || !has("role"));
            let mut text = put(fields.row, &path, if by_value { "value" } else { "content" }, content.as_bytes())?;
            for key in OLDER_NAMES {
                text = without(&text, &path, key)?;
            }
            put_beside(text, &path, beside)
        }
        last => {
            let [who, what] = match last {
                Some(("from", _)) => ["from", "value"],
                None if shape == Shape::Conversations => ["from", "value"],
                _ => ["role", "content"],
            };
            let word = own_word(fields, &spans, roles);
            let mut turn = format!("{{\"{who}\": {}, \"{what}\": {content}", Value::from(word));
            for (key, json) in beside {
                if let Some(json) = json {
                    turn.push_str(&format!(", \"{key}\": {json}"));
                }
            }
            turn.push('}');
            let list = fields.span(turns_key(shape)).ok_or(Reason::UnknownShape)?;
            edit::append(fields.row, list, turn.as_bytes()).ok_or_else(|| Reason::UnknownShape.into())
        }
    }
}

/// Who speaks in the turn at `span`: under which key that stands, and the word.
fn speaker(fields: &Fields<'_>, span: &Range<usize>) -> Result<(&'static str, String), Rejection> {
    let word = |key| {
        let member = edit::member(fields.row, span.clone(), key)?;
        Some((key, edit::string(fields.row, member.value)?.into_owned()))
    };
    let missing = || Rejection::new(Reason::BadTurns, "a turn does not say who speaks");
    word("role").or_else(|| word("from")).ok_or_else(missing)
}

fn known(word: &str, roles: &BTreeMap<String, Role>) -> Result<Role, Rejection> {
    role(word, roles).ok_or_else(|| Rejection::new(Reason::BadTurns, format!("unknown role \"{word}\"")))
}

/// The word for the assistant that this row uses, or that goes with the other words it uses.
fn own_word(fields: &Fields<'_>, spans: &[Range<usize>], roles: &BTreeMap<String, Role>) -> String {
    let words: Vec<String> = spans.iter().filter_map(|span| speaker(fields, span).ok()).map(|(_, word)| word).collect();
    let own = words.iter().rev().find(|word| role(word, roles) == Some(Role::Assistant));
    own.cloned().unwrap_or_else(|| {
        let human = words.iter().any(|word| word.eq_ignore_ascii_case("human"));
        if human { "gpt" } else { "assistant" }.to_owned()
    })
}

/// The text with `key` set in the object at `path`.
fn put(text: &[u8], path: &[Step<'_>], key: &str, json: &[u8]) -> Result<Vec<u8>, Rejection> {
    let span = edit::find(text, path).ok_or(Reason::BadTurns)?;
    edit::set(text, span, key, json).ok_or_else(|| Reason::BadTurns.into())
}

/// The text without `key` in the object at `path`.
fn without(text: &[u8], path: &[Step<'_>], key: &str) -> Result<Vec<u8>, Rejection> {
    let span = edit::find(text, path).ok_or(Reason::BadTurns)?;
    edit::remove(text, span, key).ok_or_else(|| Reason::BadTurns.into())
}

/// The text with the thought and the calls set, or taken out, in the object at `path`.
fn put_beside(mut text: Vec<u8>, path: &[Step<'_>], beside: &Beside) -> Result<Vec<u8>, Rejection> {
    for (key, json) in beside {
        text = match json {
            Some(json) => put(&text, path, key, json.as_bytes())?,
            None => without(&text, path, key)?,
        };
    }
    Ok(text)
}

/// The row without line ends between its tokens, as an element of a pretty-printed array has them.
///
/// Valid JSON has none inside strings, so no string changes; blanks stay.
pub fn one_line(row: &[u8]) -> Cow<'_, [u8]> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !row.iter().any(is_end) {
        return Cow::Borrowed(row);
    }
    Cow::Owned(row.iter().copied().filter(|byte| !is_end(byte)).collect())
}
