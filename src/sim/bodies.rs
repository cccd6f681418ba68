//! [`Bodies`]: what a dialect's replies look like, byte for byte.
//!
//! The bodies are templates of replies that were recorded from real servers, and share no code with what reads them:
//! a mistake made on both sides would never be seen.

use super::{
    draft::{Channel, Draft},
    engine::Gauges,
    settings::{Dialect, ReasoningField},
    sglang::Sglang,
    vllm::Vllm,
};

/// What all events of one reply have in common.
#[derive(Debug, Clone)]
pub struct Head {
    /// The reply's name.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The model that is said to have answered.
    pub model: String,
    /// Whether this is a chat completion; else a text completion.
    pub chat: bool,
    /// Whether a stream ends with an event that holds the usage.
    pub include_usage: bool,
    /// Where a thought is put.
    pub field: ReasoningField,
}

/// An error as a body says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fail {
    /// The status, which the body repeats.
    pub status: u16,
    /// The word for `type`.
    pub kind: &'static str,
    /// What is wrong.
    pub message: String,
    /// The parameter that is to blame, if the dialect names one.
    pub param: Option<&'static str>,
}

/// What a server says of itself.
#[derive(Debug, Clone)]
pub struct Portrait<'a> {
    /// The model's name.
    pub model: &'a str,
    /// Tokens that prompt and answer may have together.
    pub context_length: u32,
    /// Requests it runs at once.
    pub max_running: usize,
    /// Requests that may wait.
    pub max_queued: Option<usize>,
    /// Tokens that fit into its cache.
    pub cache_tokens: u64,
    /// When it started, in seconds since 1970.
    pub started: u64,
    /// Its counters.
    pub gauges: Gauges,
}

/// How a dialect writes. All bodies are complete; events come with their `data: ` and empty line.
pub trait Bodies: Send + Sync {
    /// A reply's name, made of a number that is different for each.
    fn id(&self, number: u128, chat: bool) -> String;
    /// A whole reply.
    fn whole(&self, head: &Head, draft: &Draft) -> String;
    /// A stream's first event, before any text; empty if the dialect has none.
    fn open(&self, head: &Head) -> String;
    /// An event with a piece of text.
    fn piece(&self, head: &Head, channel: Channel, text: &str) -> String;
    /// The last piece of text, if there is one left, and the finish reason.
    fn last(&self, head: &Head, draft: &Draft, left: Option<(Channel, &str)>) -> String;
    /// The event with the usage.
    fn usage(&self, head: &Head, draft: &Draft) -> String;
    /// An error, as the body of a reply of its own.
    fn error(&self, fail: &Fail) -> String;
    /// An error inside a stream.
    fn error_event(&self, fail: &Fail) -> String;
    /// That the queue is full: status and body; for a stream the body may be events.
    fn queue_full(&self, stream: bool) -> (u16, String);
    /// What it says of a route GET can ask, if it has the route: content type and body.
    fn portrait(&self, path: &str, portrait: &Portrait<'_>) -> Option<(&'static str, String)>;
}

/// The end of every stream that ends as it should, and of some that do not.
pub const DONE: &str = "data: [DONE]\n\n";

/// How `dialect` writes.
pub fn bodies(dialect: Dialect) -> &'static dyn Bodies {
    match dialect {
        Dialect::Sglang => &Sglang,
        Dialect::Vllm => &Vllm,
    }
}

/// The text as a JSON string.
pub fn quoted(text: &str) -> String {
    // Most texts here are long and have nothing to escape; looking for that without a branch per byte is fast.
    let escapes = |found: bool, byte: u8| found | (byte < b' ') | (byte == b'"') | (byte == b'\\');
    if !text.bytes().fold(false, escapes) {
        return format!("\"{text}\"");
    }
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".into())
}

/// The text as a JSON string; `absent` where there is none.
pub fn quoted_or(text: Option<&str>, absent: &str) -> String {
    text.map_or_else(|| absent.to_owned(), quoted)
}

/// One server-sent event.
pub fn event(json: &str) -> String {
    format!("data: {json}\n\n")
}

#[cfg(test)]
mod tests;
