//! Where a row has its conversation: what of it a model is to see, what answer it has, and where a new one goes.
//!
//! | shape | turns | answer |
//! |---|---|---|
//! | `messages` | `messages`, each `role` and `content` | the last turn, if it is the assistant's |
//! | `conversations` | `conversations`, each `from` and `value` | the last turn, if it is the assistant's |
//! | `alpaca` | `history`, then `instruction` and `input` | `output` |
//! | `prompt_response` | `prompt`, `question`, `input` or `query` | `response`, `answer`, `completion` or `output` |
//!
//! Each turn may use either pair of names. A text under `system` beside the turns is the system turn, if the turns
//! have none.

mod answer;
#[cfg(test)]
mod tests;
mod turns;
mod write;

pub use answer::{Answer, answer};
pub use turns::role;
pub use write::{one_line, with_answer};

use super::edit::{self, Member};
use crate::record::{Chat, Layout, Message, Reason, Rejection, Role, Shape};
use serde_json::Value;
use std::ops::Range;
use turns::turns;

/// The names a prompt has, the likelier first.
const PROMPTS: [&str; 4] = ["prompt", "question", "input", "query"];
/// The names an answer has, each the usual partner of the prompt at the same place.
const ANSWERS: [&str; 4] = ["response", "answer", "output", "completion"];

/// Where the row has its conversation; `None` if it has none of the known shapes.
pub fn detect(row: &[u8]) -> Option<Shape> {
    Fields::of(row).ok()?.detect()
}

/// How many characters the model would be shown of a row. Fails as [`chat`] does.
pub fn prompt_chars(row: &[u8], layout: &Layout) -> Result<usize, Rejection> {
    let chat = chat(row, layout)?;
    Ok(chat.messages.iter().map(|message| answer::chars(&message.content)).sum())
}

/// What the model is to see of a row: all its turns but the answer that is to be made anew.
///
/// The last turn is left
/// out if it is the assistant's; an answer is never sent as the beginning of the next one. Tool definitions under
/// `tools` are carried as they are. Fails with [`Reason::UnknownShape`], [`Reason::BadTurns`] or
/// [`Reason::NoPrompt`].
pub fn chat(row: &[u8], layout: &Layout) -> Result<Chat, Rejection> {
    let fields = Fields::of(row)?;
    let mut messages = match fields.shape(layout)? {
        Shape::Messages | Shape::Conversations => {
            let mut messages = turns(&fields, layout)?;
            messages.pop_if(|turn| turn.role == Role::Assistant);
            messages
        }
        Shape::Alpaca => alpaca(&fields)?,
        Shape::PromptResponse => vec![Message::text(Role::User, fields.first_text(&PROMPTS)?)],
    };
    match messages.last() {
        None => return Err(Rejection::new(Reason::NoPrompt, "there are no turns")),
        Some(last) if !matches!(last.role, Role::User | Role::Tool) => {
            return Err(Rejection::new(Reason::NoPrompt, "no turn of the user or of a tool is left to answer"));
        }
        Some(last) if last.role == Role::User && answer::says_nothing(&last.content) => {
            return Err(Rejection::new(Reason::NoPrompt, "the prompt is empty"));
        }
        Some(_) => {}
    }
    let has_system = messages.iter().any(|turn| matches!(turn.role, Role::System | Role::Developer));
    if !has_system && let Some(system) = fields.text("system").filter(|text| !text.trim().is_empty()) {
        messages.insert(0, Message::text(Role::System, system));
    }
    let tools = match fields.value("tools") {
        Some(json) => Some(parsed(json, "tools")?).filter(|tools| !tools.is_null() && tools != &Value::Array(vec![])),
        None => None,
    };
    Ok(Chat { messages, tools })
}

/// The turns of an Alpaca row: earlier pairs, then the instruction and, on its own line, its input.
fn alpaca(fields: &Fields<'_>) -> Result<Vec<Message>, Rejection> {
    let mut messages = Vec::new();
    if let Some(json) = fields.value("history") {
        let pairs: Option<Vec<(String, String)>> = serde_json::from_slice(json).map_err(|error| {
            Rejection::new(Reason::BadTurns, format!("`history` is not a list of pairs of texts: {error}"))
        })?;
        for (asked, answered) in pairs.into_iter().flatten() {
            messages.push(Message::text(Role::User, asked));
            messages.push(Message::text(Role::Assistant, answered));
        }
    }
    let mut prompt = fields.first_text(&["instruction"])?;
    if let Some(input) = fields.text("input").filter(|input| !input.trim().is_empty()) {
        if !prompt.is_empty() {
            prompt.push('\n');
        }
        prompt.push_str(&input);
    }
    messages.push(Message::text(Role::User, prompt));
    Ok(messages)
}

/// The top level of a row, each key and value as a place in its text.
struct Fields<'a> {
    row: &'a [u8],
    span: Range<usize>,
    members: Vec<Member>,
}

impl<'a> Fields<'a> {
    fn of(row: &'a [u8]) -> Result<Self, Rejection> {
        let span = edit::root(row).ok_or(Reason::InvalidJson)?;
        let members = edit::members(row, span.clone()).ok_or(Reason::NotAnObject)?;
        Ok(Fields { row, span, members })
    }

    /// The place of the value under this key; of the last, if the key stands twice.
    fn span(&self, key: &str) -> Option<Range<usize>> {
        let named = |member: &&Member| edit::string(self.row, member.key.clone()).is_some_and(|name| name == key);
        self.members.iter().rev().find(named).map(|member| member.value.clone())
    }

    /// The JSON text of the value under this key.
    fn value(&self, key: &str) -> Option<&'a [u8]> {
        self.row.get(self.span(key)?)
    }

    /// The text under this key, if it is one.
    fn text(&self, key: &str) -> Option<String> {
        edit::string(self.row, self.span(key)?).map(Into::into)
    }

    fn begins(&self, key: &str, byte: u8) -> bool {
        self.value(key).and_then(|value| value.first()) == Some(&byte)
    }

    fn detect(&self) -> Option<Shape> {
        if self.begins("messages", b'[') {
            Some(Shape::Messages)
        } else if self.begins("conversations", b'[') {
            Some(Shape::Conversations)
        } else if self.begins("instruction", b'"') {
            Some(Shape::Alpaca)
        } else {
            PROMPTS.iter().any(|key| self.begins(key, b'"')).then_some(Shape::PromptResponse)
        }
    }

    /// The shape that was given, or else the one the row has.
    fn shape(&self, layout: &Layout) -> Result<Shape, Rejection> {
        layout.shape.or_else(|| self.detect()).ok_or_else(|| {
            Rejection::new(
                Reason::UnknownShape,
                "none of `messages`, `conversations`, `instruction`, `prompt` is there",
            )
        })
    }

    /// The text under the first of these keys that has one.
    fn first_text(&self, keys: &[&str]) -> Result<String, Rejection> {
        let found = keys.iter().find_map(|key| self.text(key));
        found.ok_or_else(|| {
            Rejection::new(Reason::UnknownShape, format!("there is no text under `{}`", keys.join("`, `")))
        })
    }

    /// The key the answer has, or would have.
    fn answer_key(&self, shape: Shape) -> &'static str {
        if shape == Shape::Alpaca {
            return "output";
        }
        if let Some(there) = ANSWERS.iter().find(|key| self.span(key).is_some()) {
            return there;
        }
        let prompt = PROMPTS.iter().position(|key| self.begins(key, b'"'));
        prompt.and_then(|at| ANSWERS.get(at)).copied().unwrap_or("response")
    }
}

/// A value of the row, parsed.
fn parsed(json: &[u8], what: &str) -> Result<Value, Rejection> {
    serde_json::from_slice(json).map_err(|error| Rejection::new(Reason::BadTurns, format!("`{what}`: {error}")))
}
