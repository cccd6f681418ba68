use super::*;
use crate::record::Thinking;
use proptest::prelude::*;
use serde_json::json;

fn fold(streamed: bool, content_type: &str, pieces: &[&[u8]]) -> Collected {
    let mut collector = Collector::new(streamed, content_type);
    pieces.iter().for_each(|piece| collector.push(piece));
    collector.finish(Ending::Whole)
}

fn message(collected: Collected) -> Message {
    match collected.form {
        Form::Message(message) => message,
        other => panic!("no message: {other:?}"),
    }
}

const STREAM: &str = concat!(
    "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"I add.\"},\"finish_reason\":null}]}\n\n",
    "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"another sample\"},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Zwölf 😀\"},\"finish_reason\":null}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":9,\"reasoning_tokens\":4}}\n\n",
    "data: [DONE]\n\n",
);

#[test]
fn the_body_says_everything_and_what_the_template_asked_for() {
    let request = Request {
        path: "/v1/chat/completions",
        body: serde_json::from_value(json!({ "messages": [], "max_tokens": 7 })).expect("an object"),
        thinking: Thinking::Unset,
        max_tokens: 7,
        run_seed: 0,
    };
    let body: Value = serde_json::from_slice(&encode(&request, "m", 5, true)).expect("JSON");
    let wanted = json!({ "model": "m", "messages": [], "max_tokens": 7, "seed": 5, "stream": true, "stream_options": { "include_usage": true } });
    assert_eq!(body, wanted);
    let body: Value = serde_json::from_slice(&encode(&request, "m", 5, false)).expect("JSON");
    assert_eq!((&body["stream"], body.get("stream_options")), (&json!(false), None));
}

#[test]
fn a_stream_is_folded_into_the_first_choice() {
    let message = message(fold(true, "text/event-stream", &[STREAM.as_bytes()]));
    assert_eq!(message.content.as_deref(), Some("Zwölf 😀"));
    assert_eq!(message.reasoning_content.as_deref(), Some("I add."));
    assert_eq!(message.finish_reason.as_deref(), Some("stop"));
    assert_eq!((message.usage.completion_tokens, message.usage.reasoning_tokens), (Some(9), Some(4)));
    assert_eq!(message.model.as_deref(), Some("m"));
}

#[test]
fn a_document_and_a_stream_are_told_apart_by_what_they_are() {
    let document = br#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#;
    assert_eq!(message(fold(true, "text/event-stream", &[document])).content.as_deref(), Some("x"));
    assert_eq!(message(fold(false, "application/json", &[STREAM.as_bytes()])).finish_reason.as_deref(), Some("stop"));
}

#[test]
fn pieces_of_a_tool_call_are_joined_and_never_parsed() {
    let text = concat!(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\": "}}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":" 5}"}},{"index":1,"id":"c2","function":{"name":"now","arguments":""}}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        "\n\n",
    );
    let calls = message(fold(true, "text/event-stream", &[text.as_bytes()])).tool_calls;
    assert_eq!(calls.len(), 2);
    assert_eq!(
        calls[0],
        json!({ "id": "c1", "type": "function", "function": { "name": "add", "arguments": "{\"a\":  5}" } })
    );
    assert_eq!(calls[1]["id"], "c2");
}

/// A stream of these deltas of tool calls.
fn calls(deltas: &[Value]) -> Vec<Value> {
    let event = |delta: &Value| format!("data: {}\n\n", json!({ "choices": [{ "delta": { "tool_calls": [delta] } }] }));
    message(fold(true, "text/event-stream", &[deltas.iter().map(event).collect::<String>().as_bytes()])).tool_calls
}

#[test]
fn pieces_of_tool_calls_find_each_other_however_they_are_numbered() {
    let begun = |index: Value, id: &str| json!({ "index": index, "id": id, "type": "function", "function": { "name": "add", "arguments": "" } });
    let more = |index: Value, text: &str| json!({ "index": index, "function": { "arguments": text } });
    let call = |id: &str, text: &str| json!({ "id": id, "type": "function", "function": { "name": "add", "arguments": text } });
    // Counted from 1, and out of order.
    let (one, two) = (json!(1), json!(2));
    let pieces = [
        begun(two.clone(), "b"),
        begun(one.clone(), "a"),
        more(one.clone(), "{\"a\""),
        more(two, "{}"),
        more(one, ": 5}"),
    ];
    assert_eq!(calls(&pieces), [call("a", "{\"a\": 5}"), call("b", "{}")]);
    // Not numbered at all: a piece without an id belongs to the call before it.
    let none = Value::Null;
    let pieces = [begun(none.clone(), "a"), more(none.clone(), "{"), more(none.clone(), "}"), begun(none, "b")];
    assert_eq!(calls(&pieces), [call("a", "{}"), call("b", "")]);
    // Id, type and name in pieces of their own, and said again and again.
    let pieces = [
        json!({ "index": 0, "id": "a", "type": "function" }),
        json!({ "index": 0, "id": "a", "type": "function", "function": { "name": "add", "arguments": null } }),
        json!({ "index": 0, "id": null, "function": { "name": "add", "arguments": "{}" } }),
    ];
    assert_eq!(calls(&pieces), [call("a", "{}")]);
}

#[test]
fn what_stands_before_a_body_does_not_hide_it_however_it_is_cut() {
    for before in ["\u{feff}", " ", "\r\n", "\u{feff}\n"] {
        for text in [r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#, STREAM] {
            let bytes = [before.as_bytes(), text.as_bytes()].concat();
            let wanted = fold(true, "text/event-stream", &[text.as_bytes()]).form;
            assert!(matches!(wanted, Form::Message(_)), "{wanted:?}");
            for at in 0..=before.len() + 1 {
                let (one, two) = bytes.split_at(at);
                assert_eq!(fold(true, "text/event-stream", &[one, two]).form, wanted, "{before:?} {at}");
            }
        }
    }
}

#[test]
fn an_empty_error_is_none() {
    for error in ["null", "\"\"", "{}", "false"] {
        let text = format!(r#"{{"error":{error},"choices":[{{"message":{{"content":"x"}},"finish_reason":"stop"}}]}}"#);
        assert_eq!(message(fold(false, "", &[text.as_bytes()])).content.as_deref(), Some("x"), "{error}");
    }
}

#[test]
fn a_long_answer_in_many_small_events_is_whole() {
    let event =
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"ab\"}}}}],\"x\":\"{}\"}}\n\n", "x".repeat(4_000));
    let mut collector = Collector::new(true, "text/event-stream");
    let count = LARGEST_BODY / event.len() + 2;
    (0..count).for_each(|_| collector.push(event.as_bytes()));
    assert_eq!(message(collector.finish(Ending::Whole)).content.map(|text| text.len()), Some(2 * count));
}

#[test]
fn an_answer_without_end_is_not_kept_without_end() {
    let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "x".repeat(1 << 20));
    let mut collector = Collector::new(true, "text/event-stream");
    (0..80).for_each(|_| collector.push(event.as_bytes()));
    assert!(matches!(collector.finish(Ending::Whole).form, Form::Unreadable(_)));
}

#[test]
fn content_may_be_a_list_of_parts() {
    let document = br#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},"finish_reason":"stop"}]}"#;
    assert_eq!(message(fold(false, "", &[document])).content.as_deref(), Some("ab"));
}

#[test]
fn errors_are_found_in_every_shape_servers_give_them() {
    for (text, code, message) in [
        (r#"{"error":{"message":"m","type":"t","code":400}}"#, Some(400), "m"),
        (r#"{"object":"error","message":"m","type":"t","param":null,"code":503}"#, Some(503), "m"),
        (r#"{"detail":"Not Found"}"#, None, "Not Found"),
        (r#"{"error":"model is loading"}"#, None, "model is loading"),
        (r#"{"error":{"code":"call_upstream_request_error","message":"m"}}"#, None, "m"),
        ("data: {\"error\":{\"object\":\"error\",\"message\":\"m\",\"code\":503}}\n\ndata: [DONE]\n\n", Some(503), "m"),
    ] {
        let Form::Error(error) = fold(false, "", &[text.as_bytes()]).form else { panic!("no error: {text}") };
        assert_eq!((error.code, error.message.as_str()), (code, message), "{text}");
    }
}

#[test]
fn what_is_kept_for_people_is_bounded_and_has_both_ends() {
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    let raw = fold(false, "", &[long.as_bytes()]).raw;
    assert!(raw.len() < 40_000 && raw.starts_with(b"{\"a\"") && raw.ends_with(b"\"}"));
    let short = fold(false, "", &[b"{\"a\":", b"1}"]).raw;
    assert_eq!(&short[..], b"{\"a\":1}");
}

proptest! {
    #[test]
    fn folding_does_not_depend_on_how_the_bytes_are_cut(cuts in proptest::collection::vec(0..STREAM.len(), 0..12)) {
        let bytes = STREAM.as_bytes();
        let mut cuts = cuts;
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let whole = fold(true, "text/event-stream", &[bytes]);
        prop_assert_eq!(fold(true, "text/event-stream", &pieces).form, whole.form);
    }

    #[test]
    fn no_bytes_make_it_panic(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
        at in 0..STREAM.len(),
        streamed: bool,
    ) {
        let mut collector = Collector::new(streamed, if streamed { "text/event-stream" } else { "" });
        collector.push(&STREAM.as_bytes()[..at]);
        pieces.iter().for_each(|piece| collector.push(piece));
        let _form = collector.finish(Ending::Lost(String::new()));
    }
}
