use super::*;
use crate::stage::Settings as _;
use serde_json::json;

fn settings(text: &str) -> Settings {
    toml::from_str(&format!("max_tokens = 64\n{text}")).expect("the settings parse")
}

fn complaints(text: &str) -> String {
    let mut say = Complaints::default();
    settings(text).check(&mut say);
    format!("{say:?}")
}

fn apply(text: &str, row: &Value) -> Result<Record, Rejection> {
    let template = Template::new(settings(text), 7, Moment::at(0)).expect("it builds");
    match template.apply(Record::unbound(row.to_string())) {
        Route::Pass(record) => Ok(record),
        Route::Aside(record, rejection) => {
            assert!(record.request.is_none());
            Err(rejection)
        }
        Route::Around(_) => panic!("nothing goes round from here"),
    }
}

fn request(text: &str, row: &Value) -> Request {
    let record = apply(text, row).expect("it passes");
    record.request.as_deref().expect("a request").clone()
}

fn hello() -> Value {
    json!({"id": 3, "messages": [{"role": "user", "content": "Hello"}]})
}

#[test]
fn the_example_is_a_valid_stage() {
    let table: toml::Table = toml::from_str(Settings::EXAMPLE).expect("the example parses");
    let mut stage = table["stage"][0].as_table().expect("a table").clone();
    assert_eq!(stage.remove("kind").and_then(|kind| kind.as_str().map(str::to_owned)).as_deref(), Some("template"));
    let settings: Settings = toml::Value::Table(stage).try_into().expect("the settings parse");
    let mut say = Complaints::default();
    settings.check(&mut say);
    assert_eq!(format!("{say:?}"), "Complaints([])");
}

#[test]
fn every_sampling_field_is_on_the_wire_even_when_it_is_the_default() {
    let request = request("", &hello());
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(
        Value::Object(request.body),
        json!({
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 64, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0,
            "presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0,
        })
    );
    assert_eq!((request.thinking, request.max_tokens, request.run_seed), (Thinking::Unset, 64, 7));
}

#[test]
fn thinking_is_a_variable_of_the_template_at_the_top_of_the_body() {
    let on = request("thinking = true", &hello());
    assert_eq!((on.thinking, &on.body["chat_template_kwargs"]), (Thinking::On, &json!({"enable_thinking": true})));
    let off = request("thinking = false\nthinking_key = \"thinking\"", &hello());
    assert_eq!((off.thinking, &off.body["chat_template_kwargs"]), (Thinking::Off, &json!({"thinking": false})));
    let both = request("thinking = true\nextra = { chat_template_kwargs = { effort = \"low\" } }", &hello());
    assert_eq!(both.body["chat_template_kwargs"], json!({"effort": "low", "enable_thinking": true}));
}

#[test]
fn tools_and_further_fields_of_turns_are_carried_exactly() {
    let row = json!({
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1"}]},
            {"role": "tool", "content": "4", "tool_call_id": "c1"},
        ],
        "tools": [{"type": "function", "function": {"name": "add"}}],
    });
    let request = request("", &row);
    assert_eq!(request.body["messages"], row["messages"]);
    assert_eq!(request.body["tools"], row["tools"]);
}

#[test]
fn an_empty_list_of_tools_is_not_sent() {
    for tools in [json!([]), json!(null)] {
        let mut row = hello();
        row["tools"] = tools;
        assert!(!request("", &row).body.contains_key("tools"));
    }
}

#[test]
fn a_system_turn_is_added_only_where_there_is_none() {
    let text = "system = \"Be brief.\"";
    let record = apply(text, &hello()).expect("it passes");
    let chat = record.chat.expect("a chat");
    assert_eq!(chat.messages[0], Message::text(Role::System, "Be brief."));
    assert_eq!(record.request.expect("a request").body["messages"].as_array().map(Vec::len), Some(2));
    for role in ["system", "developer"] {
        let row = json!({"messages": [{"role": role, "content": "Rhyme."}, {"role": "user", "content": "Hello"}]});
        assert_eq!(request(text, &row).body["messages"], row["messages"]);
    }
}

#[test]
fn a_row_without_a_conversation_goes_aside() {
    assert_eq!(apply("", &json!({"messages": []})).expect_err("no user turn").reason, Reason::NoPrompt);
    assert!(apply("", &json!({"messages": [{"role": "clown", "content": "x"}]})).is_err());
}

#[test]
fn stop_and_extra_fields_are_sent_as_they_are() {
    let body = request("stop = [\"END\"]\nextra = { priority = 5, logit_bias = { \"5\" = -100 } }", &hello()).body;
    assert_eq!(body["stop"], json!(["END"]));
    assert_eq!((&body["priority"], &body["logit_bias"]), (&json!(5), &json!({"5": -100})));
}

#[test]
fn values_out_of_range_are_said_by_key() {
    for (text, words) in [
        ("temperature = 2.5", "2.5 is out of range: from 0 to 2"),
        ("temperature = nan", "NaN is out of range"),
        ("top_p = 0.0", "above 0"),
        ("min_p = 1.5", "from 0"),
        ("top_k = -2", "-1 for off"),
        ("presence_penalty = 3.0", "from -2 to 2"),
        ("frequency_penalty = -3.0", "from -2 to 2"),
        ("repetition_penalty = 0.0", "above 0"),
        ("stop = [\"\"]", "an empty text"),
        ("system = \" \"", "blank"),
        ("thinking_key = \"\"", "cannot be empty"),
        ("render = \"client\"", "chat_template.jinja"),
        ("template_file = \"x.jinja\"", "render = "),
    ] {
        let key = text.split(' ').next().expect("a key");
        let said = complaints(text);
        assert!(said.starts_with(&format!("Complaints([(\"{key}\", ")) && said.contains(words), "{text}: {said}");
    }
    let mut say = Complaints::default();
    Settings { max_tokens: 0, ..settings("") }.check(&mut say);
    assert!(format!("{say:?}").contains("at least 1"));
}

#[test]
fn extra_takes_nothing_that_is_said_elsewhere() {
    for key in [
        "extra_body",
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "model",
        "messages",
        "prompt",
        "seed",
        "stream",
        "stream_options",
        "n",
        "tools",
    ] {
        assert!(complaints(&format!("extra = {{ {key} = 1 }}")).contains(&format!("`{key}` ")), "{key}");
    }
    assert!(complaints("extra = { extra_body = {} }").contains("Python client"));
    assert!(complaints("extra = { chat_template_kwargs = 1 }").contains("table"));
    let twice = "extra = { chat_template_kwargs = { enable_thinking = true } }";
    assert!(complaints(twice).contains("write `thinking`"));
    assert!(complaints(&format!("thinking = true\n{twice}")).contains("said twice"));
    assert_eq!(complaints("extra = { priority = 1, chat_template_kwargs = { effort = 1 } }"), "Complaints([])");
}

#[test]
fn max_tokens_is_required_and_unknown_keys_are_refused() {
    assert!(toml::from_str::<Settings>("").expect_err("a key is missing").to_string().contains("max_tokens"));
    assert!(toml::from_str::<Settings>("max_tokens = 1\nmax_token = 1").is_err());
}

#[test]
fn a_client_renders_the_prompt_with_the_models_template() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("chat_template.jinja");
    std::fs::write(&file, include_str!("render/chatml.jinja")).expect("it is written");
    let text = format!("render = \"client\"\nthinking = false\ntemplate_file = '{}'", file.display());
    let request = request(&text, &hello());
    assert_eq!(request.path, "/v1/completions");
    let prompt = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
    assert_eq!(request.body["prompt"], json!(prompt));
    assert_eq!(request.body["add_special_tokens"], json!(false));
    for absent in ["messages", "chat_template_kwargs", "tools"] {
        assert!(!request.body.contains_key(absent), "{absent}");
    }
}

#[test]
fn thoughts_of_earlier_turns_are_sent_only_on_request() {
    let row = json!({"messages": [
        {"role": "user", "content": "5 + 7?"},
        {"role": "assistant", "content": "12.", "reasoning_content": "I add."},
        {"role": "user", "content": "Times two?"},
    ]});
    let sent = |text: &str| request(text, &row).body["messages"][1].get("reasoning_content").cloned();
    assert_eq!(sent(""), None);
    assert_eq!(sent("earlier_thoughts = true"), Some(json!("I add.")));
}
