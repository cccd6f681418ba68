//! Replies of real servers, and scripted ones for every fault met in the field, each end in the right word.

#![cfg(test)]

use forebay::{
    edge::Route,
    fleet::{
        classify::{self, Outcome},
        retry::{self, Policy},
        wire::{Collector, Ending},
    },
    record::{Attempt, Completion, Reason, Record, Request, Thinking},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

fn fixtures(folder: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", folder].iter().collect()
}

fn request(thinking: Thinking, tools: bool) -> Request {
    let mut body = Map::new();
    if tools {
        body.insert("tools".into(), json!([{ "type": "function" }]));
    }
    Request { path: "/v1/chat/completions", body, thinking, max_tokens: 64, run_seed: 0 }
}

fn outcome(status: u16, content_type: &str, body: &[u8], lost: bool, request: &Request) -> Outcome {
    let mut collector = Collector::new(false, content_type);
    // In small pieces, as a network may give them.
    body.chunks(37).for_each(|piece| collector.push(piece));
    let ending = if lost { Ending::Lost("connection closed".into()) } else { Ending::Whole };
    classify::classify(status, content_type, None, &collector.finish(ending), request)
}

/// The word for an outcome: the fault's, what `validate` objects to by default, or `answer`.
fn word(outcome: &Outcome, request: &Request) -> &'static str {
    match outcome {
        Outcome::Fault(fault) => fault.reason.word(),
        Outcome::Answer(completion) => judged(completion, request).map_or("answer", Reason::word),
    }
}

/// What `validate` with its defaults has against an answer.
fn judged(completion: &Completion, request: &Request) -> Option<Reason> {
    let mut record = Record::unbound("{}");
    record.request = Some(Arc::new(request.clone()));
    record.attempts.push(Attempt {
        number: 0,
        server: "http://a".into(),
        seed: 0,
        started_ms: 0,
        seconds: 1.0,
        first_token_seconds: None,
        completion: Some(completion.clone()),
        fault: None,
        detail: String::new(),
        raw: bytes::Bytes::new(),
    });
    match forebay::stage::validate_by_default().apply(record) {
        Route::Pass(_) => None,
        Route::Aside(_, rejection) => Some(rejection.reason),
        Route::Around(_) => panic!("validate sends nothing round"),
    }
}

/// One scripted reply of `tests/fixtures/replies`.
struct Case {
    request: Request,
    status: u16,
    content_type: String,
    body: Vec<u8>,
    lost: bool,
}

fn case(name: &str) -> Case {
    let text = fs::read(fixtures("replies").join(format!("{name}.json"))).expect(name);
    let case: Value = serde_json::from_slice(&text).expect(name);
    let thinking = match case["request"]["thinking"].as_str() {
        Some("on") => Thinking::On,
        Some("off") => Thinking::Off,
        _ => Thinking::Unset,
    };
    let http = &case["http"];
    let body = if let Some(text) = case["body_text"].as_str() {
        text.as_bytes().to_vec()
    } else if let Some(lines) = case["sse"].as_array() {
        lines.iter().map(|line| format!("{}\n\n", line.as_str().expect("a line"))).collect::<String>().into_bytes()
    } else {
        case["body"].to_string().into_bytes()
    };
    Case {
        request: request(thinking, case["request"]["tools"].is_array()),
        status: u16::try_from(http["status"].as_u64().expect("a status")).expect("a status"),
        content_type: http["headers"]["content-type"].as_str().unwrap_or_default().to_owned(),
        body,
        lost: matches!(case["then"].as_str(), Some("reset")),
    }
}

fn reply(name: &str) -> (&'static str, Outcome) {
    let case = case(name);
    let outcome = outcome(case.status, &case.content_type, &case.body, case.lost, &case.request);
    (word(&outcome, &case.request), outcome)
}

fn completion(name: &str) -> Completion {
    match reply(name) {
        ("answer", Outcome::Answer(completion)) => completion,
        (word, _) => panic!("{name} is `{word}`"),
    }
}

#[track_caller]
fn rejected(name: &str, wanted: &str) {
    let (word, _) = reply(name);
    assert_eq!(word, wanted, "{name}");
}

#[track_caller]
fn retried(name: &str, wanted: &str) {
    let (word, outcome) = reply(name);
    assert_eq!(word, wanted, "{name}");
    let Outcome::Fault(fault) = outcome else { panic!("{name} is no fault") };
    assert!(!matches!(retry::policy(fault.reason), Policy::Reject | Policy::Judge), "{name}");
}

#[track_caller]
fn accepted(name: &str, content: &str, reasoning: Option<&str>) {
    let completion = completion(name);
    assert_eq!((completion.content.as_str(), completion.reasoning.as_deref()), (content, reasoning), "{name}");
}

#[test]
fn a_t01_an_answer_in_the_reasoning_field_is_misrouted() {
    rejected("A-T01-misrouted", "misrouted_reasoning");
}

#[test]
fn a_t02_a_thought_cut_at_max_tokens_is_no_answer_and_not_asked_again() {
    for name in ["A-T02a-unclosed-in-content", "A-T02b-all-reasoning"] {
        rejected(name, "truncated_thinking");
    }
    assert!(!retry::may_differ(Reason::TruncatedThinking));
}

#[test]
fn a_t03_a_closing_marker_alone_ends_the_thought() {
    accepted("A-T03-only-close", "The sum is 12.", Some("I add 5 and 7."));
    rejected("A-T03-only-close-empty", "empty_answer");
}

#[test]
fn a_t04_both_names_of_the_reasoning_field_are_read() {
    for name in ["A-T04a-reasoning", "A-T04b-both"] {
        accepted(name, "The sum is 12.", Some("I add 5 and 7."));
    }
}

#[test]
fn a_t05_a_thought_although_thinking_was_off_is_a_mismatch() {
    rejected("A-T05-switch-ignored", "thinking_mode_mismatch");
}

#[test]
fn a_t07_tool_calls_are_answers_only_where_tools_were_offered() {
    let completion = completion("A-T07a-tool-call-wanted");
    let arguments = completion.tool_calls.as_ref().and_then(|calls| calls.pointer("/0/function/arguments"));
    assert_eq!(arguments, Some(&json!("{\"a\": 5, \"b\": 7}")));
    assert_eq!(completion.reasoning.as_deref(), Some("I call add."));
    rejected("A-T07b-tool-call-unwanted", "unwanted_tool_call");
    rejected("A-T07c-raw-tool-text", "unwanted_tool_call");
}

#[test]
fn a_s01_an_error_under_200_and_a_reply_without_an_answer_are_no_answers() {
    let (word, outcome) = reply("A-S01a-error-object");
    assert_eq!(word, "bad_request");
    let Outcome::Fault(fault) = outcome else { panic!("a fault") };
    assert_eq!(retry::policy(fault.reason), Policy::Reject);
    retried("A-S01b-no-choices", "bad_reply");
    retried("A-S01c-cut-json", "bad_reply");
}

#[test]
fn a_s02_a_stream_with_an_error_or_without_an_end_is_no_answer() {
    retried("A-S02a-sse-error", "error_in_reply");
    retried("A-S02b-sse-cut", "cut_reply");
}

#[test]
fn a_s03_an_abort_is_retried_and_an_unknown_word_is_named() {
    retried("A-S03a-abort", "aborted");
    let (word, outcome) = reply("A-S03b-unknown-word");
    assert_eq!(word, "unknown_finish");
    let Outcome::Answer(completion) = outcome else { panic!("an answer") };
    assert!(completion.detail.contains("eos_token"));
}

#[test]
fn a_s08_a_gateways_page_is_told_by_its_status() {
    let (word, outcome) = reply("A-S08-504-html");
    let Outcome::Fault(fault) = outcome else { panic!("a fault") };
    assert_eq!(word, "server_error");
    assert!(fault.detail.contains("504") && !fault.detail.contains("JSON"), "{}", fault.detail);
}

#[test]
fn a_s09_a_full_context_is_not_asked_again() {
    rejected("A-S09-context-400", "context_overflow");
    assert_eq!(retry::policy(Reason::ContextOverflow), Policy::Reject);
}

#[test]
fn a_s10_a_cut_answer_has_its_own_word_and_is_not_asked_again() {
    rejected("A-S10-length", "truncated");
    assert!(!retry::may_differ(Reason::Truncated));
}

#[test]
fn a_s11_garbage_is_degenerate_and_legitimate_repetition_is_not() {
    rejected("A-S11a-bang", "degenerate");
    rejected("A-S11b-loop", "degenerate");
    assert!(completion("A-S11c-legit-repetition").content.starts_with("Here is the 12 by 12 zero matrix"));
}

#[test]
fn a_d04_half_a_surrogate_pair_in_a_reply_is_asked_again() {
    retried("A-D04-reply-lone-surrogate", "garbled_reply");
}

#[test]
fn a_m01_tokens_are_those_the_server_counted_and_not_pieces_of_a_stream() {
    assert_eq!(completion("A-M01-spec-chunks").usage.completion_tokens, Some(100));
}

#[test]
fn every_scripted_reply_is_one_of_the_cases_above() {
    let mut names: Vec<_> = fs::read_dir(fixtures("replies")).expect("the folder").flatten().collect();
    names.sort_by_key(fs::DirEntry::file_name);
    let source = include_str!("a_bad_reply_is_never_an_answer.rs");
    for name in names {
        let name = name.file_name().into_string().expect("a name");
        let name = name.trim_end_matches(".json");
        assert!(source.contains(&format!("\"{name}\"")), "{name} is not tested");
    }
}

/// What recordings of real servers must end in, where that is not `answer`. By server and name; a name alone holds
/// for every server.
fn expected() -> BTreeMap<&'static str, &'static str> {
    include_str!("fixtures/recordings/expected.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(' ').expect("a name and a word"))
        .map(|(name, word)| (name, word.trim()))
        .collect()
}

#[test]
fn every_recorded_reply_of_a_real_server_ends_in_the_right_word() {
    let expected = expected();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for entry in fs::read_dir(fixtures("recordings")).expect("the folder").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let server = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        for line in fs::read_to_string(&path).expect("text").lines() {
            let reply: Value = serde_json::from_str(line).expect("JSON");
            let name = reply["name"].as_str().expect("a name");
            let thinking = if name.starts_with("think_off") { Thinking::Off } else { Thinking::Unset };
            let request = request(thinking, name == "scen_tools");
            let status = u16::try_from(reply["status"].as_u64().expect("a status")).expect("a status");
            let body = reply["body"].as_str().expect("a body").as_bytes();
            let outcome = outcome(
                status,
                reply["content_type"].as_str().unwrap_or_default(),
                body,
                reply["ending"] == "lost",
                &request,
            );
            let word = word(&outcome, &request);
            let full = format!("{server}/{name}");
            let wanted = expected.get(full.as_str()).or(expected.get(name)).copied().unwrap_or("answer");
            if word != wanted {
                wrong.push(format!("{full} {word}   (wanted {wanted})"));
            }
            seen += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 150, "only {seen} recordings");
}

/// A stream of events: each the JSON of one choice, a whole event if it begins with `event:`, or `[DONE]`.
fn stream(events: &[&str]) -> Vec<u8> {
    let event = |text: &&str| match *text {
        "[DONE]" => "data: [DONE]\n\n".to_owned(),
        whole if whole.starts_with("event:") => format!("{whole}\n\n"),
        choice => format!("data: {{\"choices\":[{{\"index\":0,{choice}}}]}}\n\n"),
    };
    events.iter().map(event).collect::<String>().into_bytes()
}

#[test]
fn a_stream_that_contradicts_itself_is_no_answer() {
    let (text, more) = (r#""delta":{"content":"The capital of "}"#, r#""delta":{"content":"France"}"#);
    let (stop, length) = (r#""delta":{},"finish_reason":"stop""#, r#""delta":{},"finish_reason":"length""#);
    let abort = r#""delta":{},"finish_reason":"abort""#;
    let whole = r#""message":{"content":"The capital of France"},"finish_reason":"stop""#;
    let both = r#""delta":{"content":"x"},"text":"x","finish_reason":"stop""#;
    let named = "event: error\ndata: {\"msg\":\"boom\"}";
    for (events, wanted) in [
        (vec![text, more, stop, "[DONE]"], "answer"),
        (vec![text, stop, more, "[DONE]"], "bad_reply"),
        (vec![r#""delta":{"content":"The "},"finish_reason":"stop""#, more, "[DONE]"], "bad_reply"),
        (vec![text, length, stop, "[DONE]"], "bad_reply"),
        (vec![text, abort, stop, "[DONE]"], "bad_reply"),
        (vec![text, stop, stop, "[DONE]"], "answer"),
        (vec![text, more, whole, "[DONE]"], "bad_reply"),
        (vec![both, "[DONE]"], "bad_reply"),
        (vec![text, named, stop, "[DONE]"], "error_in_reply"),
        (vec![text, more, stop, "[DONE]", text, more, stop, "[DONE]"], "answer"),
    ] {
        let request = request(Thinking::Unset, false);
        let outcome = outcome(200, "text/event-stream", &stream(&events), false, &request);
        assert_eq!(word(&outcome, &request), wanted, "{events:?}");
        if let Outcome::Answer(completion) = outcome {
            assert!("The capital of France".starts_with(&completion.content), "{completion:?}");
        }
    }
}

#[test]
fn a_call_that_cannot_be_made_is_no_answer() {
    let call = |function: Value| json!([{ "id": "1", "type": "function", "function": function }]);
    for (calls, wanted) in [
        (call(json!({ "name": "add", "arguments": "{\"a\": 5}" })), "answer"),
        (call(json!({ "name": "add", "arguments": "" })), "answer"),
        (call(json!({ "name": "add", "arguments": "{\"a\": " })), "bad_tool_call"),
        (call(json!({ "name": "add", "arguments": "{\"a\":1}{\"a\":1}" })), "bad_tool_call"),
        (call(json!({ "name": "", "arguments": "{}" })), "bad_tool_call"),
        (call(json!({ "name": "multiply", "arguments": "{}" })), "bad_tool_call"),
        (json!([{}]), "bad_tool_call"),
        (json!(["x"]), "bad_tool_call"),
        (json!([null]), "bad_tool_call"),
    ] {
        let body = json!({ "choices": [{ "message": { "content": null, "tool_calls": calls }, "finish_reason": "tool_calls" }] });
        let mut request = request(Thinking::Unset, false);
        request.body.insert("tools".into(), json!([{ "type": "function", "function": { "name": "add" } }]));
        let outcome = outcome(200, "application/json", body.to_string().as_bytes(), false, &request);
        assert_eq!(word(&outcome, &request), wanted, "{calls}");
    }
}

#[test]
fn what_shows_nothing_or_is_a_special_token_is_no_answer() {
    for (content, wanted) in [
        ("\0\0\0", "empty_answer"),
        ("\u{1}\u{2}", "empty_answer"),
        ("\u{fffd}", "empty_answer"),
        ("\u{2800}\u{3164}", "empty_answer"),
        ("<|im_end|>", "stray_markers"),
        ("Paris.<|im_end|>\n<|im_start|>user\nnext", "stray_markers"),
        ("The token `<|im_end|>` ends a turn.", "answer"),
    ] {
        let body = json!({ "choices": [{ "message": { "content": content }, "finish_reason": "stop" }] });
        let request = request(Thinking::Unset, false);
        let outcome = outcome(200, "application/json", body.to_string().as_bytes(), false, &request);
        assert_eq!(word(&outcome, &request), wanted, "{content:?}");
    }
}
