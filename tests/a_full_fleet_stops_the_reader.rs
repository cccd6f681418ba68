//! Backpressure is nothing but the bounds of the edges: what is read ahead of the servers is counted here exactly.

#![cfg(test)]

mod support;

use forebay::pipeline::{Run, View};
use std::time::Duration;
use support::{Bench, audit, options, rows, servers, to_its_end};
use tokio::time::sleep;

const SERVERS: usize = 3;
/// Requests that a server gets at once.
const SLOTS: usize = 2;
/// The capacity of the edge before each stage: all different, so that none can stand for another.
const FILTER: usize = 3;
const TEMPLATE: usize = 4;
const DISPATCH: usize = 5;
const VALIDATE: usize = 6;
const SINK: usize = 7;
const TEMPLATE_WORKERS: usize = 2;

/// Records that have left `read`'s door and have not reached the sink.
fn under_way(view: &View) -> u64 {
    let account = |name: &str| &view.stages.iter().find(|stage| stage.name == name).expect("the stage").account;
    // Taken first: what moves on meanwhile must not be counted twice.
    let ended = account("sink").taken() + view.stages.iter().map(|stage| stage.account.aside()).sum::<u64>();
    view.tally().entered - ended
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_what_the_edges_workers_and_slots_hold_and_no_row_more() {
    // Each of the two requests of a server takes two seconds: one is done each second.
    let servers = servers(SERVERS, |sim| {
        sim.sigma = 0.0;
        sim.mean_tokens = 100.0;
        sim.half_batch = 0.0;
        sim.tokens_per_second = 100.0;
    });
    let bench = Bench::with(&rows(300, 100));
    let plan = bench.plan(
        SERVERS,
        &[
            &format!("fleet.concurrency={SLOTS}"),
            &format!("stage.filter.capacity={FILTER}"),
            &format!("stage.template.capacity={TEMPLATE}"),
            &format!("stage.template.workers={TEMPLATE_WORKERS}"),
            &format!("stage.dispatch.capacity={DISPATCH}"),
            &format!("stage.validate.capacity={VALIDATE}"),
            &format!("stage.sink.capacity={SINK}"),
        ],
    );
    let run = Run::prepare(plan, options(&servers)).await.expect("the run can start");
    let view = run.view();
    let mut samples = Vec::new();
    let sampling = async {
        loop {
            samples.push(under_way(&view));
            sleep(Duration::from_millis(100)).await;
        }
    };
    let summary = tokio::select! {
        ended = to_its_end(run) => ended.expect("the run goes through"),
        () = sampling => unreachable!("sampling goes on for ever"),
    };
    audit::audit(&bench);

    // `read` holds one row that it cannot hand on, as does each worker of `filter` and `template`; the edges after
    // `dispatch` are empty, because nothing waits there. `dispatch` holds one row for which it has no slot yet.
    let held = 1 + FILTER + 1 + TEMPLATE + TEMPLATE_WORKERS + DISPATCH + 1 + SERVERS * SLOTS;
    let most = samples.iter().max().copied().expect("samples");
    assert_eq!(most, held as u64, "of 300 rows, so many are under way at most");
    let full = samples.iter().filter(|sample| **sample == most).count();
    assert!(full * 10 > samples.len() * 8, "and nearly always: {full} of {} samples", samples.len());

    let seconds = 300.0 * 1.05 / SERVERS as f64;
    assert!((100.0..seconds * 1.1).contains(&summary.seconds), "{}", summary.seconds);
    assert_eq!(summary.bottleneck(), Some("dispatch"));
    let waited = |name: &str| {
        let stage = summary.stages.iter().find(|stage| stage.name == name).expect("the stage");
        (stage.waited_for_input_s / summary.seconds, stage.waited_for_room_s / summary.seconds)
    };
    for name in ["read", "filter", "template"] {
        assert!(waited(name).1 > 0.8, "{name} has nowhere to put its rows: {:?}", waited(name));
    }
    for name in ["validate", "sink"] {
        assert!(waited(name).0 > 0.99, "{name} has nothing to do: {:?}", waited(name));
    }
}

#[tokio::test(start_paused = true)]
async fn rows_in_memory_stay_within_the_budget_in_bytes() {
    let servers = servers(1, |sim| sim.tokens_per_second = 200.0);
    let rows = rows(100, 100);
    let bytes = rows.iter().map(String::len).max().expect("rows");
    let bench = Bench::with(&rows);
    // Room for seven rows and a half, far less than the edges would hold.
    let mut plan = bench.plan(1, &[]);
    plan.memory = u32::try_from(bytes * 15 / 2).expect("small");
    let run = Run::prepare(plan, options(&servers)).await.expect("the run can start");
    let view = run.view();
    let mut most = 0;
    let sampling = async {
        loop {
            most = most.max(under_way(&view));
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        ended = to_its_end(run) => assert!(ended.expect("the run goes through").complete),
        () = sampling => unreachable!("sampling goes on for ever"),
    }
    audit::audit(&bench);
    assert_eq!(most, 7);
}
