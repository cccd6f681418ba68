//! The answer a row has already, and whether it is one.

use super::{Fields, parsed, turns::turn, turns::turn_spans};
use crate::record::{Layout, Rejection, Role, Shape, thought};
use serde_json::Value;
use std::borrow::Cow;

/// What stands where the answer should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// No such turn, or no such key.
    Missing,
    /// `null`.
    Null,
    /// The empty text, or an empty list of parts.
    Empty,
    /// Unicode white space only.
    Blank,
    /// Characters that nobody can see, such as U+200B, and perhaps white space.
    Invisible,
    /// The markers of a thought with nothing between them and nothing after.
    ThoughtShell,
    /// A thought with nothing after it.
    ThoughtOnly,
    /// A thought that breaks off.
    ThoughtCut,
    /// An answer, be it ever so short.
    Present {
        /// Its length in Unicode scalar values, without a thought before it.
        chars: usize,
        /// True if a thought comes with it, in `reasoning_content`, `reasoning` or before it.
        thought: bool,
    },
}

impl Answer {
    /// True if there is nothing there, in whatever spelling, so that an answer is to be generated.
    pub fn is_needed(self) -> bool {
        !matches!(self, Answer::Present { .. })
    }

    /// Its length in Unicode scalar values, without a thought before it.
    pub fn chars(self) -> usize {
        match self {
            Answer::Present { chars, .. } => chars,
            _ => 0,
        }
    }

    /// What a content is: null, a text, or a list of parts.
    fn of(content: &Value, thought: bool) -> Answer {
        match content {
            Value::Null if thought => Answer::ThoughtOnly,
            Value::Null => Answer::Null,
            Value::String(text) => Answer::of_text(text, thought),
            Value::Array(parts) if parts.iter().all(|part| part_text(part).is_some()) => {
                Answer::of_text(&text(content), thought)
            }
            other => Answer::Present { chars: other.to_string().chars().count(), thought },
        }
    }

    fn of_text(text: &str, thought: bool) -> Answer {
        if text.is_empty() {
            return if thought { Answer::ThoughtOnly } else { Answer::Empty };
        } else if thought::is_blank(text) {
            return match text.trim().is_empty() {
                _ if thought => Answer::ThoughtOnly,
                true => Answer::Blank,
                false => Answer::Invisible,
            };
        }
        let split = thought::split(text, false);
        let thinks = split.thought.as_ref().is_some_and(|thought| !thought::is_blank(thought));
        if !thought::is_blank(&split.answer) {
            return Answer::Present { chars: split.answer.chars().count(), thought: thought || thinks };
        }
        match (thinks, split.unclosed) {
            (true, true) => Answer::ThoughtCut,
            (true, false) => Answer::ThoughtOnly,
            (false, _) => Answer::ThoughtShell,
        }
    }
}

/// The answer of a row as it stands.
///
/// A call of a tool is an answer. Fails if the shape is unknown or
/// the last turn cannot be read.
pub fn answer(row: &[u8], layout: &Layout) -> Result<Answer, Rejection> {
    let fields = Fields::of(row)?;
    let shape = fields.shape(layout)?;
    if matches!(shape, Shape::Messages | Shape::Conversations) {
        let spans = turn_spans(&fields, shape)?;
        let Some(last) = spans.last() else { return Ok(Answer::Missing) };
        let json = row.get(last.clone()).unwrap_or_default();
        let turn = turn(json, spans.len(), &layout.roles)?;
        if turn.role != Role::Assistant {
            return Ok(Answer::Missing);
        }
        let rest = |key: &str| turn.rest.get(key).is_some_and(is_something);
        let thought = rest("reasoning_content") || rest("reasoning");
        let found = Answer::of(&turn.content, thought);
        if found.is_needed() && (rest("tool_calls") || rest("function_call")) {
            return Ok(Answer::Present { chars: 0, thought });
        }
        let says = Fields::of(json)?;
        let missing = says.span("content").is_none() && says.span("value").is_none();
        return Ok(if missing { Answer::Missing } else { found });
    }
    let has = |key: &str| match fields.value(key) {
        Some(json) => parsed(json, key).map(|value| is_something(&value)),
        None => Ok(false),
    };
    let thought = has("reasoning_content")? || has("reasoning")?;
    let key = fields.answer_key(shape);
    let found = match fields.value(key) {
        Some(json) => Answer::of(&parsed(json, key)?, thought),
        None => Answer::Missing,
    };
    let called = found.is_needed() && has("tool_calls")?;
    Ok(if called { Answer::Present { chars: 0, thought } } else { found })
}

/// True for a content that is null, empty, or only blanks.
pub fn says_nothing(content: &Value) -> bool {
    !matches!(Answer::of(content, false), Answer::Present { .. } | Answer::ThoughtShell)
}

/// How many characters of text a content has.
pub(super) fn chars(content: &Value) -> usize {
    text(content).chars().count()
}

/// The text of a content: itself, or its text parts together.
fn text(content: &Value) -> Cow<'_, str> {
    match content {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(parts) => parts.iter().filter_map(part_text).collect(),
        _ => Cow::Borrowed(""),
    }
}

/// The text of a content part; `None` for an image or another thing that is no text.
fn part_text(part: &Value) -> Option<&str> {
    part.as_str().or_else(|| part.get("text")?.as_str())
}

/// False for null, a blank text, and an empty list or object.
fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !thought::is_blank(text),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}
