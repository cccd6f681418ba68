//! The main job on real llama.cpp servers with a real small model: nothing here is simulated.
//!
//! `examples/local-model/test.sh` installs what is needed and runs these tests.

#![cfg(test)]

use forebay::{
    config,
    fleet::{FleetSettings, Health, HttpTransport},
    pipeline::{Options, Plan, Run, Summary, View},
    stage::Kinds,
};
use serde_json::Value;
use std::{
    fs,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// One llama.cpp server; killed when the test ends, however it ends.
struct Server(Child);

impl Server {
    fn start(port: u16, more: &[&str]) -> Server {
        let root = env!("CARGO_MANIFEST_DIR");
        let venv = std::env::var("FOREBAY_VENV").unwrap_or_else(|_| format!("{root}/examples/local-model/.venv"));
        let child = Command::new(format!("{venv}/bin/python"))
            .arg(format!("{root}/examples/local-model/serve.py"))
            .arg(port.to_string())
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts: run examples/local-model/test.sh");
        Server(child)
    }

    fn kill(&mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killing what has been killed already is no error that matters here.
        let (_killed, _ended) = (self.0.kill(), self.0.wait());
    }
}

/// The example's own pipeline over its first `rows` prompts, in a folder of its own.
fn plan(folder: &TempDir, ports: &[u16], rows: usize, change: &[&str]) -> Plan {
    let root = env!("CARGO_MANIFEST_DIR");
    let prompts = fs::read_to_string(format!("{root}/examples/data/prompts.jsonl")).expect("the prompts");
    // Only rows without an answer, so that each of them is asked.
    let prompts = prompts.lines().filter(|line| line.contains(r#""role": "assistant", "content": """#));
    let input = folder.path().join("input.jsonl");
    fs::write(&input, prompts.take(rows).map(|line| format!("{line}\n")).collect::<String>()).expect("writes");
    let servers: Vec<_> = ports.iter().map(|port| format!("\"http://127.0.0.1:{port}\"")).collect();
    let mut set = vec![
        format!("run={}", folder.path().join("run").display()),
        format!("fleet.servers=[{}]", servers.join(",")),
        format!("stage.read.path={}", input.display()),
        format!("stage.sink.path={}", folder.path().join("out").display()),
        "stage.template.max_tokens=40".to_owned(),
    ];
    set.extend(change.iter().map(|text| (*text).to_owned()));
    let file = fs::read_to_string(format!("{root}/examples/local-model/pipeline.toml")).expect("the pipeline");
    match config::load(&file, "pipeline.toml", &set, &Kinds::builtin()) {
        Ok(plan) => plan,
        Err(diagnostics) => panic!("{diagnostics}"),
    }
}

async fn prepare(plan: Plan) -> Run {
    let FleetSettings { connect_timeout, idle_timeout, .. } = plan.fleet.clone().expect("a fleet");
    let http = HttpTransport::new(connect_timeout.0, idle_timeout.0, None).expect("a client");
    Run::prepare(plan, Options::new(Some(Arc::new(http)))).await.expect("the run can start")
}

async fn run(plan: Plan) -> Summary {
    prepare(plan).await.go().await.expect("the run goes through")
}

fn rows(folder: &TempDir, name: &str) -> Vec<Value> {
    let Ok(parts) = fs::read_dir(folder.path().join(name)) else { return Vec::new() };
    let shown = |part: &fs::DirEntry| !part.file_name().to_string_lossy().starts_with('.');
    let texts = parts.flatten().filter(shown).map(|part| fs::read_to_string(part.path()).expect("text"));
    texts
        .flat_map(|text| text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<_>>())
        .collect()
}

fn show(summary: &Summary) {
    for server in &summary.servers {
        let speed = server.tokens_per_second.unwrap_or_default();
        println!(
            "  {} {}: {} requests, {} accepted, {speed:.0} tokens/s",
            server.url, server.state, server.requests, server.accepted
        );
    }
    println!(
        "  {} rows: {} accepted, rejected {:?}, failed {:?}",
        summary.rows_in, summary.accepted, summary.rejected, summary.failed
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real model: examples/local-model/test.sh"]
async fn forty_real_prompts_have_forty_outcomes_on_two_servers() {
    let _servers = [Server::start(18211, &[]), Server::start(18212, &[])];
    let folder = tempfile::tempdir().expect("a folder");
    let summary = run(plan(&folder, &[18211, 18212], 40, &[])).await;
    show(&summary);
    assert_eq!((summary.rows_in, summary.accepted, summary.complete), (40, 40, true));
    for row in rows(&folder, "out") {
        let answer = row["messages"][1]["content"].as_str().expect("a text");
        assert!(!answer.trim().is_empty());
        assert!(row["forebay"]["usage"]["completion_tokens"].as_u64().is_some_and(|tokens| tokens > 0));
    }
    assert!(summary.servers.iter().all(|server| server.accepted >= 5), "both servers answer");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real model: examples/local-model/test.sh"]
async fn a_server_killed_half_way_costs_no_row() {
    let mut servers = [Server::start(18221, &[]), Server::start(18222, &[])];
    let folder = tempfile::tempdir().expect("a folder");
    let run = prepare(plan(&folder, &[18221, 18222], 40, &[])).await;
    let view: Arc<View> = run.view();
    let mut going = JoinSet::new();
    going.spawn(run.go());
    while view.fleet.as_ref().expect("a fleet").totals().requests < 20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    servers[1].kill();
    let summary = going.join_next().await.expect("it goes").expect("no panic").expect("the run goes through");
    show(&summary);
    assert_eq!((summary.rows_in, summary.accepted, summary.complete), (40, 40, true));
    assert_eq!(summary.servers[1].state, Health::Down);
    let mut ids: Vec<_> = rows(&folder, "out").iter().map(|row| row["id"].as_u64().expect("an id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 40, "each row once");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real model: examples/local-model/test.sh"]
async fn a_cut_answer_a_full_context_and_another_model_end_in_their_words() {
    let _server = Server::start(18231, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let strict = ["stage.validate.require=[\"answer\",\"finished\"]", "stage.template.max_tokens=5"];
    let summary = run(plan(&folder, &[18231], 4, &strict)).await;
    show(&summary);
    let counts: Vec<_> = summary.rejected.iter().map(|(reason, count)| (reason.word(), *count)).collect();
    assert_eq!(counts, [("truncated", 4)]);
    assert_eq!(summary.requests, 4, "the same budget is not tried again");

    let folder = tempfile::tempdir().expect("a folder");
    let long = format!("stage.template.system=\"{}\"", "A word and another. ".repeat(1_000));
    let summary = run(plan(&folder, &[18231], 2, &[&long])).await;
    show(&summary);
    let counts: Vec<_> = summary.rejected.iter().map(|(reason, count)| (reason.word(), *count)).collect();
    assert_eq!(counts, [("context_overflow", 2)]);
    let detail = rows(&folder, "run/aside")[0]["detail"].as_str().expect("a detail").to_owned();
    assert!(detail.contains("tokens"), "{detail}");

    let folder = tempfile::tempdir().expect("a folder");
    let other = ["fleet.model=\"another\"", "fleet.patience=\"3s\""];
    let run = prepare(plan(&folder, &[18231], 2, &other)).await;
    let view = run.view();
    let error = run.go().await.expect_err("no server serves it");
    println!("  {error}");
    assert!(error.to_string().contains("smollm2"), "{error}");
    assert_eq!(view.fleet.as_ref().expect("a fleet").totals().requests, 0, "a wrong model is never asked");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real model: examples/local-model/test.sh"]
async fn a_thought_is_told_from_the_answer_streamed_and_not() {
    let template = format!("{}/examples/local-model/thinking.jinja", env!("CARGO_MANIFEST_DIR"));
    let _server = Server::start(18241, &["--template", &template]);
    for stream in ["true", "false"] {
        let folder = tempfile::tempdir().expect("a folder");
        // The model does not close a thought by itself; this makes llama.cpp do so after twelve tokens.
        let change = [
            "stage.template.thinking=true",
            "stage.template.extra={ thinking_budget_tokens = 12 }",
            &format!("stage.dispatch.stream={stream}"),
        ];
        let summary = run(plan(&folder, &[18241], 4, &change)).await;
        show(&summary);
        assert_eq!(summary.accepted, 4, "{:?}", summary.rejected);
        for row in rows(&folder, "out") {
            let turn = &row["messages"][1];
            let (answer, thought) = (turn["content"].as_str(), turn["reasoning_content"].as_str());
            assert!(answer.is_some_and(|text| !text.contains("think>") && !text.trim().is_empty()), "{turn}");
            assert!(thought.is_some_and(|text| !text.contains("think>") && !text.trim().is_empty()), "{turn}");
        }
    }
}
