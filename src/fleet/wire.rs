//! OpenAI request and reply bodies, streamed and not: bytes out, bytes folded into one [`Collected`].
//!
//! Formats: the OpenAI API reference (chat completions, completions), and what SGLang, vLLM and llama.cpp really send.
//! What a reply means is not said here but in [`classify`](super::classify).

pub use super::reply::{ErrorBody, Message};
use super::{
    reply::{Body, order_calls},
    sse::Events,
};
use crate::record::Request;
use bytes::Bytes;
use serde_json::{Map, Value};

/// The body of one attempt: what the template asked for, the model's name, the seed, and whether to stream.
pub fn encode(request: &Request, model: &str, seed: u64, stream: bool) -> Bytes {
    let mut body = Map::with_capacity(request.body.len() + 4);
    body.insert("model".to_owned(), model.into());
    body.extend(request.body.clone());
    body.insert("seed".to_owned(), seed.into());
    body.insert("stream".to_owned(), stream.into());
    if stream {
        body.insert("stream_options".to_owned(), serde_json::json!({ "include_usage": true }));
    }
    Value::Object(body).to_string().into()
}

/// How a body ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// As HTTP says a body ends. It proves nothing: vLLM ends a stream so after an error in it.
    Whole,
    /// The connection was lost.
    Lost(String),
    /// Nothing more came for too long.
    Stalled,
}

/// A reply, folded.
#[derive(Debug, Clone)]
pub struct Collected {
    /// What it holds.
    pub form: Form,
    /// How it ended.
    pub ending: Ending,
    /// It as it came, cut in the middle to a bounded length: for people to look at.
    pub raw: Bytes,
}

/// What a reply holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// An answer, whole or not: without a finish reason it is not.
    Message(Message),
    /// An error object, wherever it stood: alone, or in the middle of a stream.
    Error(ErrorBody),
    /// A reply without any choice.
    NoChoices,
    /// JSON that holds half a surrogate pair, which no UTF-8 text can hold.
    LoneSurrogate,
    /// Anything else, with what was expected.
    Unreadable(String),
}

/// A body that is being received.
#[derive(Debug)]
pub struct Collector {
    mode: Mode,
    event_stream: bool,
    raw: Raw,
    folded: Message,
    saw_choice: bool,
    error: Option<Form>,
    /// `[DONE]` has come.
    done: bool,
    /// Bytes of a document received, or of a stream's answer kept.
    size: usize,
}

#[derive(Debug)]
enum Mode {
    /// Nothing but white space has come.
    Undecided,
    /// One JSON document (or HTML, or anything).
    Document(Vec<u8>),
    /// Server-sent events.
    Stream(Events),
}

/// A document larger than this, or a stream with a larger answer, is none.
const LARGEST_BODY: usize = 16 << 20;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl Collector {
    /// A body of this content type. Whether it is a stream is told by the body itself: some servers answer a streamed
    /// request with a document, and the other way round.
    pub fn new(streamed_expected: bool, content_type: &str) -> Collector {
        let event_stream = content_type.contains("event-stream") || (streamed_expected && content_type.is_empty());
        Collector {
            mode: Mode::Undecided,
            event_stream,
            raw: Raw::default(),
            folded: Message::default(),
            saw_choice: false,
            error: None,
            done: false,
            size: 0,
        }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.raw.push(piece);
        let mut piece = piece;
        if matches!(self.mode, Mode::Undecided) {
            // White space and a byte order mark before the body are not part of it.
            let begin = piece.iter().position(|byte| !byte.is_ascii_whitespace() && !BYTE_ORDER_MARK.contains(byte));
            piece = piece.get(begin.unwrap_or(piece.len())..).unwrap_or_default();
            let Some(first) = piece.first() else { return };
            let document = matches!(first, b'{' | b'[' | b'<' | b'"');
            let stream = !document && (self.event_stream || matches!(first, b'd' | b':' | b'e' | b'i' | b'r'));
            self.mode = if stream { Mode::Stream(Events::default()) } else { Mode::Document(Vec::new()) };
        }
        match &mut self.mode {
            Mode::Undecided => {}
            Mode::Document(bytes) => {
                self.size = self.size.saturating_add(piece.len());
                if bytes.len() + piece.len() <= LARGEST_BODY {
                    bytes.extend_from_slice(piece);
                }
            }
            Mode::Stream(events) => {
                // The events are taken out while they are folded, so that folding may borrow the rest.
                let mut events = std::mem::take(events);
                events.push(piece, |name, data| self.event(name, data));
                self.mode = Mode::Stream(events);
            }
        }
    }

    /// How much of an answer or a thought has come, in bytes: what tells a server that works from one that only keeps the
    /// connection open. Of a document, which comes when the work is done, every byte counts.
    pub fn output(&self) -> usize {
        self.size
    }

    /// Whether nothing that follows can change what the reply is: it says that it is done, or it is spoilt.
    pub fn is_done(&self) -> bool {
        self.done || self.error.is_some() || self.size > LARGEST_BODY
    }

    /// The reply, after its last piece.
    pub fn finish(mut self, ending: Ending) -> Collected {
        let form = match std::mem::replace(&mut self.mode, Mode::Undecided) {
            Mode::Undecided => Form::Unreadable("the body is empty".to_owned()),
            Mode::Document(_) if self.size > LARGEST_BODY => {
                Form::Unreadable(format!("the body is larger than {} MiB", LARGEST_BODY >> 20))
            }
            Mode::Document(bytes) => document(&bytes),
            Mode::Stream(mut events) => {
                events.finish(|name, data| self.event(name, data));
                if events.too_long() {
                    self.error.get_or_insert(Form::Unreadable("an event of the stream is too large".to_owned()));
                }
                order_calls(&mut self.folded.tool_calls);
                match self.error.take() {
                    Some(error) => error,
                    None if self.saw_choice => Form::Message(std::mem::take(&mut self.folded)),
                    None => Form::NoChoices,
                }
            }
        };
        Collected { form, ending, raw: self.raw.finish() }
    }

    /// Folds one event of a stream. The first error stays.
    fn event(&mut self, name: &[u8], data: &[u8]) {
        if self.done || self.error.is_some() {
            return;
        }
        if data.trim_ascii() == b"[DONE]" {
            self.done = true;
            return;
        }
        let body: Body = match serde_json::from_slice(data) {
            Ok(body) => body,
            Err(error) => return self.error = Some(unreadable(data, &error)),
        };
        let unnamed = || ErrorBody { message: String::from_utf8_lossy(data).into_owned(), ..ErrorBody::default() };
        if let Some(error) = body.error().or_else(|| (name == b"error").then(unnamed)) {
            return self.error = Some(Form::Error(error));
        }
        self.folded.usage = body.usage().unwrap_or(self.folded.usage);
        if self.folded.model.is_none() {
            self.folded.model.clone_from(&body.model);
        }
        if let Some(choice) = body.first_choice() {
            self.saw_choice = true;
            // What is kept counts, not what was sent: a token of a long thought comes in hundreds of bytes.
            self.size = self.size.saturating_add(choice.kept(data.len()));
            if self.size > LARGEST_BODY {
                return self.error =
                    Some(Form::Unreadable(format!("the answer is larger than {} MiB", LARGEST_BODY >> 20)));
            }
            if let Some(why) = choice.contradicts(&self.folded) {
                return self.error = Some(Form::Unreadable(why.to_owned()));
            }
            choice.fold_into(&mut self.folded);
        }
    }
}

fn document(bytes: &[u8]) -> Form {
    let body: Body = match serde_json::from_slice(bytes) {
        Ok(body) => body,
        Err(error) => return unreadable(bytes, &error),
    };
    if let Some(error) = body.error() {
        return Form::Error(error);
    }
    let usage = body.usage().unwrap_or_default();
    let model = body.model.clone();
    let Some(choice) = body.first_choice() else { return Form::NoChoices };
    let mut message = Message { usage, model, ..Message::default() };
    if let Some(why) = choice.contradicts(&message) {
        return Form::Unreadable(why.to_owned());
    }
    choice.fold_into(&mut message);
    Form::Message(message)
}

/// What bytes are that are not the JSON of a reply.
fn unreadable(bytes: &[u8], error: &serde_json::Error) -> Form {
    // serde_json has no kind for this error, only these two texts.
    let text = error.to_string();
    if text.contains("surrogate") || text.contains("end of hex escape") {
        return Form::LoneSurrogate;
    }
    if bytes.first() == Some(&b'<') { Form::Unreadable("it is HTML".to_owned()) } else { Form::Unreadable(text) }
}

/// The first and the last bytes of a body.
#[derive(Debug, Default)]
struct Raw {
    head: Vec<u8>,
    tail: Vec<u8>,
    dropped: usize,
}

/// How much of each end of a body is kept.
const RAW_END: usize = 16 << 10;

impl Raw {
    fn push(&mut self, piece: &[u8]) {
        let room = RAW_END.saturating_sub(self.head.len()).min(piece.len());
        let (head, rest) = piece.split_at(room);
        self.head.extend_from_slice(head);
        let last = &rest[rest.len().saturating_sub(RAW_END)..];
        self.dropped += rest.len() - last.len();
        self.tail.extend_from_slice(last);
        // Cut back seldom, so that a long stream is not moved about for each of its pieces.
        if self.tail.len() > 4 * RAW_END {
            self.cut_back();
        }
    }

    fn cut_back(&mut self) {
        let excess = self.tail.len().saturating_sub(RAW_END);
        self.tail.drain(..excess);
        self.dropped += excess;
    }

    fn finish(mut self) -> Bytes {
        self.cut_back();
        if self.dropped > 0 {
            self.head.extend_from_slice(format!("\n… {} bytes left out …\n", self.dropped).as_bytes());
        }
        self.head.append(&mut self.tail);
        self.head.into()
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
