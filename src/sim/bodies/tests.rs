//! The same text as a recorded server's, written here, must be the same bytes.

use super::*;
use crate::sim::{
    draft::{Finish, Place},
    persona::{Saying, Text, count_tokens},
    question::Question,
};
use serde_json::Value;

const THOUGHT: &str = " Okay the user wants three fruits so let me consider which ones are common everywhere and easy to \
                       name quickly before answering";
const ANSWER: &str = "Apple banana cherry make good choices because they taste sweet 😀 today";

fn text(text: &str) -> Text {
    Text { text: text.into(), tokens: count_tokens(text) }
}

fn field(dialect: Dialect) -> ReasoningField {
    match dialect {
        Dialect::Sglang => ReasoningField::ReasoningContent,
        Dialect::Vllm => ReasoningField::Reasoning,
    }
}

fn draft(dialect: Dialect, thought: Option<&str>, answer: &str, prompt_tokens: u32) -> Draft {
    Draft::new(Saying { thought: thought.map(text), answer: text(answer) }, field(dialect), prompt_tokens)
}

/// The head that the recording has, read from it; the rest of it has to be told.
fn head(dialect: Dialect, recording: &str, chat: bool) -> Head {
    let first = recording.strip_prefix("data: ").and_then(|events| events.lines().next()).unwrap_or(recording);
    let value: Value = serde_json::from_str(first).expect("a recording is JSON");
    Head {
        id: value["id"].as_str().expect("an id").into(),
        created: value["created"].as_u64().expect("a time"),
        model: "tiny-qwen3".into(),
        chat,
        include_usage: true,
        field: field(dialect),
    }
}

fn assert_same(
    dialect: Dialect,
    recording: &str,
    written: impl FnOnce(&Head, &'static dyn Bodies) -> String,
    chat: bool,
) {
    let written = written(&head(dialect, recording, chat), bodies(dialect));
    assert_eq!(written.trim_end(), recording.trim_end().replace("vllm-0.32.0-418558a0", "vllm-0.32.0-simulated"));
}

#[test]
fn whole_replies_are_the_recorded_bytes() {
    let recordings = [
        (
            Dialect::Sglang,
            include_str!("../recorded/sglang-chat.json"),
            include_str!("../recorded/sglang-chat-cut.json"),
            include_str!("../recorded/sglang-chat-cut-thought.json"),
            include_str!("../recorded/sglang-chat-no-thought.json"),
            include_str!("../recorded/sglang-stop.json"),
        ),
        (
            Dialect::Vllm,
            include_str!("../recorded/vllm-chat.json"),
            include_str!("../recorded/vllm-chat-cut.json"),
            include_str!("../recorded/vllm-chat-cut-thought.json"),
            include_str!("../recorded/vllm-chat-no-thought.json"),
            include_str!("../recorded/vllm-stop.json"),
        ),
    ];
    for (dialect, whole, cut, cut_thought, no_thought, stopped) in recordings {
        let thinking = || draft(dialect, Some(THOUGHT), ANSWER, 23);
        let same = |recording, draft: Draft| assert_same(dialect, recording, |head, b| b.whole(head, &draft), true);
        same(whole, thinking());
        same(cut, thinking().limit(28, Finish::Length));
        same(cut_thought, thinking().limit(5, Finish::Length));
        same(no_thought, draft(dialect, None, ANSWER, 19));
        same(stopped, draft(dialect, Some(THOUGHT), ANSWER, 15).stop_at(&["e".into()]));
    }
}

#[test]
fn whole_text_completions_are_the_recorded_bytes() {
    let answer = " banana cherry make good choices because they taste sweet";
    for (dialect, recording) in [
        (Dialect::Sglang, include_str!("../recorded/sglang-text.json")),
        (Dialect::Vllm, include_str!("../recorded/vllm-text.json")),
    ] {
        let draft = draft(dialect, None, answer, 12).limit(8, Finish::Length);
        assert_same(dialect, recording, |head, b| b.whole(head, &draft), false);
    }
}

#[test]
fn streams_are_the_recorded_bytes() {
    let recordings = [
        (
            Dialect::Sglang,
            include_str!("../recorded/sglang-chat-stream.txt"),
            include_str!("../recorded/sglang-text-stream.txt"),
        ),
        (
            Dialect::Vllm,
            include_str!("../recorded/vllm-chat-stream.txt"),
            include_str!("../recorded/vllm-text-stream.txt"),
        ),
    ];
    for (dialect, chat, plain) in recordings {
        let thinking = draft(dialect, Some(THOUGHT), ANSWER, 15).limit(8, Finish::Length);
        assert_same(dialect, chat, |head, b| events(head, b, &thinking), true);
        let answer = draft(dialect, None, " banana cherry make good choices", 12).limit(4, Finish::Length);
        assert_same(dialect, plain, |head, b| events(head, b, &answer), false);
    }
}

/// A stream with an event for each token, as the recorded servers send it when they are not in a hurry.
fn events(head: &Head, writer: &dyn Bodies, draft: &Draft) -> String {
    let (mut events, mut place) = (writer.open(head), Place::default());
    while place.tokens + 1 < draft.tokens {
        for (channel, text) in draft.take(&mut place, 1) {
            events += &writer.piece(head, channel, text);
        }
    }
    let last = draft.take(&mut place, 1).pop();
    events + &writer.last(head, draft, last) + &writer.usage(head, draft) + DONE
}

#[test]
fn complaints_are_the_recorded_bytes() {
    let long = format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "x ".repeat(605));
    let greedy = r#"{"messages":[{"role":"user","content":"x"}],"max_tokens":100000}"#.to_owned();
    for (body, dialect, recording) in [
        (&long, Dialect::Sglang, include_str!("../recorded/sglang-too-long.json")),
        (&long, Dialect::Vllm, include_str!("../recorded/vllm-too-long.json")),
        (&greedy, Dialect::Sglang, include_str!("../recorded/sglang-limit-too-large.json")),
        (&greedy, Dialect::Vllm, include_str!("../recorded/vllm-limit-too-large.json")),
    ] {
        let question = Question::read(body.as_bytes(), true, dialect).expect("it is well formed");
        let fail = question.limit(512, question.prompt_tokens(), dialect).expect_err("it does not fit");
        assert_eq!(bodies(dialect).error(&fail), recording.trim_end());
    }
}

#[test]
fn a_full_queue_is_said_as_recorded() {
    let event = r#"data: {"error": {"object": "error", "message": "The request queue is full.", "type": "SERVICE_UNAVAILABLE", "param": null, "code": 503}}"#;
    assert_eq!(Sglang.queue_full(true), (200, format!("{event}\n\ndata: [DONE]\n\n")));
    let whole = r#"{"object":"error","message":"The request queue is full.","type":"503","param":null,"code":503}"#;
    assert_eq!(Sglang.queue_full(false), (503, whole.into()));
    let busy = r#"{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"Service Unavailable","param":null,"code":503}}"#;
    assert_eq!(Vllm.queue_full(true), (503, busy.into()));
}

#[test]
fn a_portrait_has_the_recorded_keys_in_the_recorded_order() {
    let gauges = Gauges { generation_tokens: 7, ..Gauges::default() };
    let portrait = Portrait {
        model: "a \"quoted\" name",
        context_length: 512,
        max_running: 4,
        max_queued: None,
        cache_tokens: 4096,
        started: 1,
        gauges,
    };
    for (dialect, recording, live_counter) in [
        (Dialect::Sglang, include_str!("../recorded/sglang-models.json"), "sglang:realtime_tokens_total{"),
        (Dialect::Vllm, include_str!("../recorded/vllm-models.json"), "vllm:generation_tokens_total{"),
    ] {
        let (_, body) = bodies(dialect).portrait("/v1/models", &portrait).expect("the route is there");
        let paths = |json: &str| paths(&serde_json::from_str(json).expect("it is JSON"), "");
        assert_eq!(paths(&body), paths(recording));
        assert!(body.contains(r#""max_model_len":512"#));
        let (_, metrics) = bodies(dialect).portrait("/metrics", &portrait).expect("the route is there");
        let samples: Vec<_> = metrics.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(samples.iter().any(|line| line.contains(live_counter) && line.ends_with(" 7.0")), "{metrics}");
        assert!(samples.iter().all(|line| line.contains(r#"model_name="a \"quoted\" name""#)), "{metrics}");
    }
    let (_, info) = Sglang.portrait("/get_server_info", &portrait).expect("the route is there");
    assert!(serde_json::from_str::<Value>(&info).is_ok(), "{info}");
}

/// Every key of a document with the way to it, in order.
fn paths(value: &Value, way: &str) -> Vec<String> {
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| {
                let way = format!("{way}.{key}");
                [way.clone()].into_iter().chain(paths(value, &way)).collect::<Vec<_>>()
            })
            .collect(),
        Value::Array(list) => list.iter().flat_map(|value| paths(value, &format!("{way}[]"))).collect(),
        _ => Vec::new(),
    }
}
