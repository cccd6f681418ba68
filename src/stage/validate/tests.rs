use super::*;
use crate::{
    record::{Attempt, Completion, Finish, Request, Thinking, Usage},
    stage::Settings as _,
};
use serde_json::json;

fn settings(text: &str) -> Settings {
    toml::from_str(text).expect("the settings parse")
}

fn answered(completion: Completion) -> Record {
    let mut record = Record::unbound("{}");
    record.request = Some(Arc::new(Request {
        path: "/v1/chat/completions",
        body: serde_json::Map::new(),
        thinking: Thinking::On,
        max_tokens: 100,
        run_seed: 0,
    }));
    record.attempts.push(attempt(Some(completion), None));
    record
}

fn attempt(completion: Option<Completion>, fault: Option<Reason>) -> Attempt {
    Attempt {
        number: 0,
        server: "http://a".into(),
        seed: 0,
        started_ms: 0,
        seconds: 1.0,
        first_token_seconds: None,
        completion,
        fault,
        detail: "the particulars".into(),
        raw: bytes::Bytes::new(),
    }
}

fn text(content: &str) -> Completion {
    Completion { content: content.into(), ..Completion::default() }
}

fn flawed(content: &str, flaw: Reason) -> Completion {
    Completion { flaw: Some(flaw), detail: "what it is".into(), ..text(content) }
}

/// What `validate` with these settings says of `record`; the verdict and the way must agree.
fn judge(table: &str, record: Record) -> Option<Rejection> {
    match Validate::new(settings(table)).expect("it builds").apply(record) {
        Route::Pass(record) => {
            assert_eq!(record.verdict, Some(Verdict::Accept));
            None
        }
        Route::Aside(record, rejection) => {
            assert_eq!(record.verdict, Some(Verdict::Reject(rejection.clone())));
            Some(rejection)
        }
        Route::Around(_) => panic!("nothing goes round from here"),
    }
}

fn reason(table: &str, completion: Completion) -> Option<Reason> {
    judge(table, answered(completion)).map(|rejection| rejection.reason)
}

#[test]
fn the_example_is_a_valid_stage() {
    let table: toml::Table = toml::from_str(Settings::EXAMPLE).expect("the example parses");
    let mut stage = table["stage"][0].as_table().expect("a table").clone();
    assert_eq!(stage.remove("kind").and_then(|kind| kind.as_str().map(str::to_owned)).as_deref(), Some("validate"));
    let settings: Settings = toml::Value::Table(stage).try_into().expect("the settings parse");
    assert_eq!(settings.retries(), 2);
    assert_eq!(settings.require, super::usual());
}

#[test]
fn a_good_answer_is_accepted() {
    assert_eq!(reason("", text("Four.")), None);
    assert_eq!(reason("", Completion { tool_calls: Some(json!([{"id": "1"}])), ..text("") }), None);
}

#[test]
fn a_record_without_a_completion_goes_aside_with_the_fault_of_its_last_attempt() {
    let mut record = Record::unbound("{}");
    record.attempts.push(attempt(None, Some(Reason::ContextOverflow)));
    assert_eq!(judge("", record), Some(Rejection::new(Reason::ContextOverflow, "the particulars")));
    assert_eq!(judge("", Record::unbound("{}")).map(|r| r.reason), Some(Reason::Empty));
}

#[test]
fn a_flaw_counts_where_its_rule_is_required() {
    use Reason::*;
    for flaw in [Empty, MisroutedReasoning, ThinkingMismatch, AmbiguousReasoning, StrayMarkers, UnwantedToolCall] {
        assert_eq!(reason("require = []", flawed("text", flaw)), Some(flaw), "`answer` is always required");
    }
    for flaw in [Truncated, UnknownFinish, TruncatedThinking] {
        assert_eq!(reason("require = [\"finished\"]", flawed("text", flaw)), Some(flaw));
    }
    for flaw in [UnclosedThinking, TruncatedThinking] {
        assert_eq!(reason("require = [\"closed_thinking\"]", flawed("text", flaw)), Some(flaw));
    }
    for flaw in [Truncated, UnknownFinish, TruncatedThinking, UnclosedThinking] {
        assert_eq!(reason("require = []", flawed("text", flaw)), None);
        assert_eq!(reason("", flawed("text", flaw)), Some(flaw), "both rules are on by default");
    }
    let rejection = judge("", answered(flawed("text", Truncated))).expect("a rejection");
    assert_eq!(rejection.detail, "what it is");
}

#[test]
fn a_cut_answer_is_not_finished_whatever_else_is_wrong_with_it() {
    let cut = Completion { finish: Finish::Length, ..flawed("text", Reason::UnclosedThinking) };
    assert_eq!(reason("require = [\"finished\"]", cut.clone()), Some(Reason::Truncated));
    assert_eq!(reason("require = []", cut), None);
    let odd = Completion { finish: Finish::Other("eos".into()), ..text("text") };
    let found = judge("", answered(odd)).expect("a rejection");
    assert!(found.reason == Reason::UnknownFinish && found.detail.contains("\"eos\""), "{}", found.detail);
}

#[test]
fn a_blank_answer_is_never_accepted() {
    for content in ["", " \n\t", "\u{3000}"] {
        assert_eq!(reason("require = []", text(content)), Some(Reason::Empty));
        assert_eq!(reason("require = []", flawed(content, Reason::Truncated)), Some(Reason::Truncated));
    }
    assert_eq!(reason("", Completion { tool_calls: Some(json!([])), ..text("") }), Some(Reason::Empty));
    assert_eq!(reason("", Completion { tool_calls: Some(json!(null)), ..text("") }), Some(Reason::Empty));
}

#[test]
fn a_thought_is_required_only_where_asked_for() {
    let table = "require = [\"thinking\"]";
    assert_eq!(reason(table, text("Four.")), Some(Reason::MissingThinking));
    assert_eq!(reason("", text("Four.")), None);
    let thought = Completion { reasoning: Some("2 + 2".into()), ..text("Four.") };
    assert_eq!(reason(table, thought), None);
    assert_eq!(reason(table, Completion { reasoning: Some(" \n".into()), ..text("4") }), Some(Reason::MissingThinking));
    let mut off = answered(text("Four."));
    off.request = None;
    assert_eq!(judge(table, off), None);
}

#[test]
fn endless_repetition_is_found_in_answer_and_thought() {
    let found = judge("", answered(text(&"!".repeat(2_000)))).expect("a rejection");
    assert_eq!(found.reason, Reason::Degenerate);
    assert!(found.detail.starts_with("in the answer: \"!\""), "{}", found.detail);
    let thought = Completion { reasoning: Some("Let me check that once more. ".repeat(80)), ..text("Four.") };
    let found = judge("", answered(thought)).expect("a rejection");
    assert!(found.detail.starts_with("in the thought: "), "{}", found.detail);
    assert_eq!(reason("require = [\"finished\"]", text(&"!".repeat(2_000))), None);
}

#[test]
fn length_is_counted_in_characters_and_answer_tokens() {
    assert_eq!(reason("min_answer_chars = 3", text("日本語")), None);
    assert_eq!(reason("min_answer_chars = 4", text(" 日本語 ")), Some(Reason::TooShort));
    let usage = |reasoning| Usage { completion_tokens: Some(50), reasoning_tokens: reasoning, ..Usage::default() };
    let with = |reasoning| Completion { usage: usage(reasoning), ..text("ok") };
    assert_eq!(reason("max_answer_tokens = 20", with(None)), Some(Reason::TooLong));
    assert_eq!(reason("max_answer_tokens = 20", with(Some(30))), None);
    assert_eq!(reason("max_answer_tokens = 19", with(Some(30))), Some(Reason::TooLong));
    assert_eq!(reason("max_answer_tokens = 1", text("not counted")), None);
}

#[test]
fn the_answer_has_the_wanted_form() {
    assert_eq!(reason("regex = '^\\d+$'", text("42")), None);
    assert_eq!(reason("regex = '^\\d+$'", text("42!")), Some(Reason::NoMatch));
    assert_eq!(reason("json = true", text(" {\"a\": [1, 2]}\n")), None);
    let found = judge("json = true", answered(text("```json\n{}\n```"))).expect("a rejection");
    assert_eq!(found.reason, Reason::NotJson);
    assert!(found.detail.contains("line 1 column 1"), "{}", found.detail);
}

#[test]
fn length_is_also_counted_against_the_thought() {
    assert_eq!(reason("max_answer_chars = 3", text(" 日本語 ")), None);
    assert_eq!(reason("max_answer_chars = 2", text("日本語")), Some(Reason::TooLong));
    let thought = |chars: usize| Completion { reasoning: Some("ab".repeat(chars / 2)), ..text("Four.") };
    assert_eq!(reason("max_think_ratio = 4", thought(20)), None);
    assert_eq!(reason("max_think_ratio = 4", thought(22)), Some(Reason::LongThinking));
    assert_eq!(reason("max_think_ratio = 0", text("Four.")), None);
}

#[test]
fn the_thought_has_a_pattern_of_its_own() {
    let thought = Completion { reasoning: Some("Step 1: add.".into()), ..text("Four.") };
    assert_eq!(reason("reasoning_regex = '^Step'", thought), None);
    let found = judge("reasoning_regex = '^Step'", answered(text("Step"))).expect("a rejection");
    assert!(found.reason == Reason::NoMatch && found.detail.contains("thought"), "{}", found.detail);
}

/// A record that asks `row` and was answered with `content`.
fn about(row: &str, content: &str) -> Record {
    Record { row: row.to_owned().into(), ..answered(text(content)) }
}

#[test]
fn refusals_and_echoes_are_found_where_asked_for() {
    let refusal = "I'm sorry, but I can't help with that.";
    assert_eq!(reason("require = [\"not_refusal\"]", text(refusal)), Some(Reason::Refusal));
    assert_eq!(reason("", text(refusal)), None);
    let own = "require = [\"not_refusal\"]\nrefusal_phrases = [\"Nein\"]";
    assert_eq!(reason(own, text("Nein, danke.")), Some(Reason::Refusal));
    let row = r#"{"prompt":"Say in one sentence why the sky is blue."}"#;
    let again = "Say in one sentence why the sky is blue.";
    let found = judge("require = [\"not_echo\"]", about(row, again)).expect("a rejection");
    assert_eq!(found.reason, Reason::Echo);
    assert_eq!(judge("", about(row, again)), None);
    assert_eq!(judge("require = [\"not_echo\"]", about(row, "Air scatters blue light.")), None);
}

#[test]
fn the_final_answer_is_held_against_the_row() {
    let table = "matches = { field = \"gold\", how = \"numeric\" }";
    assert_eq!(judge(table, about(r#"{"gold":"1,000"}"#, "It is 1000.")), None);
    let found = judge(table, about(r#"{"gold":12}"#, "It is 13.")).expect("a rejection");
    assert_eq!(found, Rejection::new(Reason::WrongAnswer, "`12` is wanted, the answer ends with `It is 13.`"));
    assert_eq!(judge(table, about("{}", "It is 13.")).map(|found| found.reason), Some(Reason::NoReference));
}

#[test]
fn an_expression_speaks_of_the_answer_and_of_the_row() {
    let holds = |expression: &str| {
        let row = r#"{"prompt":"How many?","n":3,"answer":"old"}"#;
        let table = format!("expression = '{expression}'");
        judge(&table, about(row, "Four.")).map(|found| found.reason)
    };
    assert_eq!(holds(r#"answer|length == 5 and row.answer == "old" and n == 3"#), None);
    assert_eq!(holds(r#"prompt == "How many?" and reasoning == "" and finish_reason == "stop""#), None);
    assert_eq!(holds(r#"thinking == "on" and not usage.completion_tokens"#), None);
    assert_eq!(holds("n > 3"), Some(Reason::ExpressionFalse));
    assert_eq!(holds("n + answer > 3"), Some(Reason::BadExpression));
}

#[test]
fn values_that_make_no_sense_are_complained_about() {
    for (table, key) in [
        ("expression = 'a ='", "expression"),
        ("reasoning_regex = '['", "reasoning_regex"),
        ("matches = { field = '', how = 'exact' }", "matches.field"),
        ("min_answer_chars = 9\nmax_answer_chars = 8", "max_answer_chars"),
        ("max_think_ratio = -1", "max_think_ratio"),
        ("refusal_phrases = ['no']", "refusal_phrases"),
        ("max_answer_tokens = 0", "max_answer_tokens"),
    ] {
        let mut say = Complaints::default();
        settings(table).check(&mut say);
        assert_eq!(say.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [key], "{table}");
    }
}

#[test]
fn a_wrong_pattern_is_said_in_one_line() {
    let mut say = Complaints::default();
    settings("regex = '(a'").check(&mut say);
    let said = format!("{say:?}");
    assert!(said.contains("regex") && said.contains("unclosed group"), "{said}");
    assert!(Validate::new(settings("regex = '(a'")).is_err());
}

#[test]
fn unknown_keys_and_words_are_refused() {
    assert!(toml::from_str::<Settings>("min_chars = 3").is_err());
    let error = toml::from_str::<Settings>("require = [\"good\"]").expect_err("an unknown word").to_string();
    assert!(error.contains("closed_thinking"), "{error}");
}

#[test]
fn a_finish_reason_that_the_file_names_is_as_good_as_stop() {
    let other = |word: &str, flaw| Completion { finish: Finish::Other(word.into()), ..flawed("12.", flaw) };
    let named = "finish_words = [\"eos_token\"]";
    assert_eq!(judge(named, answered(other("eos_token", Reason::UnknownFinish))), None);
    for (table, completion, reason) in [
        ("", other("eos_token", Reason::UnknownFinish), Reason::UnknownFinish),
        (named, other("content_filter", Reason::UnknownFinish), Reason::UnknownFinish),
        (named, other("eos_token", Reason::ThinkingMismatch), Reason::ThinkingMismatch),
        (
            named,
            Completion { content: String::new(), ..other("eos_token", Reason::UnknownFinish) },
            Reason::UnknownFinish,
        ),
    ] {
        assert_eq!(judge(table, answered(completion)).map(|rejection| rejection.reason), Some(reason));
    }
}
