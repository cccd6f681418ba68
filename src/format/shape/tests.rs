use super::*;
use proptest::prelude::*;
use serde_json::json;

/// Roles and contents of what a model is to see, or the word for why nothing.
fn seen(row: &str) -> Result<Vec<(Role, Value)>, &'static str> {
    let chat = chat(row.as_bytes(), &Layout::default()).map_err(|rejection| rejection.reason.word())?;
    Ok(chat.messages.into_iter().map(|turn| (turn.role, turn.content)).collect())
}

fn stands(row: &str) -> Answer {
    answer(row.as_bytes(), &Layout::default()).expect("a known shape")
}

fn last_turn(content: &str) -> Answer {
    stands(
        &json!({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": content}]}).to_string(),
    )
}

fn written(row: &str, content: &str, reasoning: Option<&str>, calls: Option<&Value>) -> String {
    let row =
        with_answer(row.as_bytes(), &Layout::default(), content, reasoning, calls, &json!({"v": 1})).expect("written");
    String::from_utf8(row).expect("utf-8")
}

#[test]
fn the_shape_is_found_from_the_row() {
    for (row, shape) in [
        (r#"{"messages":[]}"#, Some(Shape::Messages)),
        (r#"{"conversations":[],"prompt":"x"}"#, Some(Shape::Conversations)),
        (r#"{"instruction":"x","input":"","output":""}"#, Some(Shape::Alpaca)),
        (r#"{"question":"x","answer":null}"#, Some(Shape::PromptResponse)),
        (r#"{"messages":"x"}"#, None),
        (r#"{"text":"x"}"#, None),
        ("[", None),
    ] {
        assert_eq!(detect(row.as_bytes()), shape, "{row}");
    }
    assert_eq!(seen(r#"{"text":"x"}"#), Err("unknown_shape"));
}

#[test]
fn the_answer_is_left_out_and_every_other_turn_is_kept() {
    let row = r#"{"messages":[{"role":"SYSTEM","content":"s"},{"role":"user","content":"a"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"b"},
        {"role":"assistant","content":""}],"tools":[{"type":"function"}]}"#;
    let chat = chat(row.as_bytes(), &Layout::default()).expect("a chat");
    let roles: Vec<_> = chat.messages.iter().map(|turn| turn.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::Tool]);
    assert_eq!(chat.messages[2].rest["tool_calls"], json!([{"id": "1"}]));
    assert_eq!(chat.messages[3].rest["tool_call_id"], "1");
    assert_eq!(chat.tools, Some(json!([{"type": "function"}])));
}

#[test]
fn alpaca_and_prompts_become_turns() {
    let text = |role, text: &str| (role, Value::from(text));
    let row = r#"{"system":"s","history":[["a","b"]],"instruction":"do","input":"this","output":"old"}"#;
    let expected =
        vec![text(Role::System, "s"), text(Role::User, "a"), text(Role::Assistant, "b"), text(Role::User, "do\nthis")];
    assert_eq!(seen(row), Ok(expected));
    assert_eq!(seen(r#"{"input":"q","output":""}"#), Ok(vec![text(Role::User, "q")]));
}

#[test]
fn what_cannot_be_asked_has_its_word() {
    for (row, word) in [
        (r#"{"messages":[]}"#, "no_prompt"),
        (r#"{"messages":[{"role":"assistant","content":"x"}]}"#, "no_prompt"),
        (r#"{"messages":[{"role":"user","content":" "}]}"#, "no_prompt"),
        (r#"{"prompt":"","response":""}"#, "no_prompt"),
        (r#"{"messages":["x"]}"#, "bad_turns"),
        (r#"{"messages":[{"content":"x"}]}"#, "bad_turns"),
        (r#"{"messages":[{"role":"narrator","content":"x"}]}"#, "bad_turns"),
        (r#"{"messages":[{"role":"user","content":7}]}"#, "bad_turns"),
    ] {
        assert_eq!(seen(row), Err(word), "{row}");
    }
}

#[test]
fn role_words_can_be_added() {
    let row = br#"{"messages":[{"role":"Narrator","content":"x"},{"role":"helper","content":""}]}"#;
    let roles = [("narrator".to_owned(), Role::User), ("Helper".to_owned(), Role::Assistant)].into();
    let more = Layout { shape: None, roles };
    assert_eq!(chat(row, &more).expect("a chat").messages, [Message::text(Role::User, "x")]);
    assert_eq!(answer(row, &more), Ok(Answer::Empty));
    let new = with_answer(row, &more, "y", None, None, &Value::Null).expect("written");
    assert!(String::from_utf8_lossy(&new).contains(r#"{"role":"helper","content":"y"}]"#));
}

#[test]
fn every_spelling_of_nothing_needs_an_answer() {
    for (content, expected) in [
        ("", Answer::Empty),
        (" \u{3000}\n", Answer::Blank),
        ("\u{200b}\u{feff} ", Answer::Invisible),
        ("<think>\n\n</think>\n", Answer::ThoughtShell),
        ("<think>\n", Answer::ThoughtShell),
        ("0", Answer::Present { chars: 1, thought: false }),
        ("...", Answer::Present { chars: 3, thought: false }),
        ("<think>so</think>\n\nyes", Answer::Present { chars: 3, thought: true }),
    ] {
        assert_eq!(last_turn(content), expected, "{content:?}");
        assert_eq!(stands(&json!({"prompt": "q", "response": content}).to_string()), expected);
        let parts = json!([{"type": "text", "text": content}]);
        assert_eq!(stands(&json!({"conversations": [{"from": "gpt", "value": parts}]}).to_string()), expected);
    }
    assert_eq!(stands(r#"{"messages":[{"role":"user","content":"x"}]}"#), Answer::Missing);
    assert_eq!(stands(r#"{"messages":[{"role":"assistant"}]}"#), Answer::Missing);
    assert_eq!(stands(r#"{"messages":[{"role":"assistant","content":null}]}"#), Answer::Null);
    assert_eq!(stands(r#"{"messages":[{"role":"assistant","content":[]}]}"#), Answer::Empty);
    assert_eq!(stands(r#"{"instruction":"x","output":null}"#), Answer::Null);
    assert_eq!(stands(r#"{"prompt":"x"}"#), Answer::Missing);
    assert!(!stands(r#"{"messages":[{"role":"assistant","tool_calls":[{}]}]}"#).is_needed());
    assert!(stands(r#"{"messages":[{"role":"assistant","content":"","tool_calls":[]}]}"#).is_needed());
    assert!(!stands(r#"{"messages":[{"role":"assistant","content":[{"type":"image_url"}]}]}"#).is_needed());
}

#[test]
fn a_new_answer_stands_where_the_old_one_stood() {
    for (row, expected) in [
        (
            r#"{ "id":1e400, "messages":[{"role":"user","content":"q"} , {"role":"assistant","content": null,"x":0.10}] }"#,
            r#"{ "id":1e400, "messages":[{"role":"user","content":"q"} , {"role":"assistant","content": "a\n","x":0.10}],"forebay":{"v":1} }"#,
        ),
        (
            r#"{"messages":[{"role":"user","content":"q"},{"role":"model"}],"forebay":0}"#,
            r#"{"messages":[{"role":"user","content":"q"},{"role":"model","content":"a\n"}],"forebay":{"v":1}}"#,
        ),
        (
            r#"{"conversations": [{"from": "human", "value": "q"}]}"#,
            r#"{"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a\n"}], "forebay": {"v":1}}"#,
        ),
        (
            r#"{"conversations": [{"from": "bot", "value": ""}, {"from": "human", "value": "q"}]}"#,
            r#"{"conversations": [{"from": "bot", "value": ""}, {"from": "human", "value": "q"}, {"from": "bot", "value": "a\n"}], "forebay": {"v":1}}"#,
        ),
        (r#"{"question":"q"}"#, r#"{"question":"q","answer":"a\n","forebay":{"v":1}}"#),
        (r#"{"instruction":"q","output":"old"}"#, r#"{"instruction":"q","output":"a\n","forebay":{"v":1}}"#),
    ] {
        assert_eq!(written(row, "a\n", None, None), expected);
    }
}

#[test]
fn the_thought_and_the_calls_are_the_new_answers_own() {
    let old = r#"{"messages":[{"role":"assistant","reasoning":"o","reasoning_content":"old","content":"x","tool_calls":[1]}]}"#;
    assert_eq!(written(old, "y", None, None), r#"{"messages":[{"role":"assistant","content":"y"}],"forebay":{"v":1}}"#);
    let new = written(old, "", Some("new"), Some(&json!([{"id": "1"}])));
    assert!(new.contains(r#""reasoning_content":"new","content":null,"tool_calls":[{"id":"1"}]"#), "{new}");
    let added = written(r#"{"messages":[{"role":"user","content":"q"}]}"#, "y", Some("t"), None);
    assert!(added.contains(r#"{"role": "assistant", "content": "y", "reasoning_content": "t"}]"#), "{added}");
    let top = written(r#"{"prompt":"q","response":""}"#, "y", Some("t"), None);
    assert_eq!(top, r#"{"prompt":"q","response":"y","reasoning_content":"t","forebay":{"v":1}}"#);
}

#[test]
fn a_row_over_several_lines_becomes_one() {
    let row = b"{\n  \"a\": \"x\\ny\",\r\n  \"b\": 1\n}";
    assert_eq!(&*one_line(row), &b"{  \"a\": \"x\\ny\",  \"b\": 1}"[..]);
    assert!(matches!(one_line(b"{}"), std::borrow::Cow::Borrowed(_)));
}

proptest! {
    #[test]
    fn a_written_answer_is_read_back_and_the_request_stays_the_same(
        asked in "[^\\s]\\PC{0,8}", old in prop::option::of("\\PC{0,8}"), content in "\\PC{1,8}x", which in 0..4,
    ) {
        let mut row = match which {
            0 => json!({"messages": [{"role": "user", "content": asked}]}),
            1 => json!({"conversations": [{"from": "human", "value": asked}]}),
            2 => json!({"instruction": asked, "input": "i"}),
            _ => json!({"query": asked}),
        };
        match (which, old) {
            (0, Some(old)) => row["messages"].as_array_mut().expect("list").push(json!({"role": "bot", "content": old})),
            (1, Some(old)) => row["conversations"].as_array_mut().expect("list").push(json!({"from": "gpt", "value": old})),
            (2 | 3, Some(old)) => row["output"] = Value::from(old),
            _ => {}
        }
        let text = row.to_string();
        let new = written(&text, &content, None, None);
        prop_assert_eq!(seen(&new), seen(&text));
        prop_assert!(!stands(&new).is_needed());
    }

    #[test]
    fn no_row_whatever_causes_a_panic(soup in "(\\{|\\}|\\[|\\]|,|:|\"messages\"|\"role\"|\"user\"|\"prompt\"|1| ){0,24}") {
        let row = soup.as_bytes();
        let messages = Layout { shape: Some(Shape::Messages), ..Layout::default() };
        let _ = (detect(row), chat(row, &Layout::default()), answer(row, &messages));
        let _ = with_answer(row, &messages, "", None, None, &Value::Null);
    }
}
