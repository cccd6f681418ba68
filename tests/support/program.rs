//! The program itself, run as people run it: a child process over simulated servers on loopback.

use super::Bench;
use forebay::sim::{HttpServers, SimSettings};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};
use tokio::time::timeout;

/// Longer than any of these runs takes on the slowest machine.
const FOR_EVER: Duration = Duration::from_secs(120);

/// What the program said, and its exit code.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program speaks UTF-8");
        let said = Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
        assert!(!said.err.contains("panicked"), "{}", said.err);
        said
    }
}

/// The program with these arguments.
pub fn forebay<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub async fn said(command: Command) -> Said {
    ended(start(command)).await
}

/// Starts a command, to be stopped half-way.
pub fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// Waits for a started command without holding up the servers in this process; kills one that never ends.
pub async fn ended(child: Child) -> Said {
    let pid = Pid::from_child(&child);
    let wait = tokio::task::spawn_blocking(move || child.wait_with_output().expect("it can be waited for"));
    match timeout(FOR_EVER, wait).await {
        Ok(output) => output.expect("it was waited for").into(),
        Err(_) => {
            kill_process(pid, Signal::KILL).expect("it is still there");
            panic!("the program never ends");
        }
    }
}

/// Simulated servers on free ports of this machine.
pub async fn servers(count: usize, change: impl FnOnce(&mut SimSettings)) -> HttpServers {
    let mut settings =
        SimSettings { servers: count, model: "demo".to_owned(), mean_tokens: 60.0, ..SimSettings::default() };
    change(&mut settings);
    HttpServers::start(settings, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.expect("there are free ports")
}

/// Writes the usual pipeline over the bench's folder and these servers; returns the file's path.
pub fn pipeline(bench: &Bench, servers: &[String], fleet: &str) -> String {
    let text = format!(
        r#"
name = "test"
run = "{run}"

[fleet]
model = "demo"
servers = {servers:?}
{fleet}

[[stage]]
kind = "read"
path = "{input}"

[[stage]]
kind = "filter"
keep = "empty_response"
others = "sink"

[[stage]]
kind = "template"
max_tokens = 4096

[[stage]]
kind = "dispatch"

[[stage]]
kind = "validate"

[[stage]]
kind = "sink"
path = "{out}"
format = "jsonl"
part_rows = 20
"#,
        run = bench.path("run"),
        input = bench.path("input.jsonl"),
        out = bench.path("out"),
    );
    let path = bench.path("pipeline.toml");
    fs::write(&path, text).expect("writes the pipeline file");
    path
}

/// `summary.json` of the bench's run.
pub fn summary(bench: &Bench) -> Value {
    let bytes = fs::read(bench.path("run/summary.json")).expect("a summary");
    serde_json::from_slice(&bytes).expect("it is JSON")
}

/// The files of a folder, with those in folders inside; the claim of a run on its output is none of them.
pub fn files(folder: impl AsRef<Path>) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(path)),
            path if path.ends_with(".forebay") => {}
            path => found.push(path),
        }
    }
    found
}

/// Waits until something is so: as long as it takes, but not for ever.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came about: {what}");
}
