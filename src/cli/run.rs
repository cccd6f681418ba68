//! `forebay run`: runs a pipeline, or takes up one that was stopped.

use super::{
    RESUMABLE,
    file::{FileArgs, print_diagnostics},
    note, print, progress,
};
use crate::{
    error::{Error, ErrorKind},
    fleet::{FleetSettings, HttpTransport, Transport},
    pipeline::{Options, Plan, Run, Summary},
    setting,
    sim::{HttpServers, SimSettings},
    stage::Kinds,
    stop::Stopper,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::{StreamExt, wrappers::SignalStream};

/// Run a pipeline. The same command takes up a run that was stopped or killed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  forebay run pipelines/regenerate.toml --set stage.template.max_tokens=8192 --limit 1000"
)]
pub struct Args {
    #[command(flatten)]
    file: FileArgs,
    /// Read at most this many rows.
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
    /// The run's directory, instead of the file's `run`.
    #[arg(long, value_name = "DIR")]
    run: Option<String>,
    /// After a first Ctrl-C or SIGTERM, how long requests under way may take to finish.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    grace: setting::Duration,
    /// Print no progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the command.
pub async fn run(args: Args, kinds: &Kinds) -> Result<ExitCode, Error> {
    let mut plan = match args.file.load(kinds)? {
        Ok(plan) => plan,
        Err(diagnostics) => {
            print_diagnostics(&diagnostics);
            return Ok(ExitCode::from(2));
        }
    };
    if let Some(run) = args.run {
        plan.run = run;
    }
    // Kept until the end: dropping it stops the simulated servers.
    let simulated = start_simulated(&mut plan).await?;
    let transport = plan.fleet.as_ref().map(transport).transpose()?;
    let mut options = Options::new(transport);
    options.limit = args.limit;
    let stopper = options.stopper.clone();
    make_room_for_files(plan.fleet.as_ref());
    let run_dir = plan.run.clone();
    let run = Run::prepare(plan, options).await?;
    if run.view().earlier() > 0 {
        tracing::info!("taking up the run in {run_dir}: {} rows are done", run.view().earlier());
    }
    let mut signals = tokio::task::JoinSet::new();
    signals.spawn(stop_on_signals(stopper, args.grace.0));
    let shown = (!args.quiet).then(|| progress::show(run.view()));
    let ended = run.go().await;
    if let Some(shown) = shown {
        shown.end().await;
    }
    drop(simulated);
    let summary = ended?;
    print(&table(&summary, &run_dir))?;
    Ok(if summary.complete { ExitCode::SUCCESS } else { ExitCode::from(RESUMABLE) })
}

/// How the servers of `fleet` are reached, with the key it names.
pub(super) fn transport(fleet: &FleetSettings) -> Result<Arc<dyn Transport>, Error> {
    let key = fleet.api_key.as_ref().map(|key| key.read()).transpose();
    let key = key.map_err(|why| Error::new(ErrorKind::FixPipeline, format!("fleet.api_key: {why}")))?;
    let http = HttpTransport::new(fleet.connect_timeout.0, fleet.idle_timeout.0, key.as_ref())?;
    Ok(Arc::new(http))
}

/// First signal: nothing new is sent, what flies may land. Second: stop now; what has landed is still committed.
async fn stop_on_signals(stopper: Stopper, grace: Duration) {
    let (Ok(interrupt), Ok(terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
        return tracing::warn!("signals cannot be caught: stopping this process will look like a crash");
    };
    let mut signals = SignalStream::new(interrupt).merge(SignalStream::new(terminate));
    let mut graces = [grace].into_iter();
    while let Some(()) = signals.next().await {
        let grace = graces.next().unwrap_or_default();
        if grace.is_zero() {
            tracing::warn!("stopping now");
        } else {
            let grace = humantime::format_duration(grace);
            tracing::warn!("stopping: requests under way have {grace} to finish; once more to stop now");
        }
        stopper.drain(grace);
    }
}

/// Starts the servers that `[fleet] simulated` describes, and puts their URLs into the plan.
async fn start_simulated(plan: &mut Plan) -> Result<Option<HttpServers>, Error> {
    let Some(fleet) = &mut plan.fleet else { return Ok(None) };
    let Some(settings) = &fleet.simulated else { return Ok(None) };
    let settings = SimSettings { model: fleet.model.clone(), ..settings.clone() };
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let servers = HttpServers::start(settings, any_port).await.map_err(|error| {
        Error::new(ErrorKind::FixMachine, "cannot start simulated servers on this machine").because(error)
    })?;
    fleet.servers = servers.urls();
    note(&format!("SIMULATED: {} servers in this process; no answer comes from a model", fleet.servers.len()));
    Ok(Some(servers))
}

/// Descriptors a run needs besides its connections: inputs, parts, the runtime's own.
const RESERVED_FILES: u64 = 64;

/// Raises the soft limit of open files to what the fleet can need.
fn make_room_for_files(fleet: Option<&FleetSettings>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Some(fleet) = fleet else { return };
    let needed = fleet.urls().len() as u64 * u64::from(fleet.concurrency.get()) + RESERVED_FILES;
    let limits = getrlimit(Resource::Nofile);
    if limits.current.is_none_or(|current| current >= needed) {
        return;
    }
    let raised = limits.maximum.map_or(needed, |maximum| maximum.min(needed));
    let set = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limits.maximum });
    if set.is_err() || raised < needed {
        tracing::warn!(
            "{needed} files may be open at once, but the limit is {raised}: lower `fleet.concurrency`, or raise `ulimit -n`"
        );
    }
}

/// The table at the end of a run.
fn table(summary: &Summary, run_dir: &str) -> String {
    let mut lines = Vec::new();
    if summary.simulated {
        lines.push("SIMULATED: no answer comes from a model".to_owned());
    }
    let heading = if summary.complete { "complete" } else { "stopped; the same command takes it up again" };
    lines.push(format!("{}: {heading}, after {:.1} s", summary.name, summary.seconds));
    lines.push(format!("  {:>10} rows in", summary.rows_in));
    lines.push(format!("  {:>10} accepted", summary.accepted));
    lines.push(format!("  {:>10} forwarded (they had an answer)", summary.forwarded));
    for (heading, reasons) in
        [("rejected", &summary.rejected), ("failed", &summary.failed), ("unreadable", &summary.bad_input)]
    {
        for (reason, count) in reasons {
            lines.push(format!("  {count:>10} {heading}: {reason}"));
        }
    }
    if summary.remaining > 0 {
        lines.push(format!("  {:>10} remaining", summary.remaining));
    }
    if !summary.servers.is_empty() {
        lines.push(format!("{} requests, {} of them again", summary.requests, summary.retries));
        lines.push(format!(
            "  {:<34} {:>9} {:>9} {:>12} {:>9}  state",
            "server", "requests", "accepted", "tokens", "tokens/s"
        ));
        for server in &summary.servers {
            let tokens = server.completion_tokens.map_or("-".to_owned(), |tokens| tokens.to_string());
            let speed = server.tokens_per_second.map_or("-".to_owned(), |speed| format!("{speed:.0}"));
            lines.push(format!(
                "  {:<34} {:>9} {:>9} {tokens:>12} {speed:>9}  {}",
                server.url, server.requests, server.accepted, server.state
            ));
        }
    }
    lines.push(format!(
        "  {:<16} {:>9} {:>9} {:>8} {:>11} {:>12} {:>11}",
        "stage", "in", "out", "aside", "at work, s", "no input, s", "no room, s"
    ));
    for stage in &summary.stages {
        lines.push(format!(
            "  {:<16} {:>9} {:>9} {:>8} {:>11.1} {:>12.1} {:>11.1}",
            stage.name,
            stage.taken,
            stage.out,
            stage.aside,
            stage.busy_s,
            stage.waited_for_input_s,
            stage.waited_for_room_s
        ));
    }
    if let Some(name) = summary.bottleneck() {
        lines.push(format!("the others waited for `{name}`"));
    }
    lines.push(format!("set aside: {run_dir}/aside; in numbers: {run_dir}/summary.json"));
    lines.push(String::new());
    lines.join("\n")
}
