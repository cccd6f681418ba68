//! What a run makes follows from its seed, not from the order in which things happened.

#![cfg(test)]

mod support;

use forebay::sim::{Fault, FaultKind};
use serde_json::Value;
use std::{collections::BTreeMap, fs};
use support::{Bench, Trying, audit::Found, rows, seeds, servers};

/// Runs the plan over fresh servers, and gives what it left; the bench is empty again then.
async fn go(bench: &Bench, change: &[&str], faults: &[Fault]) -> Found {
    let servers = servers(3, |sim| sim.faults = faults.to_vec());
    let (summary, found) = bench.run(bench.plan(3, change), &servers).await;
    assert!(summary.complete);
    for folder in ["run", "out"] {
        fs::remove_dir_all(bench.path(folder)).expect("removes it");
    }
    found
}

/// The rows of the output and what was set aside, without the times. On the paused clock even the servers are the same.
fn content(found: &Found) -> BTreeMap<u64, Value> {
    let rows = found.output.iter().map(|(id, row)| (*id, serde_json::from_str(row).expect("a row")));
    let mut all: BTreeMap<u64, Value> = rows.chain(found.aside.clone()).collect();
    for row in all.values_mut() {
        strip(row);
    }
    all
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for key in ["started_ms", "first_token_seconds", "seconds"] {
                fields.remove(key);
            }
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// The text of each answer.
fn answers(found: &Found) -> BTreeMap<u64, Value> {
    let answer = |row: &String| serde_json::from_str::<Value>(row).expect("a row")["messages"][1]["content"].clone();
    found.output.iter().map(|(id, row)| (*id, answer(row))).collect()
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_seed_leave_the_same_rows() {
    let faults = [
        Fault::always(FaultKind::Empty).share(0.2),
        Fault::always(FaultKind::Cut).share(0.1),
        Fault::always(FaultKind::Truncated).share(0.05),
    ];
    let bench = Bench::with(&rows(300, 87));
    for seed in seeds(5) {
        let _trying = Trying(seed);
        let change = [&*format!("seed={seed}"), "stage.validate.on_reject={ retry = 2 }"];
        let (one, two) = (go(&bench, &change, &faults).await, go(&bench, &change, &faults).await);
        assert!(!one.aside.is_empty(), "some are set aside");
        for ((id, one), (_, two)) in content(&one).iter().zip(content(&two).iter()) {
            assert_eq!(one, two, "row {id}");
        }
        assert_eq!(one.output.len(), two.output.len());
    }
}

#[tokio::test(start_paused = true)]
async fn another_seed_gives_other_answers_unless_nothing_is_sampled() {
    let bench = Bench::with(&rows(100, 87));
    for (temperature, same) in [("0.0", true), ("0.7", false)] {
        let temperature = format!("stage.template.temperature={temperature}");
        let one = answers(&go(&bench, &["seed=1", &temperature], &[]).await);
        let two = answers(&go(&bench, &["seed=2", &temperature], &[]).await);
        let again = answers(&go(&bench, &["seed=1", &temperature], &[]).await);
        assert_eq!(one, again);
        assert_eq!(one == two, same, "{temperature}");
    }
}
