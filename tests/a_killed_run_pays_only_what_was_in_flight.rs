//! A run that is killed at any moment asks again only what was in flight, and what had arrived in the second before.

#![cfg(test)]

mod support;

use forebay::{
    fleet::Transport,
    pipeline::{Options, Run, Summary},
    sim::{Fault, FaultKind, InProcess, SimSettings, prompt_hash},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    sync::Arc,
    time::Duration,
};
use support::{Bench, audit, rows};
use tokio::time::sleep;

const ROWS: usize = 80;

/// Servers that take about thirteen seconds for all rows.
fn servers(faults: Vec<Fault>) -> Arc<InProcess> {
    let settings = SimSettings {
        servers: 2,
        model: "demo".to_owned(),
        mean_tokens: 60.0,
        tokens_per_second: 600.0,
        faults,
        ..SimSettings::default()
    };
    Arc::new(InProcess::start(settings))
}

async fn prepare(bench: &Bench, servers: &Arc<InProcess>, change: &[&str]) -> Run {
    let transport = Arc::clone(servers) as Arc<dyn Transport>;
    Run::prepare(bench.plan(2, change), Options::new(Some(transport))).await.expect("the run can start")
}

/// Runs to the end.
async fn live(bench: &Bench, servers: &Arc<InProcess>, change: &[&str]) -> Summary {
    let summary = prepare(bench, servers, change).await.go().await.expect("the run goes through");
    assert!(summary.complete);
    audit::audit(bench);
    summary
}

/// Runs until `life` is over, and ends there as a kill does: nothing more is written, no task says a last word. What
/// was handed to the operating system stays. Gives how many requests may be lost; `None` if the run ended before.
async fn live_and_die(bench: &Bench, servers: &Arc<InProcess>, change: &[&str], life: Duration) -> Option<u64> {
    let run = prepare(bench, servers, change).await;
    let view = run.view();
    let arrived = || servers.servers().all().iter().map(|server| server.completed()).sum::<u64>();
    let a_second_before = async {
        sleep(life.saturating_sub(Duration::from_secs(1))).await;
        let before = arrived();
        sleep(life.min(Duration::from_secs(1))).await;
        before
    };
    let before = tokio::select! {
        biased;
        before = a_second_before => before,
        ended = run.go() => {
            ended.expect("the run goes through");
            return None;
        }
    };
    let in_flight = view.fleet.as_ref().expect("a fleet").totals().in_flight as u64;
    let lost = in_flight + arrived() - before;
    // The clock stands still while a write is under way: after this, none is.
    sleep(Duration::from_millis(1)).await;
    Some(lost)
}

/// How many requests asked for a row that had been asked for before.
fn asked_again(servers: &InProcess) -> u64 {
    let asked = servers.servers().ledger().attempts();
    let times = |row: usize| asked.get(&prompt_hash([("user", format!("Question {row}?").as_str())])).copied();
    (0..ROWS).map(|row| u64::from(times(row).unwrap_or(0).saturating_sub(1))).sum()
}

/// A write that was cut off by the kill.
fn tear(bench: &Bench) {
    let Ok(files) = fs::read_dir(bench.path("run/journal")) else { return };
    let last =
        files.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|is| is == "seg")).max();
    let Some(last) = last.filter(|last| !last.with_extension("idx").exists()) else { return };
    let mut file = OpenOptions::new().append(true).open(last).expect("opens");
    file.write_all(b"fbj1\x01\0\0\0a torn frame").expect("writes");
}

#[tokio::test(start_paused = true)]
async fn a_killed_run_pays_only_what_was_in_flight() {
    let mut random = StdRng::seed_from_u64(1);
    let (mut killed, mut recovered, mut again) = (0, 0, 0);
    for case in 0..20 {
        let bench = Bench::new();
        bench.input(&rows(ROWS, 90));
        let servers = servers(vec![Fault::always(FaultKind::Empty).share(0.1)]);
        // Every other run commits while it goes, so that part of the journal is done and part is not.
        let part_age = if case % 2 == 0 { "stage.sink.part_age=\"5m\"" } else { "stage.sink.part_age=\"3s\"" };
        let change = ["fleet.concurrency=8", part_age];
        let mut may_be_lost = 0;
        for _ in 0..2 {
            let life = Duration::from_millis(random.random_range(0..13_000));
            let Some(lost) = live_and_die(&bench, &servers, &change, life).await else { break };
            may_be_lost += lost;
            killed += 1;
            if case % 3 == 0 {
                tear(&bench);
            }
        }
        let summary = live(&bench, &servers, &change).await;
        let asked_again = asked_again(&servers);
        assert!(asked_again <= may_be_lost, "case {case}: {asked_again} rows were asked again, not {may_be_lost}");
        recovered += summary.recovered;
        again += asked_again;
    }
    assert!(killed >= 30, "only {killed} runs lived long enough to be killed");
    assert!(recovered > 200 && again > 0, "{recovered} answers were recovered, {again} were lost");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_otherwise_is_asked_anew() {
    let bench = Bench::new();
    bench.input(&rows(ROWS, 100));
    let servers = servers(vec![]);
    let lived = live_and_die(&bench, &servers, &["fleet.concurrency=8"], Duration::from_secs(8)).await;
    assert!(lived.is_some(), "the run was killed");
    let change = ["fleet.concurrency=8", "stage.template.temperature=0.1"];
    let summary = live(&bench, &servers, &change).await;
    assert_eq!((summary.recovered, summary.requests), (0, ROWS as u64));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_journal_cannot_be_written_ends_and_can_be_taken_up() {
    let bench = Bench::new();
    bench.input(&rows(ROWS, 100));
    let servers = servers(vec![]);
    let run = prepare(&bench, &servers, &["fleet.concurrency=8"]).await;
    fs::create_dir_all(bench.path("run")).expect("makes the folder");
    fs::write(bench.path("run/journal"), "a file in the way").expect("writes");
    let error = run.go().await.expect_err("it cannot go on");
    assert_eq!(error.kind(), forebay::ErrorKind::FixStore);
    assert!(error.to_string().contains("run/journal/000000.seg"), "{error}");
    audit::audit(&bench);
    fs::remove_file(bench.path("run/journal")).expect("there");
    live(&bench, &servers, &["fleet.concurrency=8"]).await;
}
