//! What the tests of whole pipelines share: a folder with an input, a run over simulated servers, and an auditor.
//!
//! Everything runs on tokio's paused clock: a test that waits for what never comes is told so after a virtual month.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

pub mod audit;
pub mod program;

use audit::Found;
use forebay::{
    config,
    error::Error,
    fleet::Transport,
    pipeline::{Options, Plan, Run, Summary},
    sim::{InProcess, SimSettings, prompt_hash},
    stage::Kinds,
    stop::Stopper,
};
use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// A folder of its own for one test, with the paths a pipeline needs.
pub struct Bench {
    folder: TempDir,
}

/// A month without an end is a deadlock.
const DEADLOCK: Duration = Duration::from_secs(30 * 24 * 3600);

impl Bench {
    /// An empty folder.
    pub fn new() -> Bench {
        Bench { folder: tempfile::tempdir().expect("a folder") }
    }

    /// A folder with this input.
    pub fn with(rows: &[String]) -> Bench {
        let bench = Bench::new();
        bench.input(rows);
        bench
    }

    /// The path of `name` in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("utf-8").to_owned()
    }

    /// Writes the input: one row a line.
    pub fn input(&self, rows: &[String]) {
        fs::write(self.path("input.jsonl"), rows.join("\n") + "\n").expect("writes the input");
    }

    /// The usual chain over this folder and `servers` simulated servers; `change` are `--set` arguments.
    pub fn plan(&self, servers: usize, change: &[&str]) -> Plan {
        let text = format!(
            r#"
            name = "test"
            run = "{run}"
            [fleet]
            model = "demo"
            servers = [{servers}]
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
            servers = (0..servers).map(|index| format!("\"{}\"", url(index))).collect::<Vec<_>>().join(", "),
        );
        let change: Vec<_> = change.iter().map(|text| (*text).to_owned()).collect();
        match config::load(&text, "test.toml", &change, &Kinds::builtin()) {
            Ok(plan) => plan,
            Err(diagnostics) => panic!("{diagnostics}"),
        }
    }

    /// Runs a plan to its end over `servers`, and audits what it left.
    pub async fn run(&self, plan: Plan, servers: &Arc<InProcess>) -> (Summary, Found) {
        let (ended, found) = self.run_stopped(plan, servers, None).await;
        (ended.expect("the run goes through"), found)
    }

    /// Runs a plan over `servers`, stopped after some time with some grace, and audits what it left.
    pub async fn run_stopped(
        &self,
        plan: Plan,
        servers: &Arc<InProcess>,
        stop: Option<(Duration, Duration)>,
    ) -> (Result<Summary, Error>, Found) {
        let options = options(servers);
        let stopper = options.stopper.clone();
        let run = Run::prepare(plan, options).await.expect("the run can start");
        let ended = tokio::select! {
            ended = to_its_end(run) => ended,
            never = stop_later(stopper, stop) => never,
        };
        (ended, audit::audit(self))
    }
}

/// Stops the run after a while; never comes back.
async fn stop_later<T>(stopper: Stopper, stop: Option<(Duration, Duration)>) -> T {
    if let Some((after, grace)) = stop {
        sleep(after).await;
        stopper.drain(grace);
    }
    std::future::pending().await
}

/// How a run ends; one that does not is a deadlock.
pub async fn to_its_end(run: Run) -> Result<Summary, Error> {
    timeout(DEADLOCK, run.go()).await.expect("a deadlock: nothing more happens")
}

/// Options of a run over these servers.
pub fn options(servers: &Arc<InProcess>) -> Options {
    let transport: Arc<dyn Transport> = Arc::clone(servers) as Arc<dyn Transport>;
    Options::new(Some(transport))
}

/// The base URL of a simulated server.
pub fn url(index: usize) -> String {
    format!("http://sim-{index}.invalid")
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
    let complaints = settings.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
    Arc::new(InProcess::start(settings))
}

/// `count` rows of which about `empty` of 100 have no answer; each row is unlike all others.
pub fn rows(count: usize, empty: u64) -> Vec<String> {
    (0..count as u64)
        .map(|number| {
            let answer = if number % 100 < empty { String::new() } else { format!("Answer {number}.") };
            let question = question(number);
            format!(
                r#"{{"id": {number}, "big": 9007199254740993, "messages": [{{"role": "user", "content": "{question}"}}, {{"role": "assistant", "content": "{answer}"}}]}}"#
            )
        })
        .collect()
}

/// How often the servers were asked, probes left out.
pub fn asked(servers: &InProcess) -> u64 {
    asked_each(servers).values().map(|times| u64::from(*times)).sum()
}

/// How often the servers were asked for each row of [`rows`], by its id; rows they were not asked for are left out.
pub fn asked_each(servers: &InProcess) -> BTreeMap<u64, u32> {
    let mut attempts = servers.servers().ledger().attempts();
    // The question of a probe.
    attempts.remove(&prompt_hash([("user", "Hi")]));
    let mut each = BTreeMap::new();
    for id in 0.. {
        if attempts.is_empty() {
            break;
        }
        if let Some(times) = attempts.remove(&prompt_hash([("user", question(id).as_str())])) {
            each.insert(id, times);
        }
        assert!(id < 1_000_000, "the servers were asked what is in no row: {attempts:?}");
    }
    each
}

fn question(id: u64) -> String {
    format!("Question {id}?")
}

/// The seeds to try: `count` of them, or the one that `FOREBAY_SEED` names.
pub fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FOREBAY_SEED") {
        Ok(seed) => vec![seed.parse().expect("FOREBAY_SEED is a number")],
        Err(_) => (0..count).collect(),
    }
}

/// Says which seed was tried when a test fails.
pub struct Trying(pub u64);

impl Drop for Trying {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("FOREBAY_SEED={} replays this", self.0);
        }
    }
}

/// A small generator of test parameters (splitmix64, Steele et al. 2014): the same seed gives the same numbers.
pub struct Chance(pub u64);

impl Chance {
    /// The next number, evenly from all.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` up to, without, `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (self.next() >> 11) as f64 / (1u64 << 53) as f64 * (high - low)
    }

    /// A number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }
}
