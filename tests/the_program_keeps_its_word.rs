//! The program as scripts and people meet it: exit codes, signals, `summary.json`, and what it prints.

#![cfg(test)]
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{collections::BTreeSet, fs, net::TcpListener, process::Child};
use support::{
    Bench, audit,
    program::{ended, files, forebay, pipeline, said, servers, start, summary, until},
    rows,
};

const COMPLETE: Option<i32> = Some(0);
const FAILED: Option<i32> = Some(1);
const WRONG: Option<i32> = Some(2);
const RESUMABLE: Option<i32> = Some(75);

/// A folder with this many rows, half of them without an answer.
fn bench(count: usize) -> Bench {
    let bench = Bench::new();
    bench.input(&rows(count, 50));
    bench
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    kill_process(pid, signal).expect("the process is there");
}

fn commits(bench: &Bench) -> usize {
    files(bench.path("run/commits")).len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_run_exits_0_and_run_again_it_asks_nothing_and_exits_0() {
    let bench = bench(200);
    let servers = servers(2, |_| {}).await;
    let file = pipeline(&bench, &servers.urls(), "");
    let first = said(forebay(["run", &file])).await;
    assert_eq!(first.code, COMPLETE, "{}", first.err);
    assert!(first.out.starts_with("test: complete"), "{}", first.out);
    audit::audit(&bench);
    let written = audit::lines(bench.path("out").as_ref());

    // Nobody is there to be asked any more.
    drop(servers);
    let again = said(forebay(["run", &file])).await;
    assert_eq!(again.code, COMPLETE, "{}", again.err);
    assert_eq!(summary(&bench)["requests"], 0);
    audit::audit(&bench);
    assert_eq!(audit::lines(bench.path("out").as_ref()), written);
}

/// The keys scripts may count on. Taking one away or renaming it breaks them; adding one is done here, on purpose.
const SUMMARY: &[&str] = &[
    "name",
    "simulated",
    "rows_in",
    "accepted",
    "forwarded",
    "rejected",
    "failed",
    "remaining",
    "bad_input",
    "requests",
    "retries",
    "recovered",
    "prompt_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "seconds",
    "servers",
    "stages",
    "complete",
];
const SERVER: &[&str] =
    &["url", "requests", "accepted", "completion_tokens", "tokens_per_second", "in_flight", "state"];
const STAGE: &[&str] = &["name", "in", "out", "aside", "busy_s", "waited_for_input_s", "waited_for_room_s"];

#[tokio::test(flavor = "multi_thread")]
async fn the_summary_has_these_keys_and_no_others() {
    fn keys(value: &Value) -> BTreeSet<&str> {
        value.as_object().expect("an object").keys().map(String::as_str).collect()
    }
    let bench = bench(40);
    let servers = servers(2, |sim| sim.instant = true).await;
    let ended = said(forebay(["run", &pipeline(&bench, &servers.urls(), "")])).await;
    assert_eq!(ended.code, COMPLETE, "{}", ended.err);
    let summary = summary(&bench);
    assert_eq!(keys(&summary), SUMMARY.iter().copied().collect());
    for server in summary["servers"].as_array().expect("a list") {
        assert_eq!(keys(server), SERVER.iter().copied().collect(), "a server without trouble");
    }
    for stage in summary["stages"].as_array().expect("a list") {
        assert_eq!(keys(stage), STAGE.iter().copied().collect());
    }
    assert_eq!(summary["complete"], true);
    assert!(summary["completion_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{summary}");
}

#[tokio::test]
async fn five_mistakes_in_a_file_are_five_places_and_exit_2() {
    let bench = bench(1);
    let file = pipeline(&bench, &["http://127.0.0.1:9".to_owned()], "modle = \"demo\"");
    let text = fs::read_to_string(&file).expect("the pipeline file");
    let text = text
        .replace("max_tokens = 4096", "max_tokens = \"many\"\ntemperatur = 0.5")
        .replace("kind = \"validate\"", "kind = \"validade\"")
        .replace("others = \"sink\"", "others = \"snik\"");
    fs::write(&file, text).expect("writes");
    for command in ["run", "check"] {
        let refused = said(forebay([command, &file])).await;
        assert_eq!(refused.code, WRONG, "{}", refused.err);
        for word in ["`modle`", "`max_tokens`", "`temperatur`", "`validade`", "`snik`"] {
            assert!(refused.err.contains(word), "{word} is not named: {}", refused.err);
        }
        assert_eq!(refused.err.matches(&format!("{file}:")).count(), 5, "{}", refused.err);
    }
    assert!(!fs::exists(bench.path("run")).expect("it can be looked for"), "nothing was begun");
}

#[tokio::test]
async fn a_wrong_command_exits_2_and_what_is_not_there_1() {
    assert_eq!(said(forebay(["rnu"])).await.code, WRONG);
    assert_eq!(said(forebay(["run"])).await.code, WRONG);
    assert_eq!(said(forebay(["run", "no-such-file.toml"])).await.code, WRONG);
    assert_eq!(said(forebay(["--help"])).await.code, COMPLETE);

    let bench = Bench::new();
    let ended = said(forebay(["run", &pipeline(&bench, &["http://127.0.0.1:9".to_owned()], "")])).await;
    assert_eq!(ended.code, FAILED, "{}", ended.err);
    assert!(ended.err.contains(&bench.path("input.jsonl")), "{}", ended.err);
    assert_eq!(said(forebay(["audit", &bench.path("input.jsonl")])).await.code, FAILED);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_by_a_signal_it_exits_75_and_the_same_command_ends_it() {
    for kind in [Signal::INT, Signal::TERM] {
        let bench = bench(600);
        let servers = servers(2, |sim| sim.tokens_per_second = 10_000.0).await;
        let file = pipeline(&bench, &servers.urls(), "concurrency = 8");
        let child = start(forebay(["run", &file]));
        until("some answers", || servers.servers().all().iter().all(|server| server.completed() > 10)).await;
        signal(&child, kind);
        let stopped = ended(child).await;
        assert_eq!(stopped.code, RESUMABLE, "{kind:?}: {}", stopped.err);
        assert!(stopped.out.contains("the same command takes it up again"), "{}", stopped.out);
        audit::audit(&bench);
        assert_eq!(summary(&bench)["complete"], false);
        let before = summary(&bench)["accepted"].as_u64().expect("a number");
        assert!(before > 0, "what had landed is kept");

        let resumed = said(forebay(["run", &file])).await;
        assert_eq!(resumed.code, COMPLETE, "{}", resumed.err);
        audit::audit(&bench);
        assert_eq!(summary(&bench)["requests"], 300 - before, "only what was missing is asked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_does_not_wait_for_what_flies() {
    let bench = bench(100);
    // A probe's one token takes two seconds, an answer minutes.
    let servers = servers(1, |sim| (sim.tokens_per_second, sim.sigma) = (12.5, 0.0)).await;
    let file = pipeline(&bench, &servers.urls(), "");
    let mut command = forebay(["run", &file, "--grace", "10h"]);
    command.env("FOREBAY_LOG", "info");
    let (log, told) = (bench.path("log"), fs::File::create(bench.path("log")).expect("a file"));
    let child = command.stdout(told.try_clone().expect("a file")).stderr(told).spawn().expect("the program starts");
    until("requests under way", || servers.servers().all()[0].started() > 1).await;
    signal(&child, Signal::INT);
    until("it says so", || fs::read_to_string(&log).is_ok_and(|log| log.contains("once more to stop now"))).await;
    signal(&child, Signal::TERM);
    let stopped = ended(child).await;
    assert_eq!(stopped.code, RESUMABLE, "{}", stopped.err);
    audit::audit(&bench);
    assert_eq!((&summary(&bench)["accepted"], &summary(&bench)["forwarded"]), (&0.into(), &50.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_nothing_is_lost_doubled_or_torn() {
    let bench = bench(400);
    let servers = servers(2, |sim| sim.tokens_per_second = 8000.0).await;
    let file = pipeline(&bench, &servers.urls(), "concurrency = 8");
    for moment in 0..5 {
        let (before, asked) = (commits(&bench), servers.servers().all()[0].started());
        let mut child = start(forebay(["run", &file]));
        match moment {
            0 => until("the first request", || servers.servers().all()[0].started() > asked).await,
            1 => until("the first commit", || commits(&bench) > before).await,
            2 => until("a part", || files(bench.path("out")).len() > before + 1).await,
            3 => until("answers", || servers.servers().all()[0].started() > asked + 20).await,
            _ => until("two commits", || commits(&bench) > before + 1).await,
        }
        child.kill().expect("it is there");
        child.wait().expect("it has gone");
    }
    let resumed = said(forebay(["run", &file])).await;
    assert_eq!(resumed.code, COMPLETE, "{}", resumed.err);
    audit::audit(&bench);
    assert_eq!(summary(&bench)["rows_in"], 400);
}

#[tokio::test]
async fn audit_says_how_many_answers_are_empty() {
    let bench = Bench::new();
    bench.input(&rows(10_000, 87));
    let audited = said(forebay(["audit", &bench.path("input.jsonl")])).await;
    assert_eq!(audited.code, COMPLETE, "{}", audited.err);
    assert!(audited.out.starts_with("10000 rows, 87 % of the answers are empty"), "{}", audited.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_folder_that_holds_parts_of_others_is_left_alone() {
    let bench = bench(40);
    let servers = servers(1, |sim| sim.instant = true).await;
    let theirs = bench.path("out/part-00000.jsonl");
    fs::create_dir(bench.path("out")).expect("a folder");
    fs::write(&theirs, "theirs\n").expect("writes");
    let refused = said(forebay(["run", &pipeline(&bench, &servers.urls(), "")])).await;
    assert_eq!(refused.code, FAILED, "{}", refused.err);
    assert!(refused.err.contains("already holds parts that are not of this run"), "{}", refused.err);
    assert_eq!(fs::read_to_string(&theirs).expect("still there"), "theirs\n");
    assert_eq!(files(bench.path("out")).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_limits_the_rows_names_the_run_and_sets_values() {
    let bench = bench(100);
    let servers = servers(1, |sim| sim.instant = true).await;
    let file = pipeline(&bench, &servers.urls(), "");
    let (run, out) = (bench.path("run"), format!("stage.sink.path={}", bench.path("out")));
    fs::write(&file, fs::read_to_string(&file).expect("reads").replace(&run, &bench.path("other"))).expect("writes");
    let set = ["--set", &out, "--set", "stage.template.max_tokens=777", "--set", "stage.sink.part_rows=3"];
    let ended = said(forebay([&["run", &file, "--limit", "10", "--run", &run][..], &set].concat())).await;
    assert_eq!(ended.code, COMPLETE, "{}", ended.err);
    assert_eq!(summary(&bench)["rows_in"], 10);
    assert!(!fs::exists(bench.path("other")).expect("it can be looked for"));
    assert_eq!(files(bench.path("out")).len(), 4, "ten rows in parts of three");
    let lines = audit::lines(bench.path("out").as_ref());
    assert!(lines.iter().any(|line| line.contains("\"max_tokens\":777")), "{lines:?}");

    let wrong = said(forebay(["run", &file, "--set", "stage.template.max_token=1"])).await;
    assert_eq!(wrong.code, WRONG);
    assert!(wrong.err.contains("did you mean `max_tokens`"), "{}", wrong.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_has_to_listen_to_what_it_prints() {
    let bench = bench(40);
    let servers = servers(1, |sim| sim.instant = true).await;
    let file = pipeline(&bench, &servers.urls(), "");
    let (input, wrong) = (bench.path("input.jsonl"), bench.path("no-such-file"));
    let commands: [(&[&str], _); 6] = [
        (&["check", &file], COMPLETE),
        (&["schema"], COMPLETE),
        (&["audit", &input], COMPLETE),
        (&["audit", &wrong], FAILED),
        (&["run", &file, "--set", "x=1"], WRONG),
        (&["run", &file], COMPLETE),
    ];
    for (arguments, code) in commands {
        let mut child = start(forebay(arguments.iter().copied()));
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(ended(child).await.code, code, "{arguments:?}");
    }
}

#[tokio::test]
async fn check_asks_no_server() {
    let bench = bench(1);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("it can be asked without waiting");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let checked = said(forebay(["check", &pipeline(&bench, std::slice::from_ref(&url), "")])).await;
    assert_eq!(checked.code, COMPLETE, "{}", checked.err);
    assert!(checked.out.contains(&url), "{}", checked.out);
    assert_eq!(listener.accept().expect_err("nobody came").kind(), std::io::ErrorKind::WouldBlock);
    assert!(!fs::exists(bench.path("run")).expect("it can be looked for"), "nothing is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_asks_the_servers_only_when_told_to_and_says_what_each_is() {
    let bench = bench(1);
    let servers = servers(1, |sim| sim.instant = true).await;
    let mut urls = servers.urls();
    urls.push("http://127.0.0.1:9".to_owned());
    let file = pipeline(&bench, &urls, "");
    let quiet = said(forebay(["check", &file])).await;
    assert_eq!((quiet.code, servers.servers().all()[0].started()), (COMPLETE, 0), "{}", quiet.err);
    let asked = said(forebay(["check", &file, "--servers"])).await;
    assert_eq!(asked.code, Some(1), "one of them is not there");
    assert!(asked.out.contains(&format!("{}  up", urls[0])), "{}", asked.out);
    assert!(asked.out.contains("http://127.0.0.1:9  down"), "{}", asked.out);
    let asked = said(forebay(["check", &file, "--servers", "--set", "fleet.model=\"other\""])).await;
    assert!(asked.out.contains(&format!("{}  wrong_model", urls[0])), "{}", asked.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_one_run_or_one_folder_never_mix_their_rows() {
    let bench = bench(200);
    let servers = servers(1, |sim| sim.tokens_per_second = 2_000.0).await;
    let file = pipeline(&bench, &servers.urls(), "");
    let first = start(forebay(["run", &file]));
    until("the first works", || servers.servers().all()[0].started() > 5).await;
    let same_run = said(forebay(["run", &file])).await;
    assert_eq!(same_run.code, FAILED, "{}", same_run.err);
    assert!(same_run.err.contains("another process works on"), "{}", same_run.err);
    let same_folder = said(forebay(["run", &file, "--run", &bench.path("second")])).await;
    assert_eq!(same_folder.code, FAILED, "{}", same_folder.err);
    assert!(same_folder.err.contains("not of this run"), "{}", same_folder.err);
    assert_eq!(ended(first).await.code, COMPLETE);
    audit::audit(&bench);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_part_is_gone_says_so() {
    let bench = bench(20);
    let servers = servers(1, |sim| sim.instant = true).await;
    let file = pipeline(&bench, &servers.urls(), "");
    assert_eq!(said(forebay(["run", &file])).await.code, COMPLETE);
    fs::remove_file(bench.path("out/part-00000.jsonl")).expect("removes");
    let gone = said(forebay(["run", &file])).await;
    assert_eq!(gone.code, FAILED, "{}", gone.err);
    assert!(gone.err.contains("is gone"), "{}", gone.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_never_reads_what_it_has_written() {
    let bench = bench(20);
    let servers = servers(1, |sim| sim.instant = true).await;
    let file = pipeline(&bench, &servers.urls(), "");
    // A pattern that covers the output too: there is none when the run begins.
    let all = format!("stage.read.path={}", bench.path("**/*.jsonl"));
    assert_eq!(said(forebay(["run", &file, "--set", &all])).await.code, COMPLETE);
    let own = said(forebay(["run", &file, "--set", &all])).await;
    assert_eq!(own.code, WRONG, "{}", own.err);
    assert!(own.err.contains("where this run writes"), "{}", own.err);
}
