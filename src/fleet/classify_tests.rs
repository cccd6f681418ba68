use super::*;
use crate::{
    fleet::{
        retry::{Policy, Trouble, policy},
        wire::Collector,
    },
    record::Thinking,
};
use serde_json::{Map, Value, json};

fn request(thinking: Thinking) -> Request {
    Request { path: "/v1/chat/completions", body: Map::new(), thinking, max_tokens: 64, run_seed: 0 }
}

fn outcome(status: u16, body: &str, ending: Ending, thinking: Thinking) -> Outcome {
    let mut collector = Collector::new(false, "");
    collector.push(body.as_bytes());
    classify(status, "", None, &collector.finish(ending), &request(thinking))
}

fn fault(status: u16, body: &str) -> Fault {
    match outcome(status, body, Ending::Whole, Thinking::Unset) {
        Outcome::Fault(fault) => fault,
        Outcome::Answer(answer) => panic!("an answer: {answer:?}"),
    }
}

fn answer(message: &Value, finish: &str, thinking: Thinking) -> Completion {
    let body = json!({ "choices": [{ "index": 0, "message": message, "finish_reason": finish }] });
    match outcome(200, &body.to_string(), Ending::Whole, thinking) {
        Outcome::Answer(answer) => answer,
        Outcome::Fault(fault) => panic!("a fault: {fault:?}"),
    }
}

#[test]
fn a_server_that_nobody_can_use_costs_no_row() {
    for status in [301, 307, 308, 401, 402, 403, 404, 407] {
        let reason = fault(status, "").reason;
        assert_eq!(policy(reason), Policy::RetryElsewhere { server: Trouble::Unusable }, "{status} {reason}");
    }
}

#[test]
fn a_full_context_is_the_same_outcome_again_whatever_its_status() {
    let body = r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#;
    for status in [200, 400, 413, 500] {
        assert_eq!(fault(status, body).reason, Reason::ContextOverflow, "{status}");
    }
    assert_eq!(fault(500, r#"{"error":{"message":"EngineCore encountered an issue"}}"#).reason, Reason::ServerError);
}

#[test]
fn a_request_that_does_not_fit_is_known_by_every_servers_words() {
    for message in [
        "This model's maximum context length is 512 tokens. However, your prompt contains at least 513 input tokens",
        "max_tokens=100000 cannot be greater than max_model_len=512",
        "The input (610 tokens) is longer than the model's context length (512 tokens).",
        "max_completion_tokens is too large: 100000.This model supports at most 512 completion tokens.",
        "request (9031 tokens) exceeds the available context size (1024 tokens), try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the sum exceeds the maximum sequence length of 4096",
    ] {
        let fault = fault(400, &json!({ "error": { "message": message, "code": 400 } }).to_string());
        assert_eq!(fault.reason, Reason::ContextOverflow, "{message}");
        assert!(fault.detail.contains(message), "the numbers are kept: {}", fault.detail);
    }
    for message in ["max_tokens must be at least 1, got 0", "Conversation roles must alternate"] {
        let body = json!({ "error": { "message": message, "code": 400 } }).to_string();
        assert_eq!(fault(400, &body).reason, Reason::BadRequest, "{message}");
    }
}

#[test]
fn a_refusal_of_the_moment_costs_an_attempt_and_not_the_row() {
    for status in [409, 424, 499] {
        assert_eq!(policy(fault(status, "").reason), Policy::RetryRecord, "{status}");
    }
    for status in [400, 413, 422] {
        assert_eq!(policy(fault(status, "").reason), Policy::Reject, "{status}");
    }
}

#[test]
fn an_abort_is_known_in_every_form() {
    for finish in [json!("abort"), json!("cancelled"), json!("error"), json!({ "type": "abort", "message": "m" })] {
        let choice = json!({ "message": { "content": "The su" }, "finish_reason": finish });
        assert_eq!(fault(200, &json!({ "choices": [choice] }).to_string()).reason, Reason::Aborted, "{finish}");
    }
}

#[test]
fn a_detail_is_one_bounded_line_without_the_key() {
    let long = json!({ "object": "error", "message": "a\n  File \"b.py\" ".repeat(10_000), "code": 400 }).to_string();
    for status in [200, 400] {
        let detail = fault(status, &long).detail;
        assert!(detail.contains(&format!("HTTP {status}")) && detail.chars().count() < 300, "{}", detail.len());
        assert!(!detail.contains('\n'));
    }
    for (status, body) in [
        (401, r#"{"error":{"message":"Incorrect API key provided: SECRET","code":"invalid_api_key"}}"#),
        (403, "the key SECRET may not do this"),
        (200, r#"{"error":{"message":"Invalid key SECRET","code":401}}"#),
    ] {
        let fault = fault(status, body);
        assert_eq!(fault.reason, Reason::Unauthorized);
        assert!(!fault.detail.contains("SECRET"), "{}", fault.detail);
    }
}

#[test]
fn a_blank_finish_reason_is_none() {
    let event = |finish: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"The sum\"}},\"finish_reason\":{finish}}}]}}\n\n")
    };
    let cut = outcome(200, &event("\"\""), Ending::Whole, Thinking::Unset);
    assert!(matches!(cut, Outcome::Fault(Fault { reason: Reason::CutReply, .. })), "{cut:?}");
    let whole = outcome(200, &(event("\"\"") + &event("\"stop\"")), Ending::Whole, Thinking::Unset);
    assert!(matches!(whole, Outcome::Answer(Completion { flaw: None, .. })), "{whole:?}");
}

#[test]
fn vllm_says_itself_that_an_answer_repeats_without_end() {
    let answer = answer(&json!({ "content": "again again" }), "repetition", Thinking::Unset);
    assert_eq!(answer.flaw, Some(Reason::Degenerate));
}

#[test]
fn a_finish_reason_that_speaks_of_a_tool_call_that_is_not_there_is_a_flaw() {
    let answer = answer(&json!({ "content": "Let me add.", "tool_calls": [] }), "tool_calls", Thinking::Unset);
    assert_eq!(answer.flaw, Some(Reason::UnwantedToolCall));
}

#[test]
fn the_same_thought_under_two_names_or_in_two_places_is_one() {
    for message in [
        json!({ "content": "12.", "reasoning": "I add.\n", "reasoning_content": "I add." }),
        json!({ "content": "<think>\nI add.\n</think>\n\n12.", "reasoning_content": "I add." }),
    ] {
        let answer = answer(&message, "stop", Thinking::On);
        assert_eq!((answer.content.as_str(), answer.reasoning.as_deref()), ("12.", Some("I add.")));
        assert_eq!(answer.flaw, None, "{message}");
    }
    for message in [
        json!({ "content": "12.", "reasoning": "I add.", "reasoning_content": "I guess." }),
        json!({ "content": "<think>I guess.</think>12.", "reasoning": "I add." }),
    ] {
        assert_eq!(answer(&message, "stop", Thinking::On).flaw, Some(Reason::AmbiguousReasoning), "{message}");
    }
}

#[test]
fn no_marker_is_kept_in_the_reasoning_field() {
    for field in ["<think>\nI add.\n</think>", "I add.\n</think>", "<think>I add."] {
        let answer = answer(&json!({ "content": "12.", "reasoning_content": field }), "stop", Thinking::On);
        assert_eq!((answer.reasoning.as_deref(), answer.flaw), (Some("I add."), None), "{field}");
    }
}

#[test]
fn a_closing_marker_is_a_thought_although_thinking_was_off() {
    let message = json!({ "content": "I add 5 and 7.\n</think>\n\nThe sum is 12." });
    assert_eq!(answer(&message, "stop", Thinking::Off).flaw, Some(Reason::ThinkingMismatch));
    let shell = json!({ "content": "<think>\n\n</think>\n\nThe sum is 12." });
    let shell = answer(&shell, "stop", Thinking::Off);
    assert_eq!((shell.content.as_str(), shell.reasoning, shell.flaw), ("The sum is 12.", None, None));
}

#[test]
fn calls_of_a_document_are_kept_as_they_came() {
    let calls = json!([
        { "index": 0, "id": "a", "function": { "name": "add", "arguments": "{\"a\": 5}" } },
        { "index": 0, "id": "b", "function": { "name": "add", "arguments": "{\"a\": 7}" } },
    ]);
    let answer = answer(&json!({ "content": null, "tool_calls": calls }), "tool_calls", Thinking::Unset);
    assert_eq!(answer.tool_calls, Some(calls));
}
