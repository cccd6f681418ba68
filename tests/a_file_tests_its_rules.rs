//! `[[test]]` in a pipeline file: answers, and what `validate` is to say of them; a failing one is a mistake in the file.

#![cfg(test)]

use forebay::{cli::check, config, pipeline::Plan, stage::Kinds};
use insta::assert_snapshot;

/// A pipeline whose `validate` has these settings, with these tests.
fn load(validate: &str, tests: &str) -> Result<Plan, String> {
    let text = format!(
        r#"name = "test"
[fleet]
servers = ["http://127.0.0.1:30000"]
model = "demo"
[[stage]]
kind = "read"
path = "in.jsonl"
[[stage]]
kind = "template"
max_tokens = 100
[[stage]]
kind = "dispatch"
[[stage]]
kind = "validate"
{validate}
[[stage]]
kind = "sink"
path = "out"
{tests}"#
    );
    config::load(&text, "p.toml", &[], &Kinds::builtin()).map_err(|diagnostics| diagnostics.render(false))
}

#[test]
fn tests_that_pass_are_counted() {
    let validate = r#"require = ["not_refusal"]
matches = { field = "gold", how = "boxed" }"#;
    let tests = r#"
[[test]]
row = { prompt = "Half of 1?", gold = "1/2" }
answer = 'It is \boxed{\frac{1}{2}}.'
expect = "accept"
[[test]]
row = '{"prompt": "Half of 1?", "gold": "1/2"}'
answer = 'It is \boxed{2}.'
expect = "wrong_answer"
[[test]]
answer = "I'm sorry, but I can't help with that."
expect = "refusal"
"#;
    let plan = load(validate, tests).unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(plan.tests, 3);
    assert!(check::picture(&plan).ends_with("\n3 tests pass.\n"));
}

#[test]
fn an_answer_is_read_as_that_of_a_server_is() {
    for (answer, expect) in [
        ("answer = \"The first\"\nfinish_reason = \"length\"", "truncated"),
        ("answer = \"<think>a</think>Four.\"\nthinking = true", "accept"),
        ("answer = \"<think>I add\"\nthinking = true", "unclosed_thinking"),
        ("answer = \"Four.\"\nreasoning = \"2 + 2\"\nthinking = false", "thinking_mode_mismatch"),
        ("answer = \"Four.\"\nfinish_reason = \"abort\"", "aborted"),
        ("", "empty_answer"),
    ] {
        load("", &format!("[[test]]\n{answer}\nexpect = \"{expect}\"\n")).unwrap_or_else(|said| panic!("{said}"));
    }
}

#[test]
fn a_test_that_fails_is_shown_at_what_it_expects() {
    let tests = r#"
[[test]]
name = "short answers are fine"
answer = "No."
expect = "accept"
[[test]]
answer = "A long answer."
expect = "too_short"
"#;
    assert_snapshot!(load("min_answer_chars = 5", tests).expect_err("two tests fail"), @r#"
    error: the test `short answers are fine` fails: the answer is rejected as `too_short`
      --> p.toml:23:10
       |
    23 | expect = "accept"
       |          ^^^^^^^^ 3 characters, at least 5 wanted

    error: the test fails: the answer is accepted
      --> p.toml:26:10
       |
    26 | expect = "too_short"
       |          ^^^^^^^^^^^

    error: p.toml has 2 errors
    "#);
}

#[test]
fn what_is_wrong_with_a_test_is_said_like_everything_else() {
    let tests = r#"
[[test]]
answr = "No."
expect = "accept"
[[test]]
row = "[1]"
expect = "truncate"
[[test]]
answer = "No."
"#;
    assert_snapshot!(load("", tests).expect_err("they cannot be tried"), @r#"
    error: `answr` is no key of `[[test]]`
      --> p.toml:21:1
       |
    21 | answr = "No."
       | ^^^^^
       |
       = help: did you mean `answer`?

    error: the row is not a JSON object
      --> p.toml:24:7
       |
    24 | row = "[1]"
       |       ^^^^^

    error: `truncate` is neither `accept` nor a reason; did you mean `truncated`?
      --> p.toml:25:10
       |
    25 | expect = "truncate"
       |          ^^^^^^^^^^

    error: `[[test]]` has no `expect`
      --> p.toml:26:1
       |
    26 | [[test]]
       | ^^^^^^^^
       |
       = help: add `expect`, a string: what is to come out: `accept`, or the word for why not (`truncated`, `refusal`; all are in `docs/words.md`)

    error: p.toml has 4 errors
    "#);
}

#[test]
fn a_pipeline_that_judges_nothing_has_nothing_to_test() {
    let text = "name = \"x\"\n[[stage]]\nkind = \"read\"\npath = \"a\"\n[[stage]]\nkind = \"sink\"\npath = \"b\"\n\
                [[test]]\nexpect = \"accept\"\n";
    let said = config::load(text, "p.toml", &[], &Kinds::builtin()).expect_err("there is no judge").render(false);
    assert!(said.contains("no stage judges answers") && said.contains("p.toml:8"), "{said}");
}
