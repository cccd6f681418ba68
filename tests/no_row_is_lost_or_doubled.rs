//! Every input row has exactly one end, whatever the servers do.

#![cfg(test)]

mod support;

use forebay::sim::{Dialect, Fault, FaultKind};
use std::{future::pending, sync::Arc, time::Duration};
use support::{Bench, Chance, Trying, asked, rows, seeds, servers};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn ten_thousand_rows_come_out_one_to_one() {
    let bench = Bench::with(&rows(10_000, 87));
    let servers = servers(7, |_| ());
    let (summary, found) = bench.run(bench.plan(7, &[]), &servers).await;
    assert!(summary.complete);
    assert_eq!((summary.rows_in, summary.accepted, summary.forwarded), (10_000, 8_700, 1_300));
    assert_eq!((summary.requests, summary.retries), (8_700, 0));
    assert_eq!(asked(&servers), 8_700, "each row without an answer was asked once, and no other one");
    assert_eq!(found.output.len(), 10_000);
    assert!(found.aside.is_empty());
}

/// Every kind of fault, each with the share of requests that makes sense for it.
const KINDS: [FaultKind; 17] = [
    FaultKind::Slow,
    FaultKind::Stall,
    FaultKind::Reset,
    FaultKind::Loading,
    FaultKind::Down,
    FaultKind::HttpError,
    FaultKind::HtmlError,
    FaultKind::Empty,
    FaultKind::OnlyThinking,
    FaultKind::Garbage,
    FaultKind::Truncated,
    FaultKind::Aborted,
    FaultKind::ErrorInside200,
    FaultKind::SseError,
    FaultKind::QueueFull,
    FaultKind::Cut,
    FaultKind::WrongModel,
];

/// Three to six faults at random: some for the whole run, some for a while, some on one server.
fn mischief(chance: &mut Chance, servers: usize) -> Vec<Fault> {
    (0..3 + chance.below(4))
        .map(|_| {
            let mut fault = Fault::always(KINDS[chance.below(KINDS.len())]).share(chance.between(0.05, 0.2));
            fault.status = [400, 401, 429, 500, 503, 504][chance.below(6)];
            fault.at = chance.between(0.0, 1.0);
            // These two strike every request while they last, so they last a while only.
            let bounded = matches!(fault.kind, FaultKind::Down | FaultKind::Loading);
            if bounded || chance.below(2) == 0 {
                let from = chance.between(0.0, 60.0);
                let until = from + chance.between(1.0, 300.0);
                fault = fault.between(Duration::from_secs_f64(from), Duration::from_secs_f64(until));
            }
            if chance.below(3) == 0 { fault.on(&[chance.below(servers)]) } else { fault }
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_every_row_has_one_end() {
    for seed in seeds(40) {
        let _trying = Trying(seed);
        let mut chance = Chance(seed);
        let count = 1 + chance.below(5);
        let faults = mischief(&mut chance, count);
        let dialect = [Dialect::Sglang, Dialect::Vllm][chance.below(2)];
        let servers = servers(count, |sim| {
            sim.seed = seed;
            sim.faults = faults.clone();
            sim.dialect = dialect;
            sim.max_running = 4;
            sim.max_queued = (seed % 3 == 0).then_some(4);
        });
        let retry = format!("stage.validate.on_reject={{ retry = {} }}", 1 + chance.below(3));
        let stream = format!("stage.dispatch.stream={}", chance.below(4) > 0);
        let narrow = ["stage.validate.capacity=64", "stage.validate.capacity=1"][chance.below(2)];
        let bench = Bench::with(&rows(300, 87));
        let plan = bench.plan(count, &[&retry, &stream, narrow, "fleet.stall_timeout=\"20s\""]);

        // A server dies under whatever it is doing, and comes back.
        let victim = Arc::clone(&servers.servers().all()[chance.below(count)]);
        let (dies, rests) = (chance.between(0.0, 30.0), chance.between(1.0, 60.0));
        let death = async {
            sleep(Duration::from_secs_f64(dies)).await;
            victim.kill();
            sleep(Duration::from_secs_f64(rests)).await;
            victim.revive();
            pending::<()>().await;
        };
        let (summary, found) = tokio::select! {
            ended = bench.run(plan, &servers) => ended,
            () = death => continue,
        };
        assert!(summary.complete, "{faults:?}");
        assert_eq!((summary.rows_in, summary.forwarded, summary.remaining), (300, 39, 0));
        assert_eq!(found.output.len() + found.aside.len(), 300);
    }
}
