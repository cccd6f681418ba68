use super::*;
use serde_json::json;

const CHATML: &str = include_str!("chatml.jinja");

fn template(source: &str) -> ChatTemplate {
    let templates = vec![(DEFAULT.to_owned(), source.to_owned())];
    ChatTemplate::new(templates, Map::new(), Moment::at(0)).expect("it compiles")
}

fn chat(messages: Value, tools: Option<Value>) -> Chat {
    Chat { messages: serde_json::from_value(messages).expect("turns"), tools }
}

fn hello() -> Chat {
    chat(json!([{"role": "user", "content": "Hello"}]), None)
}

fn read(name: &str, text: &str) -> Result<ChatTemplate, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("it is written");
    ChatTemplate::read(&path, Moment::at(0))
}

#[test]
fn a_conversation_is_rendered_up_to_where_the_model_speaks() {
    let turns = json!([
        {"role": "system", "content": "Be <brief> & 'kind'."},
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\n2"},
        {"role": "user", "content": "And 日本?"},
    ]);
    assert_eq!(
        template(CHATML).render(&chat(turns, None)).as_deref(),
        Ok("<|im_start|>system\nBe <brief> & 'kind'.<|im_end|>\n<|im_start|>user\n1 + 1?<|im_end|>\n\
            <|im_start|>assistant\n2<|im_end|>\n<|im_start|>user\nAnd 日本?<|im_end|>\n<|im_start|>assistant\n")
    );
}

#[test]
fn tools_come_out_letter_for_letter_and_arguments_as_objects() {
    let tools = json!([{"name": "lookup", "b": "<é> & 'x'", "a": 1}]);
    let calls = json!([{"function": {"name": "lookup", "arguments": "{\"z\":1,\"a\":[2]}"}}]);
    let turns = json!([
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": null, "tool_calls": calls},
        {"role": "tool", "content": "found"},
    ]);
    assert_eq!(
        template(CHATML).render(&chat(turns, Some(tools))).as_deref(),
        Ok("<|im_start|>system\nTools:\n{\"name\": \"lookup\", \"b\": \"<é> & 'x'\", \"a\": 1}<|im_end|>\n\
            <|im_start|>user\nLook.<|im_end|>\n\
            <|im_start|>assistant\n<tool_call>lookup {\"z\": 1, \"a\": [2]}</tool_call><|im_end|>\n\
            <|im_start|>tool\nfound<|im_end|>\n<|im_start|>assistant\n")
    );
}

#[test]
fn variables_reach_the_template() {
    let variables = |on: bool| Map::from_iter([("enable_thinking".to_owned(), Value::Bool(on))]);
    let ends = |text: &str, end: &str| assert!(text.ends_with(end), "{text}");
    ends(&template(CHATML).with(variables(false)).render(&hello()).expect("a prompt"), "</think>\n\n");
    ends(&template(CHATML).with(variables(true)).render(&hello()).expect("a prompt"), "assistant\n");
}

#[test]
fn what_the_template_refuses_is_said_in_its_words() {
    let turns = json!([{"role": "developer", "content": "x"}, {"role": "user", "content": "Hello"}]);
    let refused = template(CHATML).render(&chat(turns, None)).expect_err("it raises");
    assert_eq!(refused.reason, Reason::TemplateError);
    assert!(refused.detail.starts_with("this model has no developer role (line "), "{}", refused.detail);
}

#[test]
fn a_template_without_end_is_stopped() {
    let source = "{% for a in range(10000) %}{% for b in range(10000) %}{% set c = a %}{% endfor %}{% endfor %}";
    let refused = template(source).render(&hello()).expect_err("it is stopped");
    assert!(refused.detail.contains("does not come to an end"), "{}", refused.detail);
}

#[test]
fn the_date_is_that_of_the_start() {
    assert_eq!(template("{{ strftime_now('%d %b %Y') }}").render(&hello()).as_deref(), Ok("01 Jan 1970"));
}

#[test]
fn blocks_take_their_line_with_them() {
    let source = "a\n  {% if true %}\nb\n  {% endif %}\nc";
    assert_eq!(template(source).render(&hello()).as_deref(), Ok("a\nb\nc"));
}

#[test]
fn a_tokenizer_configuration_gives_template_and_special_tokens() {
    let config = json!({"chat_template": "{{ bos_token }}|{{ eos_token }}", "bos_token": "<s>", "eos_token": {"content": "</s>"}});
    let template = read("tokenizer_config.json", &config.to_string()).expect("it is read");
    assert_eq!(template.render(&hello()).as_deref(), Ok("<s>|</s>"));
}

#[test]
fn of_two_templates_the_one_for_tools_is_taken_where_there_are_tools() {
    let list = json!([{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]);
    let template = read("tokenizer_config.json", &json!({"chat_template": list}).to_string()).expect("it is read");
    assert_eq!(template.render(&hello()).as_deref(), Ok("plain"));
    assert_eq!(template.render(&Chat { tools: Some(json!([{"name": "add"}])), ..hello() }).as_deref(), Ok("tools"));
}

#[test]
fn a_template_file_finds_its_special_tokens_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chat_template.jinja");
    std::fs::write(&path, "{{ bos_token }}Hello").expect("it is written");
    let read = || ChatTemplate::read(&path, Moment::at(0)).expect("it is read");
    assert_eq!(read().render(&hello()).as_deref(), Ok("Hello"));
    std::fs::write(folder.path().join("tokenizer_config.json"), "{\"bos_token\": \"<s>\"}").expect("it is written");
    assert_eq!(read().render(&hello()).as_deref(), Ok("<s>Hello"));
}

#[test]
fn a_file_that_is_no_template_is_named() {
    for (name, text, words) in [
        ("a.jinja", "{% if %}", "it is no template"),
        ("tokenizer_config.json", "{", "it is not JSON"),
        ("tokenizer_config.json", "{}", "chat_template.jinja"),
        ("tokenizer_config.json", "{\"chat_template\": []}", "\"default\""),
    ] {
        let error = read(name, text).err().expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::FixInput);
        assert!(error.to_string().contains(name) && error.to_string().contains(words), "{error}");
    }
    let missing = ChatTemplate::read(Path::new("no/such.jinja"), Moment::at(0)).err().expect("no such file");
    assert_eq!(missing.kind(), ErrorKind::FixPipeline);
    assert!(missing.to_string().contains("no/such.jinja"), "{missing}");
}
