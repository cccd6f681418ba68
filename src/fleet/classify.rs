//! What a reply is (pure and total): the one place where replies are classified.
//!
//! It says what came, not what is to be done: that is [`retry`](super::retry) for faults, and the `validate` stage for
//! answers.

use super::{
    transport::TransportError,
    wire::{Collected, Ending, ErrorBody, Form, Message},
};
use crate::record::{Completion, Finish, Reason, Request, Thinking, thought};
use std::time::Duration;

/// What a reply is.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// An answer, in canonical form. It may still have a flaw.
    Answer(Completion),
    /// No answer.
    Fault(Fault),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The word.
    pub reason: Reason,
    /// What is to be known about this one, for people.
    pub detail: String,
    /// How long the server asked to be left alone.
    pub retry_after: Option<Duration>,
}

/// What the reply to `request` is.
pub fn classify(
    status: u16,
    content_type: &str,
    retry_after: Option<&str>,
    collected: &Collected,
    request: &Request,
) -> Outcome {
    let fault = |reason, detail: String| {
        Outcome::Fault(Fault { reason, detail, retry_after: retry_after.and_then(super::retry::retry_after) })
    };
    if !(200..300).contains(&status) {
        let error = match &collected.form {
            Form::Error(error) => error.clone(),
            _ => ErrorBody::default(),
        };
        // The status is looked at before the body: a gateway's page is no JSON, and that is not what is wrong with it.
        let text = if error.message.is_empty() { excerpt(&collected.raw) } else { error.message.clone() };
        return fault(
            error_reason(status, &error),
            format!("HTTP {status}: {text}").trim_end_matches([':', ' ']).to_owned(),
        );
    }
    let message = match &collected.form {
        Form::Message(message) => message,
        Form::Error(error) => {
            let code = error.code.filter(|code| (400..600).contains(code));
            let reason = code.map_or(Reason::ErrorInReply, |code| match error_reason(code, error) {
                // The server said 200 and meant an internal error: the request was lost, the server may be well.
                Reason::ServerError => Reason::ErrorInReply,
                reason => reason,
            });
            return fault(reason, format!("HTTP {status} with an error inside: {}", error.message));
        }
        Form::NoChoices => return fault(Reason::BadReply, "the reply holds no choice".to_owned()),
        Form::LoneSurrogate => return fault(Reason::GarbledReply, "the reply holds half a surrogate pair".to_owned()),
        Form::Unreadable(what) => {
            return match &collected.ending {
                Ending::Whole if content_type.contains("html") => {
                    fault(Reason::BadReply, format!("the reply is HTML: {}", excerpt(&collected.raw)))
                }
                Ending::Whole => fault(Reason::BadReply, format!("the reply cannot be read: {what}")),
                Ending::Lost(why) => fault(Reason::CutReply, format!("the reply broke off: {why}")),
                Ending::Stalled => fault(Reason::Stalled, "the reply stopped in the middle".to_owned()),
            };
        }
    };
    let Some(word) = message.finish_reason.as_deref() else {
        // Neither `[DONE]` nor a clean end of the body says that an answer is whole; only a finish reason does.
        return match &collected.ending {
            Ending::Stalled => fault(Reason::Stalled, "the reply stopped in the middle".to_owned()),
            Ending::Lost(why) => fault(Reason::CutReply, format!("the reply broke off: {why}")),
            Ending::Whole => fault(Reason::CutReply, "the reply ended without a finish reason".to_owned()),
        };
    };
    match word {
        "abort" | "aborted" | "cancelled" | "canceled" | "error" => {
            fault(Reason::Aborted, format!("the server ended the request with `{word}`"))
        }
        _ => Outcome::Answer(completion(message, word, request)),
    }
}

/// Why nothing, or nothing more, came.
pub fn classify_transport(error: &TransportError) -> Fault {
    let (reason, detail) = match error {
        TransportError::Connect(text) => (Reason::Unreachable, text),
        TransportError::Lost(text) => (Reason::ConnectionLost, text),
        TransportError::Local(text) => (Reason::LocalTrouble, text),
    };
    Fault { reason, detail: detail.clone(), retry_after: None }
}

/// What an error with this code means.
fn error_reason(code: u16, error: &ErrorBody) -> Reason {
    let message = error.message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match code {
        401 | 403 => Reason::Unauthorized,
        404 | 405 => Reason::UnknownModel,
        408 | 425 | 429 => Reason::Overloaded,
        503 if says(&["loading"]) => Reason::Loading,
        // SGLang says 503 for a full queue, vLLM for a busy engine.
        503 => Reason::Overloaded,
        500.. => Reason::ServerError,
        _ if error.kind == "exceed_context_size_error" || says(CONTEXT_WORDS) => Reason::ContextOverflow,
        400..500 => Reason::BadRequest,
        _ => Reason::BadReply,
    }
}

/// How servers say that prompt and answer do not fit: llama.cpp, vLLM, SGLang and gateways before them.
const CONTEXT_WORDS: &[&str] = &[
    "context length",
    "context size",
    "context window",
    "maximum context",
    "longer than the model",
    "max_model_len",
    "supports at most",
];

/// The answer in canonical form, with the flaw it has in itself.
fn completion(message: &Message, word: &str, request: &Request) -> Completion {
    let finish = match word {
        "stop" => Finish::Stop,
        "length" => Finish::Length,
        "tool_calls" | "function_call" => Finish::ToolCalls,
        other => Finish::Other(other.to_owned()),
    };
    let given = |text: &Option<String>| {
        text.as_deref().filter(|text| !thought::is_blank(text)).map(str::trim).map(str::to_owned)
    };
    let (first, second) = (given(&message.reasoning_content), given(&message.reasoning));
    let ambiguous = matches!((&first, &second), (Some(first), Some(second)) if first != second);
    let field = first.or(second);
    let split = thought::split(
        message.content.as_deref().unwrap_or_default(),
        request.thinking != Thinking::Off && field.is_none(),
    );
    let inline = split.thought.filter(|thought| !thought::is_blank(thought));
    let had_inline = inline.is_some();
    let had_field = field.is_some();
    let mut content = split.answer;
    if had_field {
        // vLLM and SGLang leave the newlines after the thought in front of the answer.
        content = content.trim_start_matches(['\n', '\r']).to_owned();
    }
    let calls = (!message.tool_calls.is_empty()).then(|| message.tool_calls.clone().into());
    let mut completion = Completion {
        content,
        reasoning: field.or(inline),
        tool_calls: calls,
        finish,
        usage: message.usage,
        model: message.model.clone(),
        flaw: None,
        detail: String::new(),
    };
    let seen = Seen { ambiguous: ambiguous || (had_field && had_inline), had_inline, unclosed: split.unclosed };
    if let Some((reason, detail)) = flaw(&completion, &seen, request) {
        completion.flaw = Some(reason);
        completion.detail = detail;
    }
    completion
}

/// What was seen while the thought was looked for.
struct Seen {
    ambiguous: bool,
    had_inline: bool,
    unclosed: bool,
}

/// What is wrong with an answer in itself, whatever the rules of the pipeline; the gravest first.
fn flaw(completion: &Completion, seen: &Seen, request: &Request) -> Option<(Reason, String)> {
    let cut = completion.finish == Finish::Length;
    let blank = thought::is_blank(&completion.content) && completion.tool_calls.is_none();
    let thought = completion.reasoning.is_some();
    let flaw = |reason, detail: &str| Some((reason, detail.to_owned()));
    if seen.unclosed {
        return match cut {
            true => flaw(Reason::TruncatedThinking, "max_tokens was used up before the thought was closed"),
            false => flaw(Reason::UnclosedThinking, "the thought has no closing marker"),
        };
    }
    if request.thinking == Thinking::Off && thought {
        return match (blank, cut) {
            (true, true) => {
                flaw(Reason::TruncatedThinking, "thinking was off, yet max_tokens was used up in a thought")
            }
            (true, false) => flaw(Reason::MisroutedReasoning, "the answer is in the reasoning field"),
            (false, _) if seen.had_inline => flaw(Reason::ThinkingMismatch, "a thought stands before the answer"),
            (false, _) => flaw(Reason::ThinkingMismatch, "a thought stands in the reasoning field"),
        };
    }
    if seen.ambiguous {
        return flaw(Reason::AmbiguousReasoning, "two different thoughts came under two names");
    }
    if blank {
        return match (cut, request.thinking) {
            (true, Thinking::On) => flaw(Reason::TruncatedThinking, "max_tokens was used up before the answer began"),
            (true, _) if thought => flaw(Reason::TruncatedThinking, "max_tokens was used up before the answer began"),
            (true, _) => flaw(Reason::Truncated, "max_tokens was used up before the answer began"),
            (false, _) if thought => flaw(Reason::Empty, "there is a thought, but no answer after it"),
            (false, _) => flaw(Reason::Empty, "the answer is empty"),
        };
    }
    let offered = request.body.contains_key("tools");
    if completion.tool_calls.is_some() && !offered {
        return flaw(Reason::UnwantedToolCall, "no tool was offered");
    }
    if let Some(call) = thought::stray_tool_call(&completion.content) {
        let reason = if offered { Reason::StrayMarkers } else { Reason::UnwantedToolCall };
        return Some((reason, format!("`{call}` stands in the answer")));
    }
    if let Some(marker) = thought::stray_marker(&completion.content) {
        return Some((Reason::StrayMarkers, format!("`{marker}` stands in the answer")));
    }
    match &completion.finish {
        Finish::Length => flaw(Reason::Truncated, "max_tokens or the context was used up"),
        Finish::Other(word) => Some((Reason::UnknownFinish, format!("the finish reason is `{word}`"))),
        Finish::Stop | Finish::ToolCalls => None,
    }
}

/// The first characters of a body, on one line.
fn excerpt(raw: &[u8]) -> String {
    const CHARACTERS: usize = 200;
    let text = String::from_utf8_lossy(raw.get(..4 * CHARACTERS).unwrap_or(raw));
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(CHARACTERS).collect()
}
