use super::*;
use serde_json::json;

fn chat_of(row: &Value) -> Result<Chat, Rejection> {
    chat(row.to_string().as_bytes(), None, &BTreeMap::new())
}

fn answered(row: &str, content: &str, reasoning: Option<&str>) -> String {
    let row =
        with_answer(row.as_bytes(), None, content, reasoning, None, &json!({ "server": "s" })).expect("an answer");
    String::from_utf8(row).expect("text")
}

#[test]
fn each_shape_is_found_and_shows_the_model_the_same() {
    let wanted = [Message::text(Role::System, "Be short."), Message::text(Role::User, "q")];
    for row in [
        json!({ "messages": [{ "role": "system", "content": "Be short." }, { "role": "user", "content": "q" }, { "role": "assistant", "content": "" }] }),
        json!({ "conversations": [{ "from": "system", "value": "Be short." }, { "from": "human", "value": "q" }, { "from": "gpt", "value": "" }] }),
        json!({ "system": "Be short.", "instruction": "q", "input": " ", "output": "" }),
        json!({ "system": "Be short.", "prompt": "q", "response": "" }),
    ] {
        assert_eq!(chat_of(&row).expect("a chat").messages, wanted, "{row}");
        assert_eq!(answer(row.to_string().as_bytes(), None), Ok(Answer::Empty), "{row}");
    }
}

#[test]
fn a_turn_keeps_everything_it_has() {
    let call = json!([{ "id": "c1", "type": "function", "function": { "name": "add", "arguments": "{\"a\":  5}" } }]);
    let row = json!({
        "tools": [{ "type": "function" }],
        "messages": [
            { "role": "user", "content": "q" },
            { "role": "assistant", "content": null, "tool_calls": call },
            { "role": "tool", "tool_call_id": "c1", "content": "12" },
        ],
    });
    let chat = chat_of(&row).expect("a chat");
    assert_eq!(chat.messages[1].rest["tool_calls"], call);
    assert_eq!((chat.messages.len(), chat.tools.is_some()), (3, true));
}

#[test]
fn the_many_spellings_of_nothing_need_an_answer_and_short_answers_do_not() {
    for (content, needed) in [
        (json!(null), true),
        (json!(""), true),
        (json!(" \n\u{3000}"), true),
        (json!("\u{200b}\u{feff}"), true),
        (json!("<think>\n\n</think>\n\n"), true),
        (json!([{ "type": "text", "text": "" }]), true),
        (json!("No."), false),
        (json!("0"), false),
        (json!("..."), false),
        (json!([{ "type": "text", "text": "x" }]), false),
        (json!("<think>hm</think>Yes"), false),
    ] {
        let row =
            json!({ "messages": [{ "role": "user", "content": "q" }, { "role": "assistant", "content": content }] });
        assert_eq!(answer(row.to_string().as_bytes(), None).expect("an answer").is_needed(), needed, "{content}");
    }
    let call = json!({ "messages": [{ "role": "user", "content": "q" }, { "role": "assistant", "content": null, "tool_calls": [{}] }] });
    assert!(!answer(call.to_string().as_bytes(), None).expect("an answer").is_needed());
}

#[test]
fn an_answer_goes_where_the_shape_has_it_and_nothing_else_changes() {
    let row = r#"{"id": 18446744073709551616, "messages": [ {"role":"user","content":"q"}, {"role":"assistant","content":"","w":0.10} ], "x":1e400}"#;
    let wanted = r#"{"id": 18446744073709551616, "messages": [ {"role":"user","content":"q"}, {"role":"assistant","content":"a","w":0.10,"reasoning_content":"r"} ], "x":1e400,"forebay":{"server":"s"}}"#;
    assert_eq!(answered(row, "a", Some("r")), wanted);
}

#[test]
fn an_answer_without_a_turn_of_its_own_is_added_in_the_rows_own_words() {
    let row =
        r#"{"conversations":[{"from":"user","value":"q1"},{"from":"bing","value":"a1"},{"from":"user","value":"q2"}]}"#;
    let new: Value = serde_json::from_str(&answered(row, "a2", None)).expect("JSON");
    assert_eq!(new["conversations"][3], json!({ "from": "bing", "value": "a2" }));
    let new: Value = serde_json::from_str(&answered(r#"{"conversations":[{"from":"human","value":"q"}]}"#, "a", None))
        .expect("JSON");
    assert_eq!(new["conversations"][1], json!({ "from": "gpt", "value": "a" }));
    let new: Value = serde_json::from_str(&answered(r#"{"question":"q"}"#, "a", Some("r"))).expect("JSON");
    assert_eq!((&new["response"], &new["reasoning_content"]), (&json!("a"), &json!("r")));
}

#[test]
fn rows_that_ask_nothing_are_named() {
    for (row, reason) in [
        (json!({ "messages": [] }), Reason::NoPrompt),
        (json!({ "messages": [{ "role": "system", "content": "Be short." }] }), Reason::NoPrompt),
        (json!({ "prompt": " ", "response": "" }), Reason::NoPrompt),
        (json!({ "messages": [{ "role": "wizard", "content": "q" }] }), Reason::BadTurns),
        (json!({ "messages": ["q"] }), Reason::BadTurns),
        (json!({ "text": "q" }), Reason::UnknownShape),
    ] {
        assert_eq!(chat_of(&row).expect_err("no chat").reason, reason, "{row}");
    }
    let roles = BTreeMap::from([("wizard".to_owned(), Role::User)]);
    let row = json!({ "messages": [{ "role": "wizard", "content": "q" }] }).to_string();
    assert!(chat(row.as_bytes(), None, &roles).is_ok());
}

#[test]
fn a_row_from_a_pretty_printed_array_is_written_on_one_line() {
    let row = b"{\n  \"a\": \"x\\ny\"\r\n}";
    assert_eq!(&one_line(row)[..], b"{  \"a\": \"x\\ny\"}");
    assert!(matches!(one_line(b"{}"), Cow::Borrowed(_)));
}
