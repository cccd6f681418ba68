//! What a reply is (pure and total): the one place where replies are classified.
//!
//! It says what came, not what is to be done: that is [`retry`](super::retry) for faults, and the `validate` stage for
//! answers.

use super::{
    transport::TransportError,
    wire::{Collected, Ending, ErrorBody, Form, Message},
};
use crate::record::{Completion, Finish, Reason, Request, Thinking, thought};
use serde_json::{Map, Value};
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
        let reason = error_reason(status, &error);
        let text = said(reason, &error).unwrap_or_else(|| excerpt(&collected.raw));
        return fault(reason, format!("HTTP {status}: {text}").trim_end_matches([':', ' ']).to_owned());
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
            let text = said(reason, error).unwrap_or_else(|| "it says nothing".to_owned());
            return fault(reason, format!("HTTP {status} with an error inside: {text}"));
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
    // llama.cpp says 500 when the context is used up on the way; the same request would use it up again.
    let overflows = (400..=500).contains(&code) && (error.kind == "exceed_context_size_error" || says(CONTEXT_WORDS));
    match code {
        // 402: the account has no credit left; 407: a proxy wants a key of its own.
        401 | 402 | 403 | 407 => Reason::Unauthorized,
        // A redirect is not followed, and says as a missing route does that nobody here answers this model.
        300..400 | 404 | 405 | 410 => Reason::UnknownModel,
        408 | 425 | 429 => Reason::Overloaded,
        503 if says(&["loading"]) => Reason::Loading,
        // SGLang says 503 for a full queue, vLLM for a busy engine.
        503 => Reason::Overloaded,
        _ if overflows => Reason::ContextOverflow,
        400 | 406 | 411..=417 | 422 | 431 | 451 => Reason::BadRequest,
        // The rest (409, 424, nginx's 499, …) speaks of the moment, not of the request.
        500.. => Reason::ServerError,
        _ => Reason::BadReply,
    }
}

/// What an error says, for people; `None` where it says nothing. Who refuses a key may quote it: that is not repeated.
fn said(reason: Reason, error: &ErrorBody) -> Option<String> {
    if reason == Reason::Unauthorized {
        return Some("the server does not accept the key".to_owned());
    }
    (!error.message.trim().is_empty()).then(|| excerpt(error.message.as_bytes()))
}

/// How servers say that prompt and answer do not fit: llama.cpp, vLLM, SGLang and gateways before them.
const CONTEXT_WORDS: &[&str] = &[
    "context length",
    "context size",
    "context window",
    "maximum context",
    "longer than the model",
    "context limit",
    "max_model_len",
    "max_seq_len",
    "max_total_tokens",
    "sequence length",
    "supports at most",
    "too long",
    "too many tokens",
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
        text.as_deref().map(thought::bare).filter(|text| !thought::is_blank(text)).map(str::to_owned)
    };
    let (first, second) = (given(&message.reasoning_content), given(&message.reasoning));
    let differ = |one: &Option<String>, two: &Option<String>| one.is_some() && two.is_some() && one != two;
    let ambiguous = differ(&first, &second);
    let field = first.or(second);
    let split = thought::split(
        message.content.as_deref().unwrap_or_default(),
        request.thinking != Thinking::Off && field.is_none(),
    );
    let inline = split.thought.filter(|thought| !thought::is_blank(thought));
    let had_inline = inline.is_some();
    let had_field = field.is_some();
    let ambiguous = ambiguous || differ(&field, &inline);
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
    let seen = Seen { ambiguous, had_inline, unclosed: split.unclosed };
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
    if let Some(why) = completion.tool_calls.as_ref().and_then(|calls| bad_call(calls, request.body.get("tools"))) {
        return Some((Reason::BadToolCall, why));
    }
    if let Some(call) = thought::stray_tool_call(&completion.content) {
        let reason = if offered { Reason::StrayMarkers } else { Reason::UnwantedToolCall };
        return Some((reason, format!("`{call}` stands in the answer")));
    }
    if let Some(marker) = thought::stray_marker(&completion.content) {
        let off = request.thinking == Thinking::Off;
        let reason = if off { Reason::ThinkingMismatch } else { Reason::StrayMarkers };
        return Some((reason, format!("`{marker}` stands in the answer")));
    }
    match &completion.finish {
        Finish::Length => flaw(Reason::Truncated, "max_tokens or the context was used up"),
        // vLLM's word for an answer that it stopped because it repeated itself.
        Finish::Other(word) if word == "repetition" => flaw(Reason::Degenerate, "the server stopped it for repetition"),
        Finish::ToolCalls if completion.tool_calls.is_none() => {
            flaw(Reason::UnwantedToolCall, "the finish reason speaks of a tool call, and there is none")
        }
        Finish::Other(word) => Some((Reason::UnknownFinish, format!("the finish reason is `{word}`"))),
        Finish::Stop | Finish::ToolCalls => None,
    }
}

/// What is wrong with the first call that cannot be made, if there is one.
fn bad_call(calls: &Value, tools: Option<&Value>) -> Option<String> {
    let offered: Vec<&str> = tools
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|tool| tool.pointer("/function/name").and_then(Value::as_str))
        .collect();
    calls.as_array().into_iter().flatten().find_map(|call| {
        let name = call.pointer("/function/name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let Some(name) = name else { return Some("a call names no tool".to_owned()) };
        if !offered.is_empty() && !offered.contains(&name) {
            return Some(format!("`{name}` was not offered"));
        }
        let arguments = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
        let whole = arguments.trim().is_empty() || serde_json::from_str::<Map<String, Value>>(arguments).is_ok();
        (!whole).then(|| format!("the arguments for `{name}` are no JSON object"))
    })
}

/// The first characters of a body, on one line.
fn excerpt(raw: &[u8]) -> String {
    const CHARACTERS: usize = 200;
    let text = String::from_utf8_lossy(raw.get(..4 * CHARACTERS).unwrap_or(raw));
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(CHARACTERS).collect()
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
