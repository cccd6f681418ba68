//! Trouble of a server costs the server a rest. Rows go to others, or wait, and lose no try by it.

#![cfg(test)]

mod support;

use forebay::{
    error::ErrorKind,
    fleet::{Call, Health, Reply, Transport, TransportError},
    pipeline::{Options, Run, Summary},
    sim::{Fault, FaultKind, InProcess, SimSettings},
};
use futures::future::BoxFuture;
use std::{sync::Arc, time::Duration};
use support::{Bench, asked, audit, rows, servers, to_its_end};
use tokio::time::sleep;

const ROWS: u64 = 300;

/// A row that loses a try is set aside at once under these, and no answer is asked again.
const NO_TRY_TO_LOSE: &str = "stage.dispatch.tries=1";

/// Requests that one death costs at most: the eight that flew, and two that are sent to a free slot before the server
/// is known to be down.
const ALL_THAT_FLEW: u64 = 8 + 2;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Servers that make `tokens_per_second` whatever their batch.
fn even(count: usize, tokens_per_second: f64, change: impl FnOnce(&mut SimSettings)) -> Arc<InProcess> {
    servers(count, |sim| {
        sim.half_batch = 0.0;
        sim.tokens_per_second = tokens_per_second;
        change(sim);
    })
}

/// Runs 300 rows, which must all be answered, and gives the summary.
async fn all_answered(servers: &Arc<InProcess>, change: &[&str]) -> Summary {
    all_answered_while(servers, change, async {}).await
}

/// The same, with something that happens meanwhile.
async fn all_answered_while(servers: &Arc<InProcess>, change: &[&str], meanwhile: impl Future<Output = ()>) -> Summary {
    let bench = Bench::with(&rows(ROWS as usize, 100));
    let change: Vec<_> = [NO_TRY_TO_LOSE, "fleet.concurrency=8"].iter().chain(change).copied().collect();
    let run = bench.run(bench.plan(servers.urls().len(), &change), servers);
    let ((summary, found), ()) = futures::join!(run, meanwhile);
    assert!(summary.complete);
    assert_eq!((summary.accepted, found.aside.len()), (ROWS, 0), "{:?}", found.reasons());
    summary
}

#[tokio::test(start_paused = true)]
async fn a_server_that_loads_for_four_minutes_joins_when_it_is_there() {
    let loading = Fault::always(FaultKind::Loading).between(seconds(0), seconds(240));
    let servers = even(2, 40.0, |sim| sim.faults = vec![loading.on(&[1])]);
    let summary = all_answered(&servers, &[]).await;
    assert_eq!((summary.requests, summary.retries), (ROWS, 0), "it got no request before it was there");
    // 18,000 tokens: one server makes 9,600 of them in the four minutes, both the rest in about 105 seconds.
    assert!(summary.servers[1].requests > 40, "{:?}", summary.servers);
    assert!((300.0..400.0).contains(&summary.seconds), "{}", summary.seconds);
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_loads_is_waited_for() {
    let loading = Fault::always(FaultKind::Loading).between(seconds(0), seconds(240));
    let servers = even(2, 4000.0, |sim| sim.faults = vec![loading]);
    let summary = all_answered(&servers, &[]).await;
    assert_eq!(summary.retries, 0);
    assert!((240.0..310.0).contains(&summary.seconds), "{}", summary.seconds);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_connections_for_a_while_comes_back() {
    let down = Fault::always(FaultKind::Down).between(seconds(20), seconds(80));
    let servers = even(2, 60.0, |sim| sim.faults = vec![down.on(&[0])]);
    let summary = all_answered(&servers, &[]).await;
    assert!(summary.retries <= ALL_THAT_FLEW, "what flew was asked again, once: {}", summary.retries);
    assert_eq!(summary.servers[0].state, Health::Up);
    let share = summary.servers[0].accepted as f64 / ROWS as f64;
    assert!((0.2..0.45).contains(&share), "{share}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_at_half_time_costs_no_row() {
    let servers = even(3, 100.0, |_| ());
    let victim = Arc::clone(&servers.servers().all()[0]);
    let death = async {
        sleep(seconds(30)).await;
        victim.kill();
    };
    let summary = all_answered_while(&servers, &[], death).await;
    assert_eq!(asked(&servers), ROWS + 8, "all that flew there was asked again, once");
    assert!(summary.retries <= ALL_THAT_FLEW, "{}", summary.retries);
    assert_eq!(summary.servers[0].state, Health::Down);
    // 18,000 tokens: 9,000 by three servers in 30 s, the rest by two in about 45 s.
    assert!((70.0..90.0).contains(&summary.seconds), "{}", summary.seconds);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_whole_fleet_costs_no_row() {
    let servers = even(16, 10.0, |_| ());
    let outage = async {
        sleep(seconds(40)).await;
        servers.servers().all().iter().for_each(|server| server.kill());
        sleep(seconds(60)).await;
        servers.servers().all().iter().for_each(|server| server.revive());
    };
    // One server fails under each row that flies; all others then refuse it, which they would any row.
    let summary = all_answered_while(&servers, &["stage.dispatch.moves=2"], outage).await;
    assert!(summary.retries >= 16 * 8, "{}", summary.retries);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_model_behind_a_port_never_gets_a_row() {
    let servers = even(3, 400.0, |sim| sim.faults = vec![Fault::always(FaultKind::WrongModel).on(&[1])]);
    let summary = all_answered(&servers, &[]).await;
    assert_eq!(summary.servers[1].requests, 0);
    assert_eq!(summary.servers[1].state, Health::WrongModel);
    assert!(summary.servers[1].trouble.as_deref().is_some_and(|trouble| trouble.contains("another-model")));
    assert_eq!(servers.servers().all()[1].started(), 0, "not even the token of a probe was asked of it");
    assert_eq!(summary.retries, 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_is_waited_for() {
    for share in [None, Some(0.3)] {
        let servers = even(2, 400.0, |sim| match share {
            // Three of eight requests are refused as long as the others run.
            None => (sim.max_running, sim.max_queued) = (3, Some(2)),
            Some(share) => sim.faults = vec![Fault::always(FaultKind::QueueFull).share(share)],
        });
        // A server that is full has not failed under the row, either.
        let summary = all_answered(&servers, &["stage.dispatch.moves=1"]).await;
        assert!(summary.retries > 0);
        assert_eq!(summary.requests, ROWS + summary.retries);
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_is_no_fault_of_the_row() {
    let mut fault = Fault::always(FaultKind::HttpError).share(0.3);
    fault.status = 429;
    let servers = even(2, 400.0, |sim| sim.faults = vec![fault]);
    let summary = all_answered(&servers, &["stage.dispatch.moves=1"]).await;
    assert!(summary.retries > 50, "{}", summary.retries);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_left_alone_after_the_stall_limit() {
    let hangs = Fault::always(FaultKind::Stall).between(seconds(10), seconds(100_000));
    let servers = even(3, 100.0, |sim| sim.faults = vec![hangs.on(&[2])]);
    let summary = all_answered(&servers, &["fleet.stall_timeout=\"20s\""]).await;
    assert!(summary.retries <= 16, "at most two rounds of its slots were lost to it: {}", summary.retries);
    assert_eq!(summary.servers[2].state, Health::Stalled);
    assert!((70.0..110.0).contains(&summary.seconds), "{}", summary.seconds);
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_stays_down_ends_the_run_and_the_run_can_go_on_later() {
    let servers = even(2, 60.0, |_| ());
    let bench = Bench::with(&rows(ROWS as usize, 100));
    let deaths = async {
        sleep(seconds(20)).await;
        servers.servers().all().iter().for_each(|server| server.kill());
    };
    let started = tokio::time::Instant::now();
    let ((ended, found), ()) =
        futures::join!(bench.run_stopped(bench.plan(2, &[NO_TRY_TO_LOSE]), &servers, None), deaths);
    let error = ended.expect_err("no server is left");
    assert_eq!(error.kind(), ErrorKind::FixFleet);
    assert!(error.to_string().contains("sim-0") && error.to_string().contains("sim-1"), "{error}");
    // The last answer came before the deaths; 15 minutes later it is enough, and not a probe's rest later.
    let seconds = started.elapsed().as_secs_f64();
    assert!((915.0..921.0).contains(&seconds), "{seconds}");
    assert!(found.aside.is_empty(), "no row is to blame: {:?}", found.reasons());
    let done = found.output.len();
    assert!(done > 5 && done < 60, "{done}");

    servers.servers().all().iter().for_each(|server| server.revive());
    let (summary, _) = bench.run(bench.plan(2, &[NO_TRY_TO_LOSE]), &servers).await;
    assert!(summary.complete);
    assert_eq!(summary.accepted, ROWS);
    assert_eq!(summary.requests, ROWS - done as u64, "what was done is not asked again");
}

/// Servers of which each dies when it is asked for one certain row.
struct Poisoned {
    servers: Arc<InProcess>,
    row: &'static str,
}

impl Transport for Poisoned {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, TransportError>> {
        let poison = call.body.as_ref().is_some_and(|body| String::from_utf8_lossy(body).contains(self.row));
        let place = self.servers.urls().iter().position(|url| **url == *call.server);
        let reply = self.servers.send(call);
        if let Some(place) = place.filter(|_| poison) {
            let servers = Arc::clone(&self.servers);
            return Box::pin(async move {
                // It takes the server some time to run out of memory; all that it is doing dies with it.
                let reply = reply.await?;
                sleep(Duration::from_secs(1)).await;
                servers.servers().all()[place].kill();
                Ok(reply)
            });
        }
        reply
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_kills_every_server_it_meets_ends_as_failed_and_alone() {
    for count in 1..=4 {
        let servers = even(count, 100.0, |_| ());
        let transport = Poisoned { servers: Arc::clone(&servers), row: "Question 77?" };
        let bench = Bench::with(&rows(ROWS as usize, 100));
        let run = Run::prepare(bench.plan(count, &["fleet.concurrency=8"]), Options::new(Some(Arc::new(transport))));
        let run = run.await.expect("the run can start");
        let restarts = async {
            loop {
                sleep(seconds(10)).await;
                servers.servers().all().iter().for_each(|server| server.revive());
            }
        };
        let summary = tokio::select! {
            ended = to_its_end(run) => ended.expect("the run goes through"),
            () = restarts => unreachable!("restarts go on for ever"),
        };
        let found = audit::audit(&bench);
        assert!(summary.complete);
        assert_eq!(found.aside.keys().collect::<Vec<_>>(), [&77], "{count} servers: {:?}", found.reasons());
        let entry = &found.aside[&77];
        assert_eq!(entry["end"], "failed");
        let attempts = entry["attempts"].as_array().expect("attempts");
        let crashes = attempts.iter().filter(|attempt| attempt["fault"] == "cut_reply").count();
        assert_eq!(crashes, 8, "as many servers as it may take down: {entry}");
    }
}
