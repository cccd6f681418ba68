//! A server takes the next record when it has a free slot: each gets as much as it can do.

#![cfg(test)]

mod support;

use forebay::pipeline::Summary;
use support::{Bench, rows, servers};

const TOKENS_PER_SECOND: f64 = 4000.0;
const SLOTS: usize = 8;

/// Runs `count` rows over servers of these speeds; gives the summary and the tokens of the longest answer.
async fn go(speeds: &[f64], count: usize) -> (Summary, f64) {
    let servers = servers(speeds.len(), |sim| {
        sim.speeds = speeds.to_vec();
        sim.tokens_per_second = TOKENS_PER_SECOND;
        // The batch makes as many tokens in all whatever its size: then the capacity of the fleet is one number.
        sim.half_batch = 0.0;
        sim.prefill_tokens_per_second = 1e9;
        sim.sigma = 0.4;
    });
    let bench = Bench::with(&rows(count, 100));
    let concurrency = format!("fleet.concurrency={SLOTS}");
    let (summary, found) = bench.run(bench.plan(speeds.len(), &[&concurrency]), &servers).await;
    assert_eq!((summary.accepted, summary.retries), (count as u64, 0));
    let tokens = |id| found.provenance(id).expect("an answer")["usage"]["completion_tokens"].as_f64();
    let longest = (0..count as u64).filter_map(tokens).fold(0.0, f64::max);
    (summary, longest)
}

fn tokens(summary: &Summary) -> Vec<f64> {
    summary.servers.iter().map(|server| server.completion_tokens.expect("counted") as f64).collect()
}

#[tokio::test(start_paused = true)]
async fn the_run_takes_as_long_as_all_tokens_take_at_the_sum_of_all_speeds() {
    let speeds = [1.0, 1.0, 1.0, 0.1];
    let (summary, longest) = go(&speeds, 4000).await;
    let all: f64 = tokens(&summary).iter().sum();
    let ideal = all / (TOKENS_PER_SECOND * speeds.iter().sum::<f64>());
    // Until the last record is handed out every server is full, so that this moment comes no later than `ideal`; what
    // then flies takes at most as long as the longest answer in a slot of the slowest server (Graham 1969). The
    // second is for the first probes.
    let tail = longest / (TOKENS_PER_SECOND * 0.1 / SLOTS as f64);
    let ratio = summary.seconds / ideal;
    assert!(summary.seconds >= ideal * 0.999, "faster than possible: {ratio}");
    assert!(summary.seconds <= ideal + tail + 1.0, "{} s, ideal {ideal}, tail {tail}", summary.seconds);
    assert!(ratio < 1.1, "{ratio}");

    for (index, (made, speed)) in tokens(&summary).iter().zip(speeds).enumerate() {
        let fair = all * speed / 3.1;
        assert!((made / fair - 1.0).abs() < 0.1, "server {index} made {made} tokens, its share is {fair}");
        let rate = summary.servers[index].tokens_per_second.expect("known") / (TOKENS_PER_SECOND * speed);
        assert!((0.95..1.001).contains(&rate), "server {index} was busy at its own speed: {rate}");
    }
}

#[tokio::test(start_paused = true)]
async fn equal_servers_share_evenly() {
    let (summary, _) = go(&[1.0; 4], 2000).await;
    let all: f64 = tokens(&summary).iter().sum();
    for (server, made) in summary.servers.iter().zip(tokens(&summary)) {
        assert!((made / (all / 4.0) - 1.0).abs() < 0.02, "{}: {made} of {all} tokens", server.url);
        assert!((server.requests as f64 / 500.0 - 1.0).abs() < 0.05, "{}: {} requests", server.url, server.requests);
    }
}
