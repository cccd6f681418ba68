//! What is asked of a server, and what it gave.

use super::Reason;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What is asked of a server for one record; the same for every attempt but the seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The route: `/v1/chat/completions` or `/v1/completions`.
    pub path: &'static str,
    /// The body without `model`, `seed`, `stream` and `stream_options`, which dispatch adds per attempt.
    pub body: Map<String, Value>,
    /// What the template asked of the model's thinking.
    pub thinking: Thinking,
    /// The limit sent as `max_tokens`.
    pub max_tokens: u32,
    /// The run's seed: each attempt's own is derived from it (see [`RecordId::seed`](super::RecordId::seed)).
    pub run_seed: u64,
}

/// What the template asked of the model's thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// The model is asked to think first.
    On,
    /// The model is asked not to think.
    Off,
    /// Nothing was said: the model's own default.
    Unset,
}

/// One request for one record on one server, and how it went.
///
/// Its form in JSON is that of the journal, which keeps `raw` beside it, as bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Number of this attempt for its record, from 0.
    pub number: u32,
    /// The server's base URL, without credentials.
    pub server: Arc<str>,
    /// The seed that was sent.
    pub seed: u64,
    /// When it was sent, in milliseconds since 1970.
    pub started_ms: u64,
    /// From sending to the last byte of the reply, in seconds.
    pub seconds: f64,
    /// From sending to the first piece of answer, in seconds; only known for streamed replies.
    pub first_token_seconds: Option<f64>,
    /// The answer, where there was one.
    pub completion: Option<Completion>,
    /// Why there was none, in the classifier's word; `None` where there is a completion.
    pub fault: Option<Reason>,
    /// What is to be known about the fault, for people.
    pub detail: String,
    /// The reply as it came, cut to a bounded length: what `aside` keeps for people to look at.
    #[serde(skip)]
    pub raw: Bytes,
}

/// What a server answered, in one canonical form whatever the server calls its fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The answer, without any thought and without leading newlines after one.
    pub content: String,
    /// The thought, without its markers; `None` if there was none.
    pub reasoning: Option<String>,
    /// Tool calls, exactly as they came.
    pub tool_calls: Option<Value>,
    /// Why the model stopped.
    pub finish: Finish,
    /// Tokens, as the server counted them.
    pub usage: Usage,
    /// The model the server says it is.
    pub model: Option<String>,
    /// What is wrong with it in itself, whatever the rules of the pipeline: empty, cut, misfiled.
    pub flaw: Option<Reason>,
    /// What is to be known about the flaw, for people.
    pub detail: String,
}

/// Why the model stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done: `stop`.
    #[default]
    Stop,
    /// `max_tokens` or the context was used up.
    Length,
    /// It calls a tool.
    ToolCalls,
    /// A word outside the known ones, as it came; `validate` may know it.
    #[serde(untagged)]
    Other(String),
}

/// Tokens, as the server counted them; `None` where it did not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens made, thinking included.
    pub completion_tokens: Option<u64>,
    /// Tokens of the thought.
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Both together; what neither says stays unknown.
    #[must_use]
    pub fn plus(self, other: Usage) -> Usage {
        let plus = |one: Option<u64>, two: Option<u64>| match (one, two) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0).saturating_add(two.unwrap_or(0))),
        };
        Usage {
            prompt_tokens: plus(self.prompt_tokens, other.prompt_tokens),
            completion_tokens: plus(self.completion_tokens, other.completion_tokens),
            reasoning_tokens: plus(self.reasoning_tokens, other.reasoning_tokens),
        }
    }
}

impl Finish {
    /// The word a server would use.
    pub fn word(&self) -> &str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ToolCalls => "tool_calls",
            Finish::Other(word) => word,
        }
    }
}
