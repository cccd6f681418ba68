//! What the tests of whole pipelines share: a folder with an input, a run over simulated servers, and an auditor.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

pub mod audit;
pub mod program;

use forebay::{
    config,
    fleet::Transport,
    pipeline::{Options, Plan, Run, Summary},
    sim::{InProcess, SimSettings},
    stage::Kinds,
    stop::Stopper,
};
use std::{fs, path::Path, sync::Arc};
use tempfile::TempDir;

/// A folder of its own for one test, with the paths a pipeline needs.
pub struct Bench {
    pub folder: TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        Bench { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("utf-8").to_owned()
    }

    /// Writes the input: one row a line.
    pub fn input(&self, rows: &[String]) {
        fs::write(self.folder.path().join("input.jsonl"), rows.join("\n") + "\n").expect("writes the input");
    }

    /// The usual chain over this folder and `servers` simulated servers; `change` are `--set` arguments.
    pub fn plan(&self, servers: usize, change: &[&str]) -> Plan {
        let text = format!(
            r#"
            name = "test"
            run = "{run}"
            [fleet]
            model = "demo"
            servers = ["http://sim-{{0..{last}}}.invalid"]
            [[stage]]
            kind = "read"
            path = "{input}"
            [[stage]]
            kind = "filter"
            keep = "empty_response"
            others = "sink"
            [[stage]]
            kind = "template"
            thinking = true
            max_tokens = 4096
            [[stage]]
            kind = "dispatch"
            [[stage]]
            kind = "validate"
            [[stage]]
            kind = "sink"
            path = "{out}"
            format = "jsonl"
            "#,
            run = self.path("run"),
            input = self.path("input.jsonl"),
            out = self.path("out"),
            last = servers - 1,
        );
        let change: Vec<_> = change.iter().map(|text| (*text).to_owned()).collect();
        match config::load(&text, "test.toml", &change, &Kinds::builtin()) {
            Ok(plan) => plan,
            Err(diagnostics) => panic!("{diagnostics}"),
        }
    }

    /// Runs a plan to its end over `servers`, and audits what it left.
    pub async fn run(&self, plan: Plan, servers: &Arc<InProcess>) -> Summary {
        let summary = self.run_stoppable(plan, servers, |_| ()).await;
        audit::audit(self);
        summary
    }

    /// Runs a plan; `with` gets what stops it.
    pub async fn run_stoppable(&self, plan: Plan, servers: &Arc<InProcess>, with: impl FnOnce(Stopper)) -> Summary {
        let options = options(servers);
        with(options.stopper.clone());
        let run = Run::prepare(plan, options).await.expect("the run can start");
        run.go().await.expect("the run goes through")
    }

    pub fn out(&self) -> &Path {
        self.folder.path()
    }
}

/// Options of a run over these servers.
pub fn options(servers: &Arc<InProcess>) -> Options {
    let transport: Arc<dyn Transport> = Arc::clone(servers) as Arc<dyn Transport>;
    Options::new(Some(transport))
}

/// Simulated servers with short answers.
pub fn servers(count: usize, change: impl FnOnce(&mut SimSettings)) -> Arc<InProcess> {
    let mut settings = SimSettings {
        servers: count,
        model: "demo".to_owned(),
        mean_tokens: 60.0,
        stream_interval: 5.0,
        ..SimSettings::default()
    };
    change(&mut settings);
    Arc::new(InProcess::start(settings))
}

/// `count` rows of which about `empty` of 100 have no answer; each row is unlike all others.
pub fn rows(count: usize, empty: usize) -> Vec<String> {
    (0..count)
        .map(|number| {
            let answer = if number % 100 < empty { String::new() } else { format!("Answer {number}.") };
            format!(
                r#"{{"id": {number}, "big": 9007199254740993, "messages": [{{"role": "user", "content": "Question {number}?"}}, {{"role": "assistant", "content": "{answer}"}}]}}"#
            )
        })
        .collect()
}
