//! The fields of a reply that are read, as serde sees them: of a document, or of one event of a stream.

use crate::record::Usage;
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use std::fmt;

/// An answer under the names that servers use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// `content`, or `text` of a plain completion.
    pub content: Option<String>,
    /// `reasoning`: vLLM's name.
    pub reasoning: Option<String>,
    /// `reasoning_content`: SGLang's and llama.cpp's name.
    pub reasoning_content: Option<String>,
    /// Tool calls; those of a stream are put together by their index.
    pub tool_calls: Vec<Value>,
    /// Why the model stopped, in the server's word.
    pub finish_reason: Option<String>,
    /// Tokens.
    pub usage: Usage,
    /// The model the server says it is.
    pub model: Option<String>,
}

/// An error object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorBody {
    /// Its text.
    pub message: String,
    /// Its code, where that is a number.
    pub code: Option<u16>,
    /// Its type, in the server's word.
    pub kind: String,
}

/// A reply body or one event. All other fields are skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Body {
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    pub(super) model: Option<String>,
    /// The error object of OpenAI and vLLM; a text in some gateways.
    error: Option<Value>,
    /// SGLang's errors are flat: `{"object": "error", "message": …, "type": …, "code": …}`.
    object: Option<String>,
    message: Option<Value>,
    r#type: Option<Value>,
    code: Option<Value>,
    /// What is left of FastAPI: `{"detail": "Not Found"}`.
    detail: Option<Value>,
}

/// One choice: `message` in a document, `delta` in a stream, `text` in a plain completion.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    index: Option<u64>,
    message: Option<Part>,
    delta: Option<Part>,
    text: Option<String>,
    finish_reason: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
    #[serde(deserialize_with = "text")]
    content: Option<String>,
    #[serde(deserialize_with = "text")]
    reasoning: Option<String>,
    #[serde(deserialize_with = "text")]
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<Value>>,
}

impl Body {
    /// The error the body holds, if it does.
    pub(super) fn error(&self) -> Option<ErrorBody> {
        let fields = match self.error.as_ref().filter(|error| !says_nothing(error)) {
            Some(Value::Object(fields)) => fields.clone(),
            None => {
                let flat = self.object.as_deref() == Some("error");
                let bare = self.choices.is_none() && (self.detail.is_some() || self.message.is_some());
                if !flat && !bare {
                    return None;
                }
                let mut fields = Map::new();
                let message = self.message.as_ref().or(self.detail.as_ref());
                for (key, value) in [("message", message), ("type", self.r#type.as_ref()), ("code", self.code.as_ref())]
                {
                    if let Some(value) = value {
                        fields.insert(key.to_owned(), value.clone());
                    }
                }
                fields
            }
            Some(other) => Map::from_iter([("message".to_owned(), other.clone())]),
        };
        let text = |key: &str| match fields.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        let code = fields.get("code").and_then(|code| match code {
            Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
            Value::String(text) => text.parse().ok(),
            _ => None,
        });
        Some(ErrorBody { message: text("message"), code, kind: text("type") })
    }

    /// Tokens, if the body says anything of them.
    pub(super) fn usage(&self) -> Option<Usage> {
        let usage = self.usage.as_ref().filter(|usage| usage.is_object())?;
        let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
        Some(Usage {
            prompt_tokens: number("/prompt_tokens"),
            completion_tokens: number("/completion_tokens"),
            reasoning_tokens: number("/completion_tokens_details/reasoning_tokens").or(number("/reasoning_tokens")),
        })
    }

    /// The choice with index 0 (one that says no index counts as that), if there is one.
    pub(super) fn first_choice(self) -> Option<Choice> {
        self.choices?.into_iter().find(|choice| choice.index.unwrap_or(0) == 0)
    }
}

impl Choice {
    /// How much of an event of `size` bytes is kept when this is folded, at most.
    pub(super) fn kept(&self, size: usize) -> usize {
        let parts = [&self.message, &self.delta];
        let mut texts = vec![&self.text];
        for part in parts.into_iter().flatten() {
            if part.tool_calls.is_some() {
                return size;
            }
            texts.extend([&part.content, &part.reasoning, &part.reasoning_content]);
        }
        texts.into_iter().flatten().map(String::len).sum()
    }

    /// Why it cannot be added to what came before, if it cannot: what is said twice would stand in the answer twice, and
    /// what comes after the end shows that it was none.
    pub(super) fn contradicts(&self, before: &Message) -> Option<&'static str> {
        let says = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let part = |part: &Option<Part>| {
            let part = part.as_ref();
            part.is_some_and(|part| [&part.content, &part.reasoning, &part.reasoning_content].into_iter().any(says))
        };
        let ways = [says(&self.text), part(&self.message), part(&self.delta)];
        let speaks = ways.contains(&true);
        let spoke = [&before.content, &before.reasoning, &before.reasoning_content].into_iter().any(says);
        if ways.iter().filter(|says| **says).count() > 1 {
            return Some("the answer stands in it under two names");
        }
        if part(&self.message) && spoke {
            return Some("the whole answer follows its pieces");
        }
        let ended = before.finish_reason.as_deref()?;
        if speaks {
            return Some("text follows the finish reason");
        }
        let again = self.finish_word();
        again.is_some_and(|again| again != ended).then_some("two finish reasons contradict one another")
    }

    /// Adds what it holds to the end of what came before.
    pub(super) fn fold_into(mut self, into: &mut Message) {
        append(&mut into.content, self.text.take());
        if let Some(part) = self.message.take() {
            let calls = part.fold_texts(into);
            into.tool_calls.extend(calls);
        }
        if let Some(part) = self.delta.take() {
            for piece in part.fold_texts(into) {
                fold_call(&mut into.tool_calls, piece);
            }
        }
        if let Some(word) = self.finish_word() {
            into.finish_reason = Some(word);
        }
    }

    /// The word for why the model stopped, if it has.
    fn finish_word(&self) -> Option<String> {
        match self.finish_reason.as_ref()? {
            Value::Null => None,
            // Some servers say "" where others say null: not yet.
            Value::String(word) => Some(word.clone()).filter(|word| !word.trim().is_empty()),
            // SGLang's own form: `{"type": "abort", "message": …}`.
            Value::Object(fields) if fields.get("type").is_some_and(Value::is_string) => {
                fields.get("type").and_then(Value::as_str).map(str::to_owned)
            }
            other => Some(other.to_string()),
        }
    }
}

impl Part {
    /// Adds its texts to the end of what came before, and gives its calls.
    fn fold_texts(self, into: &mut Message) -> Vec<Value> {
        append(&mut into.content, self.content);
        append(&mut into.reasoning, self.reasoning);
        append(&mut into.reasoning_content, self.reasoning_content);
        self.tool_calls.unwrap_or_default()
    }
}

fn append(text: &mut Option<String>, more: Option<String>) {
    match (text.as_mut(), more) {
        (Some(text), Some(more)) => text.push_str(&more),
        (None, more) => *text = more,
        (Some(_), None) => {}
    }
}

/// More tool calls than this in one answer are garbage.
const MOST_CALLS: usize = 1024;

/// Joins a piece of a call of a stream to the call it belongs to: the one with its index, or its id; one that has
/// neither belongs to the call before it. Argument texts are joined as they are, never parsed.
fn fold_call(calls: &mut Vec<Value>, piece: Value) {
    let index = number_of(&piece);
    let id = piece.get("id").filter(|id| !says_nothing(id));
    let at = match (index, id) {
        (Some(_), _) => calls.iter().position(|call| number_of(call) == index),
        (None, Some(id)) => calls.iter().position(|call| call.get("id") == Some(id)),
        (None, None) => calls.len().checked_sub(1),
    };
    if let Some(known) = at.and_then(|at| calls.get_mut(at)) {
        join(known, piece);
    } else if calls.len() < MOST_CALLS {
        calls.push(piece);
    }
}

/// Puts the calls of a stream in the order of their indices, which belong to the stream and not to the calls.
pub(super) fn order_calls(calls: &mut [Value]) {
    calls.sort_by_key(|call| number_of(call).unwrap_or(u64::MAX));
    for fields in calls.iter_mut().filter_map(Value::as_object_mut) {
        fields.shift_remove("index");
    }
}

fn number_of(call: &Value) -> Option<u64> {
    call.get("index").and_then(Value::as_u64)
}

/// Adds to `known` what `piece` says and `known` does not; its `arguments` are continued.
fn join(known: &mut Value, piece: Value) {
    let (Value::Object(known), Value::Object(piece)) = (known, piece) else { return };
    for (key, value) in piece {
        match known.get_mut(&key) {
            None => {
                known.insert(key, value);
            }
            Some(old) if says_nothing(old) => *old = value,
            Some(Value::String(old)) if key == "arguments" => old.push_str(value.as_str().unwrap_or_default()),
            Some(function) if key == "function" => join(function, value),
            Some(_) => {}
        }
    }
}

/// Whether a field is as good as not there.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// A text, null, or a list of parts with `text`; anything else counts as none.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    struct Text;
    impl<'de> Visitor<'de> for Text {
        type Value = Option<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text, null, or a list of parts")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(text.to_owned()))
        }

        fn visit_string<E: de::Error>(self, text: String) -> Result<Self::Value, E> {
            Ok(Some(text))
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
            #[derive(Deserialize)]
            struct Piece {
                text: Option<String>,
                #[serde(rename = "type")]
                _type: Option<IgnoredAny>,
            }
            let mut all = String::new();
            while let Some(part) = parts.next_element::<Piece>()? {
                all.push_str(part.text.as_deref().unwrap_or_default());
            }
            Ok(Some(all))
        }
    }
    deserializer.deserialize_any(Text)
}
