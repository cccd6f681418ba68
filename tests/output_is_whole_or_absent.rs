//! Where nothing can be written, the run says so and what to do; when that is done, the same command goes on.

#![cfg(test)]
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod support;

use rustix::process::geteuid;
use std::{fs, os::unix::fs::PermissionsExt, process::Command};
use support::{
    Bench, audit,
    program::{Said, files, forebay, pipeline, said, servers},
    rows,
};

const COUNT: usize = 60;

/// The error names the folder and says what to do, and no part of the output is there half.
fn refused(bench: &Bench, ended: &Said, place: &str) {
    assert_eq!(ended.code, Some(1), "{}\n{}", ended.out, ended.err);
    assert!(ended.err.contains("error: ") && ended.err.contains(place), "{}", ended.err);
    assert!(!ended.err.contains("bug"), "{}", ended.err);
    for path in files(bench.path("out")) {
        let text = fs::read_to_string(&path).expect("text");
        let whole = text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
        assert!(whole && text.ends_with('\n'), "{} is torn", path.display());
    }
}

/// The same command, with nothing in its way any more.
async fn goes_on(bench: &Bench, file: &str) {
    let resumed = said(forebay(["run", file])).await;
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    audit::audit(bench);
    assert_eq!(audit::lines(bench.path("out").as_ref()).len(), COUNT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_where_the_folder_should_be_is_named_and_left_alone() {
    let bench = Bench::new();
    bench.input(&rows(COUNT, 50));
    let servers = servers(1, |sim| sim.instant = true).await;
    let file = pipeline(&bench, &servers.urls(), "");
    let out = bench.path("out");
    fs::write(&out, "a file\n").expect("writes");
    let ended = said(forebay(["run", &file])).await;
    refused(&bench, &ended, &out);
    assert_eq!(fs::read_to_string(&out).expect("it is still there"), "a file\n");

    fs::remove_file(&out).expect("it goes");
    goes_on(&bench, &file).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_may_not_be_written_to_is_named() {
    // Permissions do not hold root.
    if geteuid().is_root() {
        return;
    }
    let bench = Bench::new();
    bench.input(&rows(COUNT, 50));
    let servers = servers(1, |sim| sim.instant = true).await;
    let file = pipeline(&bench, &servers.urls(), "");
    let out = bench.path("out");
    fs::create_dir(&out).expect("a folder");
    fs::set_permissions(&out, fs::Permissions::from_mode(0o555)).expect("it is ours");
    let ended = said(forebay(["run", &file])).await;
    refused(&bench, &ended, &out);

    fs::set_permissions(&out, fs::Permissions::from_mode(0o755)).expect("it is ours");
    goes_on(&bench, &file).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_leaves_no_torn_part() {
    let bench = Bench::new();
    bench.input(&rows(COUNT, 50));
    let servers = servers(1, |sim| sim.instant = true).await;
    let file = pipeline(&bench, &servers.urls(), "");
    // No file may be longer than so many kilobytes, and the signal that says so is ignored: writes fail with EFBIG,
    // in the middle of a part, as they do with ENOSPC. Twenty rows have more.
    let mut command = Command::new("bash");
    let limited = r#"trap "" XFSZ; ulimit -f 2; exec "$0" run "$1""#;
    command.args(["-c", limited, env!("CARGO_BIN_EXE_forebay"), &file]);
    let ended = said(command).await;
    refused(&bench, &ended, &bench.path("out"));
    assert!(ended.err.contains("make room"), "{}", ended.err);

    goes_on(&bench, &file).await;
}
