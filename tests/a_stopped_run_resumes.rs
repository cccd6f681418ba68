//! A run that was stopped says so, loses nothing, and goes on where it was.

#![cfg(test)]

mod support;

use forebay::{
    error::ErrorKind,
    pipeline::{Run, Summary},
    sim::InProcess,
};
use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};
use support::{
    Bench, Chance, Trying, asked, asked_each,
    audit::{Found, audit},
    options, rows, seeds, servers, to_its_end,
};

const SERVERS: usize = 3;
const ROWS: u64 = 300;
/// Rows that have no answer.
const ASKED: u64 = 261;
const SLOTS: u64 = 8;
const CHANGE: [&str; 1] = ["fleet.concurrency=8"];

/// Longer than any answer takes.
const GRACE: Duration = Duration::from_secs(600);

/// Servers that need about 26 seconds for all the rows.
fn slow_servers(seed: u64) -> Arc<InProcess> {
    servers(SERVERS, |sim| {
        sim.seed = seed;
        sim.half_batch = 0.0;
        sim.tokens_per_second = 200.0;
    })
}

/// Starts the run and stops it after some seconds; audits what it left.
async fn stopped(bench: &Bench, servers: &Arc<InProcess>, after: f64, grace: Duration) -> (Summary, Found) {
    let stop = (Duration::from_secs_f64(after), grace);
    let (ended, found) = bench.run_stopped(bench.plan(SERVERS, &CHANGE), servers, Some(stop)).await;
    let summary = ended.expect("to be stopped is no error");
    assert!(!summary.complete, "stopped after {after} s");
    (summary, found)
}

/// Runs to the end, and checks that this is one.
async fn finished(bench: &Bench, servers: &Arc<InProcess>) -> Found {
    let (summary, found) = bench.run(bench.plan(SERVERS, &CHANGE), servers).await;
    assert!(summary.complete);
    assert_eq!((summary.rows_in, summary.accepted, summary.forwarded), (ROWS, ASKED, ROWS - ASKED));
    assert_eq!((summary.remaining, found.aside.len()), (0, 0));
    found
}

#[tokio::test(start_paused = true)]
async fn with_grace_what_flies_lands_and_nothing_is_asked_twice() {
    for seed in seeds(20) {
        let _trying = Trying(seed);
        let (bench, servers) = (Bench::with(&rows(ROWS as usize, 87)), slow_servers(seed));
        let after = Chance(seed).between(0.1, 22.0);
        let (summary, _) = stopped(&bench, &servers, after, GRACE).await;
        assert_eq!(summary.accepted, asked(&servers), "what was asked has landed");
        assert!(summary.seconds < after + 10.0, "it waits for what flies and for nothing else: {}", summary.seconds);
        finished(&bench, &servers).await;
        assert!(asked_each(&servers).values().all(|times| *times == 1));
    }
}

#[tokio::test(start_paused = true)]
async fn without_grace_only_what_flew_is_asked_again() {
    let mut most = 0;
    for seed in seeds(20) {
        let _trying = Trying(seed);
        let (bench, servers) = (Bench::with(&rows(ROWS as usize, 87)), slow_servers(seed));
        let after = Chance(seed).between(0.1, 22.0);
        let (summary, found) = stopped(&bench, &servers, after, Duration::ZERO).await;
        assert!(summary.seconds < after + 0.001, "it ends at once: {} after {after}", summary.seconds);
        let flew: BTreeSet<u64> =
            asked_each(&servers).into_keys().filter(|id| !found.output.contains_key(id)).collect();
        assert!(flew.len() as u64 <= SERVERS as u64 * SLOTS, "{} flew", flew.len());
        most = most.max(flew.len());

        finished(&bench, &servers).await;
        for (id, times) in asked_each(&servers) {
            assert_eq!(times, if flew.contains(&id) { 2 } else { 1 }, "row {id}");
        }
    }
    assert!(most > 0, "something flew at one of the stops");
}

#[tokio::test(start_paused = true)]
async fn three_stops_in_a_row_lose_nothing() {
    for seed in seeds(8) {
        let _trying = Trying(seed);
        let mut chance = Chance(seed);
        let (bench, servers) = (Bench::with(&rows(ROWS as usize, 87)), slow_servers(seed));
        let mut done = 0;
        for _ in 0..3 {
            let grace = if chance.below(2) == 0 { GRACE } else { Duration::ZERO };
            let (_, found) = stopped(&bench, &servers, chance.between(0.1, 6.0), grace).await;
            assert!(found.output.len() >= done, "what is done stays done");
            done = found.output.len();
        }
        finished(&bench, &servers).await;
        assert!(asked(&servers) <= ASKED + 3 * SERVERS as u64 * SLOTS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_stopped_before_it_began_has_everything_before_it() {
    let (bench, servers) = (Bench::with(&rows(ROWS as usize, 87)), slow_servers(0));
    let (summary, found) = stopped(&bench, &servers, 0.0, Duration::ZERO).await;
    assert_eq!((summary.accepted, asked(&servers)), (0, 0));
    assert!(found.aside.is_empty());
    finished(&bench, &servers).await;
}

#[tokio::test(start_paused = true)]
async fn a_finished_run_asks_nothing_when_it_is_started_again() {
    let (bench, servers) = (Bench::with(&rows(ROWS as usize, 87)), slow_servers(0));
    let first = finished(&bench, &servers).await;
    let again = finished(&bench, &servers).await;
    assert_eq!(first.output, again.output);
    assert_eq!(asked(&servers), ASKED);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_changed_behind_its_position_is_named() {
    let mut input = rows(ROWS as usize, 87);
    let (bench, servers) = (Bench::with(&input), slow_servers(0));
    let (_, found) = stopped(&bench, &servers, 10.0, GRACE).await;
    let (id, before) = found.output.first_key_value().map(|(id, row)| (*id, row.clone())).expect("some are done");
    input[id as usize] = input[id as usize].replace("Question", "Request");
    bench.input(&input);

    let asked_before = asked_each(&servers);
    let run = Run::prepare(bench.plan(SERVERS, &CHANGE), options(&servers)).await.expect("the run can start");
    let error = to_its_end(run).await.expect_err("it is not the row it was");
    assert_eq!(error.kind(), ErrorKind::FixInput);
    assert!(error.to_string().contains(&format!("input.jsonl:{}", id + 1)), "{error}");
    assert!(fs::read_to_string(bench.path("out/part-00000.jsonl")).expect("a part").contains(&before));

    // Put right again, the run goes on; it did not lose what the failed session had asked for.
    bench.input(&rows(ROWS as usize, 87));
    audit(&bench);
    finished(&bench, &servers).await;
    assert!(asked_each(&servers).iter().all(|(id, times)| *times == 1 || !asked_before.contains_key(id)));
}
