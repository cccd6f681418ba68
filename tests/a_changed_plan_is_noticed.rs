//! A run that is taken up with other settings stops and says which; what changes no row may change freely.

#![cfg(test)]

use std::{fs, process::Command};

/// Runs the quickstart into `folder`; its exit code and what it said.
fn run(folder: &str, more: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["run", "pipelines/quickstart.toml", "--quiet"]);
    command.args(["--run", &format!("{folder}/run"), "--set", &format!("stage.sink.path={folder}/out")]);
    let output = command.args(more).output().expect("the program runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn settings_that_change_rows_stop_a_run_that_is_taken_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("utf-8");
    assert_eq!(run(path, &["--limit", "20"]).0, Some(0));

    let (code, said) = run(path, &["--set", "stage.template.temperature=0.9"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("stage.template.temperature: 0.6 -> 0.9"), "{said}");

    let (code, said) = run(path, &["--set", "fleet.concurrency=3", "--set", "stage.sink.part_rows=7"]);
    assert_eq!(code, Some(0), "{said}");
    let summary = fs::read_to_string(folder.path().join("run/summary.json")).expect("a summary");
    assert!(summary.contains("\"rows_in\": 80"), "{summary}");
}
