//! Whatever is wrong with a pipeline file is said in one go, each thing with its line, a caret and advice.

#![cfg(test)]

#[path = "support/kinds.rs"]
mod support;

use forebay::{config::load, pipeline::Plan};
use insta::assert_snapshot;
use support::kinds;

const GOOD: &str = r#"name = "regenerate"

[fleet]
servers = ["http://127.0.0.1:{30000..30006}"]
model = "Qwen/Qwen3-8B"

[[stage]]
kind = "read"
path = "in.jsonl"

[[stage]]
kind = "filter"
keep = "empty_response"
others = "sink"

[[stage]]
kind = "template"
max_tokens = 1024

[[stage]]
kind = "dispatch"

[[stage]]
kind = "validate"
on_reject = { retry = 2 }

[[stage]]
kind = "sink"
path = "out/"
"#;

/// The good file with some of its text replaced.
fn with(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(GOOD.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old:?} stands in the good file");
        text.replacen(old, new, 1)
    })
}

fn good(text: &str, set: &[&str]) -> Plan {
    let set: Vec<String> = set.iter().map(ToString::to_string).collect();
    load(text, "p.toml", &set, &kinds()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

fn bad(text: &str, set: &[&str]) -> String {
    let set: Vec<String> = set.iter().map(ToString::to_string).collect();
    match load(text, "p.toml", &set, &kinds()) {
        Ok(plan) => panic!("nothing is wrong: {plan:#?}"),
        Err(diagnostics) => diagnostics.to_string(),
    }
}

#[test]
fn a_good_file_is_a_plan() {
    let plan = good(GOOD, &[]);
    assert_eq!((plan.name.as_str(), plan.run.as_str(), plan.seed), ("regenerate", "runs/regenerate", 0));
    assert_eq!(plan.memory, 64 << 20);
    assert_eq!(plan.fleet.expect("there is one").urls().len(), 7);
    let names: Vec<&str> = plan.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["read", "filter", "template", "dispatch", "validate", "sink"]);
    assert_eq!(plan.stages[1].around, Some(5));
    assert_eq!((plan.stages[2].workers, plan.stages[2].capacity), (1, 64));
}

#[test]
fn five_mistakes_are_five_located_errors() {
    let text = with(&[
        ("model = ", "modle = "),
        ("kind = \"filter\"", "kind = \"flter\""),
        ("max_tokens = 1024", "max_tokens = \"16k\"\ntemprature = 1"),
        ("path = \"out/\"", "path = 7"),
    ]);
    assert_snapshot!(bad(&text, &[]), @r#"
    error: `modle` is no key of `[fleet]`
     --> p.toml:5:1
      |
    5 | modle = "Qwen/Qwen3-8B"
      | ^^^^^
      |
      = help: did you mean `model`?

    error: there is no kind of stage `flter`
      --> p.toml:12:8
       |
    12 | kind = "flter"
       |        ^^^^^^^
       |
       = help: did you mean `filter`?

    error: `max_tokens` must be a whole number
      --> p.toml:18:14
       |
    18 | max_tokens = "16k"
       |              ^^^^^ this is a string

    error: `temprature` is no key of `template`
      --> p.toml:19:1
       |
    19 | temprature = 1
       | ^^^^^^^^^^
       |
       = help: did you mean `temperature`?

    error: `path` must be a string
      --> p.toml:30:8
       |
    30 | path = 7
       |        ^ this is a whole number

    error: p.toml has 5 errors
    "#);
}

#[test]
fn a_file_that_is_no_toml_is_alone_with_its_first_mistake() {
    assert_snapshot!(bad(&with(&[("max_tokens = 1024", "max_tokens = 16k"), ("[fleet]", "[flet]")]), &[]), @r#"
    error: string values must be quoted, expected literal string
      --> p.toml:18:14
       |
    18 | max_tokens = 16k
       |              ^^^

    error: p.toml has one error
    "#);
}

#[test]
fn unknown_keys_are_found_one_level_down_too() {
    assert_snapshot!(bad(&with(&[("{ retry = 2 }", "{ retry = 2, retrys = 3 }")]), &[]), @r#"
    error: `retrys` is no key of `on_reject`
      --> p.toml:25:26
       |
    25 | on_reject = { retry = 2, retrys = 3 }
       |                          ^^^^^^
       |
       = help: did you mean `retry`?

    error: p.toml has one error
    "#);
}

#[test]
fn a_key_that_is_missing_is_described() {
    assert_snapshot!(bad(&with(&[("path = \"in.jsonl\"\n", "")]), &[]), @r#"
    error: `read` has no `path`
     --> p.toml:8:8
      |
    8 | kind = "read"
      |        ^^^^^^
      |
      = help: add `path`, a string: where the rows are

    error: p.toml has one error
    "#);
}

#[test]
fn a_word_that_is_none_of_the_known_ones_is_corrected() {
    assert_snapshot!(bad(&with(&[("\"empty_response\"", "\"empty_respones\"")]), &[]), @r#"
    error: `keep` cannot be `empty_respones`
      --> p.toml:13:8
       |
    13 | keep = "empty_respones"
       |        ^^^^^^^^^^^^^^^^
       |
       = help: did you mean `empty_response`?

    error: p.toml has one error
    "#);
}

#[test]
fn numbers_out_of_range_point_at_the_number() {
    let text = with(&[("max_tokens = 1024", "max_tokens = -1\nworkers = 0")]);
    assert_snapshot!(bad(&text, &[]), @r#"
    error: `max_tokens` must be at least 0
      --> p.toml:18:14
       |
    18 | max_tokens = -1
       |              ^^

    error: `workers` must be at least 1
      --> p.toml:19:11
       |
    19 | workers = 0
       |           ^

    error: p.toml has 2 errors
    "#);
}

#[test]
fn what_check_complains_about_points_at_the_value() {
    let text = with(&[("max_tokens = 1024", "temperature = 3"), ("{ retry = 2 }", "{ retry = 200 }")]);
    assert_snapshot!(bad(&text, &[]), @r#"
    error: `temperature` must be 0 to 2
      --> p.toml:18:15
       |
    18 | temperature = 3
       |               ^

    error: `retry` must be at most 100
      --> p.toml:25:23
       |
    25 | on_reject = { retry = 200 }
       |                       ^^^

    error: p.toml has 2 errors
    "#);
}

#[test]
fn elements_of_lists_are_looked_at() {
    assert_snapshot!(bad(&with(&[("max_tokens = 1024", "stop = [\"a\", 3]")]), &[]), @r#"
    error: an element of `stop` must be a string
      --> p.toml:18:14
       |
    18 | stop = ["a", 3]
       |              ^ this is a whole number

    error: p.toml has one error
    "#);
}

#[test]
fn values_that_only_their_type_understands_point_at_the_value() {
    let text = with(&[
        ("kind = \"dispatch\"", "kind = \"dispatch\"\ngrace = \"5 parsecs\""),
        ("[fleet]", "memory = \"lots\"\n\n[fleet]"),
    ]);
    assert_snapshot!(bad(&text, &[]), @r#"
    error: `lots` is not a size; write a number and a unit, such as "64MiB" or "1GB"
     --> p.toml:3:10
      |
    3 | memory = "lots"
      |          ^^^^^^

    error: `5 parsecs` is not a length of time; write a number and a unit, such as "5s" or "10m"
      --> p.toml:24:9
       |
    24 | grace = "5 parsecs"
       |         ^^^^^^^^^^^

    error: p.toml has 2 errors
    "#);
}

#[test]
fn numbers_that_would_take_all_memory_are_refused() {
    let text = with(&[("kind = \"dispatch\"", "kind = \"dispatch\"\ncapacity = 1_000_000_000")]);
    assert_snapshot!(bad(&text, &["memory=1TiB", "fleet.servers=[\"http://a:{0..99999}\"]"]), @r#"
    error: `capacity` must be at most 65536
      --> p.toml:22:12
       |
    22 | capacity = 1_000_000_000
       |            ^^^^^^^^^^^^^

    error: `memory` must be from 1MiB to 4095MiB, not 1TiB
     --> --set:1:8
      |
    1 | memory=1TiB
      |        ^^^^

    error: `{0..99999}` is more than 1024 servers
     --> --set:1:16
      |
    1 | fleet.servers=["http://a:{0..99999}"]
      |                ^^^^^^^^^^^^^^^^^^^^^

    error: p.toml has 3 errors
    "#);
}

#[test]
fn a_misspelt_table_is_not_complained_about_as_missing() {
    assert_snapshot!(bad(&with(&[("[fleet]", "[flet]")]), &[]), @r#"
    error: `flet` is no key of the pipeline file
     --> p.toml:3:2
      |
    3 | [flet]
      |  ^^^^
      |
      = help: did you mean `fleet`?

    error: p.toml has one error
    "#);
    let text = GOOD.replace("[[stage]]", "[[stages]]");
    assert_snapshot!(bad(&text, &[]), @r#"
    error: `stages` is no key of the pipeline file
     --> p.toml:7:3
      |
    7 | [[stages]]
      |   ^^^^^^
      |
      = help: did you mean `stage`?

    error: p.toml has one error
    "#);
}

#[test]
fn an_empty_file_is_told_what_it_needs() {
    assert_snapshot!(bad("", &[]), @r#"
    error: the pipeline file has no `name`
     --> p.toml:1:1
      |
    1 |
      | ^
      |
      = help: add `name`, a string: what the pipeline is called: in its run's directory, its logs and its report

    error: the pipeline has no stages
     --> p.toml:1:1
      |
    1 |
      | ^
      |
      = help: add `[[stage]]` tables, from `kind = "read"` to `kind = "sink"`

    error: p.toml has 2 errors
    "#);
}

#[test]
fn a_stage_without_a_kind_is_pointed_at() {
    let typo = bad(&with(&[("kind = \"dispatch\"", "knd = \"dispatch\"")]), &[]);
    assert!(typo.contains("one error") && typo.contains("did you mean `kind`?"), "{typo}");
    assert_snapshot!(bad(&with(&[("kind = \"dispatch\"", "# nothing")]), &[]), @r#"
    error: the stage has no `kind`
      --> p.toml:20:1
       |
    20 | [[stage]]
       | ^^^^^^^^^
       |
       = help: add `kind`, one of `read`, `filter`, `template`, `dispatch`, `validate`, `sink`

    error: p.toml has one error
    "#);
}

#[test]
fn one_pair_of_brackets_is_not_two() {
    assert_snapshot!(bad("name = \"x\"\n[stage]\nkind = \"read\"\n", &[]), @r#"
    error: `stage` must be a list of tables
     --> p.toml:2:1
      |
    2 | [stage]
      | ^^^^^^^
      |
      = help: each stage is a table of its own that begins with `[[stage]]`, in two pairs of brackets

    error: p.toml has one error
    "#);
}

#[test]
fn mistakes_in_the_chain_point_at_the_stage() {
    let text = with(&[
        ("others = \"sink\"", "others = \"snk\""),
        ("kind = \"template\"\nmax_tokens = 1024", "kind = \"filter\"\nkeep = \"everything\""),
        ("[fleet]\nservers = [\"http://127.0.0.1:{30000..30006}\"]\nmodel = \"Qwen/Qwen3-8B\"\n", ""),
    ]);
    assert_snapshot!(bad(&text, &[]), @r#"
    error: there is no later stage `snk`
      --> p.toml:11:10
       |
    11 | others = "snk"
       |          ^^^^^
       |
       = help: did you mean `sink`?

    error: two stages are called `filter`
      --> p.toml:14:8
       |
     9 | kind = "filter"
       |        -------- the other one
    ...
    14 | kind = "filter"
       |        ^^^^^^^^
       |
       = help: a stage without `name` is called by its kind; give each its own, such as `name = "second"`

    error: `dispatch` needs a request; no stage before it gives one
      --> p.toml:18:8
       |
    18 | kind = "dispatch"
       |        ^^^^^^^^^^
       |
       = help: put a `template` stage before it

    error: `dispatch` needs servers, and the file has no `[fleet]`
      --> p.toml:18:8
       |
    18 | kind = "dispatch"
       |        ^^^^^^^^^^
       |
       = help: add a `[fleet]` table with `servers` and `model`

    error: p.toml has 4 errors
    "#);
}

#[test]
fn each_server_is_looked_at() {
    let text =
        with(&[("[\"http://127.0.0.1:{30000..30006}\"]", "[\"http://a:1\", \"ftp://a:2\", \"http://a:{1..2}\"]")]);
    assert_snapshot!(bad(&text, &[]), @r#"
    error: a server is reached by http or https, not by `ftp`: write `http://host:port`
     --> p.toml:4:26
      |
    4 | servers = ["http://a:1", "ftp://a:2", "http://a:{1..2}"]
      |                          ^^^^^^^^^^^

    error: the server `http://a:1` is named twice: each one gets one entry
     --> p.toml:4:39
      |
    4 | servers = ["http://a:1", "ftp://a:2", "http://a:{1..2}"]
      |                                       ^^^^^^^^^^^^^^^^^

    error: p.toml has 2 errors
    "#);
}

#[test]
fn the_command_line_overrides_the_file() {
    let plan =
        good(GOOD, &["stage.template.max_tokens=8192", "run=s3://b/x", "fleet.model=\"m\"", "stage.sink.capacity=3"]);
    assert_eq!(plan.stages[2].settings.to_json()["max_tokens"], 8192);
    assert_eq!((plan.run.as_str(), plan.stages[5].capacity), ("s3://b/x", 3));
    assert_eq!(plan.fleet.expect("there is one").model, "m");
    let plan = good(GOOD, &["stage.template.stop=[\"a\", \"b\"]", "stage.validate.on_reject.retry=1"]);
    assert_eq!(plan.stages[2].settings.to_json()["stop"][1], "b");
    assert_eq!(plan.stages[4].settings.to_json()["on_reject"]["retry"], 1);
}

#[test]
fn a_mistake_on_the_command_line_points_at_the_argument() {
    let set = [
        "stage.templat.max_tokens=1",
        "stage.template.max_token=1",
        "stage.template.max_tokens=lots",
        "seed",
        "fleet.model.x=1",
    ];
    assert_snapshot!(bad(GOOD, &set), @r#"
    error: there is no stage `templat`
     --> --set:1:7
      |
    1 | stage.templat.max_tokens=1
      |       ^^^^^^^
      |
      = help: did you mean `template`?

    error: `max_token` is no key of `template`
     --> --set:1:16
      |
    1 | stage.template.max_token=1
      |                ^^^^^^^^^
      |
      = help: did you mean `max_tokens`?

    error: `max_tokens` must be a whole number
     --> --set:1:27
      |
    1 | stage.template.max_tokens=lots
      |                           ^^^^ this is a string

    error: there is no `=` in this argument of --set
     --> --set:1:1
      |
    1 | seed
      | ^^^^
      |
      = help: write `--set stage.template.max_tokens=8192`

    error: `model` has no keys
     --> p.toml:5:9
      |
    5 | model = "Qwen/Qwen3-8B"
      |         --------------- this is a plain value
      |
     ::: --set:1:7
      |
    1 | fleet.model.x=1
      |       ^^^^^

    error: p.toml has 5 errors
    "#);
}

#[test]
fn the_environment_fills_in_strings_and_cannot_do_more() {
    let plan = good(&with(&[("\"out/\"", "\"${CARGO_PKG_NAME}/$${x}\"")]), &["name=${CARGO_PKG_NAME}"]);
    assert_eq!(plan.stages[5].settings.to_json()["path"], "forebay/${x}");
    assert_eq!(plan.name, "forebay");
}

#[test]
fn a_variable_that_is_not_set_is_pointed_at() {
    let text = with(&[("\"out/\"", "\"a/${FOREBAY_NO_SUCH}/b\"")]);
    assert_snapshot!(bad(&text, &["run=${FOREBAY_NONE}"]), @r#"
    error: the environment variable `FOREBAY_NO_SUCH` is not set
      --> p.toml:29:11
       |
    29 | path = "a/${FOREBAY_NO_SUCH}/b"
       |           ^^^^^^^^^^^^^^^^^^
       |
       = help: set it, as in `FOREBAY_NO_SUCH=… forebay …`, or write `$${` for a text that is to hold `${`

    error: the environment variable `FOREBAY_NONE` is not set
     --> --set:1:5
      |
    1 | run=${FOREBAY_NONE}
      |     ^^^^^^^^^^^^^^^
      |
      = help: set it, as in `FOREBAY_NONE=… forebay …`, or write `$${` for a text that is to hold `${`

    error: p.toml has 2 errors
    "#);
}

#[test]
fn a_secret_in_the_file_is_refused_and_not_shown() {
    let text = with(&[("model = ", "api_key = \"sk-12345\"\nmodel = ")]);
    let said = bad(&text, &[]);
    assert!(!said.contains("12345"), "{said}");
    assert_snapshot!(said, @r#"
    error: `api_key` must say where the secret is, and not what it is
     --> p.toml:5:11
      |
    5 | api_key = **********
      |           ^^^^^^^^^^
      |
      = help: files are shared and logged; write `api_key = { env = "NAME" }` to take it from an environment variable, or `api_key = { file = "path" }` from a file

    error: p.toml has one error
    "#);
}

#[test]
fn no_way_of_writing_a_secret_shows_it() {
    let key = |line: &str| with(&[("model = ", &format!("{line}\nmodel = "))]);
    let url = with(&[("http://127", "http://user:sk-12345@127")]);
    for said in [
        bad(&key("api_kye = \"sk-12345\""), &[]),
        bad(&key("api_key = [\"sk-12345\"]"), &[]),
        bad(&key("api_key = sk-12345"), &[]),
        bad(&key("api_key = { value = \"sk-12345\" }"), &[]),
        bad(&key("api_key = { env = \"sk-12345\" }"), &[]),
        bad(&key("api_key = { env = \"A\", file = \"sk-12345\" }"), &[]),
        bad(&url, &[]),
        bad(&with(&[("servers = [\"http://127", "server = [\"http://user:sk-12345@127")]), &[]),
        bad(&with(&[("servers = [\"http://127", "servers = [\"http://user:sk-12345@127"), ("[fleet]", "[fleet")]), &[]),
        bad(GOOD, &["fleet.api_key=sk-12345"]),
        bad(GOOD, &["fleet.servers=[\"http://user:sk-12345@a\"]"]),
    ] {
        assert!(!said.contains("12345"), "{said}");
    }
}

#[test]
fn a_secret_that_is_not_there_is_said_before_anything_starts() {
    let text = with(&[("model = ", "api_key = { env = \"FOREBAY_NO_SUCH\" }\nmodel = ")]);
    assert_snapshot!(bad(&text, &[]), @r#"
    error: the environment variable `FOREBAY_NO_SUCH`, which is to hold the secret, is not set
     --> p.toml:5:11
      |
    5 | api_key = { env = "FOREBAY_NO_SUCH" }
      |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^

    error: p.toml has one error
    "#);
}

proptest::proptest! {
    /// Whatever stands in the file and on the command line, there is a plan or an explanation that can be shown.
    #[test]
    fn no_text_is_too_broken_to_be_explained(
        at in 0..GOOD.len(),
        removed in 0..40_usize,
        inserted in "[\\PC\n\r\t\\[\\]\\{\\}\"'=.$#é]{0,12}",
        set in proptest::collection::vec("(stage|fleet|name|stage.sink)?[.a-z]{0,8}=?[\\PC\n\"\\[\\{]{0,8}", 0..3),
    ) {
        let text = format!("{}{inserted}{}", GOOD.get(..at).unwrap_or(""), GOOD.get(at + removed..).unwrap_or(""));
        if let Err(diagnostics) = load(&text, "p.toml", &set, &kinds()) {
            proptest::prop_assert!(!diagnostics.is_empty());
            proptest::prop_assert!(diagnostics.render(true).contains("p.toml has "));
        }
    }
}
