//! A run most of whose answers are bad stops early, says why and what to do, and can be taken up again.

#![cfg(test)]

use forebay::{
    Error, ErrorKind, config,
    fleet::Transport,
    pipeline::{Options, Plan, Run, Summary},
    record::Reason,
    sim::{Fault, FaultKind, InProcess, SimSettings},
    stage::Kinds,
};
use std::{fs, sync::Arc};
use tempfile::TempDir;

const ROWS: usize = 3_000;

/// A folder with an input of rows without answers, in files that are read in one go.
fn folder(rows: usize) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |number| format!("{{\"id\":{number},\"prompt\":\"Question {number}?\",\"response\":\"\"}}\n");
    for first in (0..rows).step_by(15) {
        let text: String = (first..rows.min(first + 15)).map(row).collect();
        fs::write(folder.path().join(format!("input-{first:05}.jsonl")), text).expect("written");
    }
    folder
}

fn plan(folder: &TempDir, validate: &str) -> Plan {
    let place = folder.path().display();
    let text = format!(
        r#"
        name = "test"
        run = "{place}/run"
        [fleet]
        model = "demo"
        servers = ["http://sim-{{0..1}}.invalid"]
        [[stage]]
        kind = "read"
        path = "{place}/input-*.jsonl"
        [[stage]]
        kind = "template"
        thinking = false
        max_tokens = 4096
        [[stage]]
        kind = "dispatch"
        [[stage]]
        kind = "validate"
        {validate}
        [[stage]]
        kind = "sink"
        path = "{place}/out"
        format = "jsonl"
        "#
    );
    config::load(&text, "test.toml", &[], &Kinds::builtin()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Two servers with short answers and these faults.
fn servers(faults: &[Fault]) -> Arc<InProcess> {
    Arc::new(InProcess::start(SimSettings {
        servers: 2,
        model: "demo".to_owned(),
        mean_tokens: 60.0,
        thinking_share: 0.0,
        stream_interval: 5.0,
        faults: faults.to_vec(),
        ..SimSettings::default()
    }))
}

async fn run(plan: Plan, servers: &Arc<InProcess>) -> Result<Summary, Error> {
    let transport: Arc<dyn Transport> = Arc::<InProcess>::clone(servers);
    Run::prepare(plan, Options::new(Some(transport))).await.expect("the run can start").go().await
}

/// Runs into the alarm; returns what it says.
async fn stopped(folder: &TempDir, fault: Fault) -> Error {
    let servers = servers(&[fault]);
    let error = run(plan(folder, ""), &servers).await.expect_err("the run stops itself");
    let summary = fs::read_to_string(folder.path().join("run/summary.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary["complete"], false);
    assert!(summary["rows_in"].as_u64().expect("a number") < ROWS as u64 / 2, "{summary}");
    error
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_answers_are_cut_stops_and_is_taken_up_with_what_was_wrong_put_right() {
    let folder = folder(ROWS);
    let error = stopped(&folder, Fault::always(FaultKind::Truncated)).await;
    assert_eq!(error.kind(), ErrorKind::FixPipeline);
    let said = error.to_string();
    assert!(said.starts_with("stopped early: ") && said.contains("`truncated`"), "{said}");
    assert!(said.contains("`max_tokens`") && said.contains("`stop_when_rejected`"), "{said}");

    let summary = run(plan(&folder, ""), &servers(&[])).await.expect("the run goes through");
    assert!(summary.complete);
    let cut = summary.rejected[&Reason::Truncated];
    assert!((50..1_000).contains(&cut), "{cut}");
    assert_eq!((summary.accepted + cut, summary.rows_in), (ROWS as u64, ROWS as u64));
}

#[tokio::test(start_paused = true)]
async fn refused_requests_and_broken_replies_stop_it_too_and_say_who_has_to_do_something() {
    // The first moment is that of the probes, which the servers answer.
    let later = |kind| Fault { from: Some(0.001), status: 400, ..Fault::always(kind) };
    let refused = later(FaultKind::HttpError);
    let error = stopped(&folder(ROWS), refused).await;
    assert_eq!(error.kind(), ErrorKind::FixPipeline, "{error}");
    assert!(error.to_string().contains("`bad_request`"), "{error}");
    let cause = std::error::Error::source(&error).expect("an example").to_string();
    assert!(cause.starts_with("for instance: HTTP 400"), "{cause}");

    let error = stopped(&folder(ROWS), later(FaultKind::Cut)).await;
    assert_eq!(error.kind(), ErrorKind::FixFleet, "{error}");
    assert!(error.to_string().contains("`cut_reply`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_run_with_fewer_bad_answers_goes_through_also_where_the_bad_ones_come_first() {
    let refused = Fault { status: 400, ..Fault::always(FaultKind::HttpError).share(0.4) };
    for fault in [Fault::always(FaultKind::Truncated).share(0.4), refused] {
        let summary = run(plan(&folder(ROWS), ""), &servers(&[fault])).await.expect("the run goes through");
        let rejected: u64 = summary.rejected.values().sum();
        assert!(summary.complete && rejected > 1_000, "{rejected}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_share_is_a_setting_and_1_never_stops() {
    let faults = [Fault::always(FaultKind::Truncated)];
    let summary = run(plan(&folder(600), "stop_when_rejected = 1"), &servers(&faults)).await;
    assert_eq!(summary.expect("the run goes through").rejected[&Reason::Truncated], 600);
    let faults = [Fault::always(FaultKind::Truncated).share(0.4)];
    let stopped = run(plan(&folder(ROWS), "stop_when_rejected = 0.2"), &servers(&faults)).await;
    assert!(stopped.is_err());
}
