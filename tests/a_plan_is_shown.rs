//! `forebay check` shows a plan as a picture, and says what is wrong with a file under exit code 2.

#![cfg(test)]

#[path = "support/kinds.rs"]
mod support;

use clap::Parser;
use forebay::{
    cli::{check, init},
    config,
    stage::Kinds,
};
use insta::assert_snapshot;
use std::process::ExitCode;
use support::kinds;

const FILE: &str = r#"
name = "regenerate"
[fleet]
servers = ["http://127.0.0.1:{30000..30001}"]
model = "Qwen/Qwen3-8B"
[[stage]]
kind = "read"
path = "in.jsonl"
[[stage]]
kind = "filter"
keep = "empty_response"
others = "sink"
[[stage]]
name = "second"
kind = "filter"
keep = "everything"
others = "validate"
[[stage]]
kind = "template"
max_tokens = 1024
workers = 2
capacity = 7
[[stage]]
kind = "dispatch"
[[stage]]
kind = "validate"
on_reject = { retry = 2 }
[[stage]]
kind = "sink"
path = "out/"
"#;

#[test]
fn a_plan_is_a_picture_of_its_chain() {
    let plan = config::load(FILE, "p.toml", &[], &kinds()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    assert_snapshot!(check::picture(&plan), @r#"
    regenerate  in runs/regenerate
    seed 0, up to 64MiB of rows in flight

    fleet  Qwen/Qwen3-8B, 2 servers, up to 32 requests at once on each
           http://127.0.0.1:30000
           http://127.0.0.1:30001

            read       path = "in.jsonl"
            │ 64
    ╭────── filter     keep = "empty_response", others = "sink"
    │       │ 64
    │ ╭──── second     (filter), keep = "everything", others = "validate"
    │ │     │ 64
    │ │     template   max_tokens = 1024, 2 workers
    │ │     │ 7
    │ │     dispatch
    │ │     │ 64
    │ ╰───▸ validate   on_reject = { retry = 2 }
    │       │ 64
    ╰─────▸ sink       path = "out/"

    What a stage rejects is set aside, with its reason, in the directory of the run.
    "#);
}

#[derive(Parser)]
struct Check {
    #[command(flatten)]
    args: check::Args,
}

async fn check(path: &str, set: &[&str]) -> Result<ExitCode, forebay::Error> {
    let set = set.iter().flat_map(|set| ["--set", set]);
    let args = Check::try_parse_from(["check", path].into_iter().chain(set)).expect("a command line").args;
    check::run(&args, &kinds()).await
}

#[tokio::test]
async fn the_exit_code_says_whether_the_file_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p.toml");
    std::fs::write(&path, FILE).expect("written");
    let path = path.to_str().expect("a path");
    assert_eq!(check(path, &[]).await.expect("it can be read"), ExitCode::SUCCESS);
    assert_eq!(check(path, &["stage.sink.path=elsewhere/"]).await.expect("it can be read"), ExitCode::SUCCESS);
    assert_eq!(check(path, &["stage.sink.path=1"]).await.expect("it can be read"), ExitCode::from(2));
    let error = check("no/such.toml", &[]).await.expect_err("it is not there");
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("`no/such.toml`"));
}

#[test]
fn init_writes_a_file_that_check_accepts_and_overwrites_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pipeline.toml");
    let args = init::Args { file: file.clone() };
    assert_eq!(init::run(&args, &Kinds::builtin()).expect("it is written"), ExitCode::SUCCESS);
    let text = std::fs::read_to_string(&file).expect("it is there");
    config::load(&text, "pipeline.toml", &[], &Kinds::builtin()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    std::fs::write(&file, "mine").expect("written");
    assert!(init::run(&args, &Kinds::builtin()).expect_err("it is not overwritten").to_string().contains("exists"));
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "mine");
}
