//! How a plan becomes a run, and what a run says at its end.

mod advice;
mod alarm;
mod chain;
mod content;
mod plan;
mod summary;
mod wire;

pub use chain::{Fault, Place};
pub(crate) use chain::{Link, NAME_HELP, faults, is_name};
pub use plan::{DEFAULT_CAPACITY, Draft, DraftStage, Plan, PlannedStage};
pub use summary::{StageReport, Summary};
pub use wire::Watched;

use crate::{
    error::{Error, ErrorKind},
    fleet::{Fleet, Transport},
    journal::{Answers, Log, RunDir},
    progress::Progress,
    record::{Door, Tally},
    stage::{AsideWriter, Judge, Parts},
    stop::{Stop, Stopper},
    store,
};
use std::{sync::Arc, time::Duration};
use summary::Ends;
use tokio::time::Instant;

/// A run that is ready to start: everything that can be wrong before the first request has been looked at.
pub struct Run {
    name: String,
    chain: wire::Chain,
    aside: AsideWriter,
    log: Log,
    view: Arc<View>,
    run_dir: Arc<RunDir>,
    stopper: Stopper,
    simulated: bool,
}

/// What a run needs besides its plan.
pub struct Options {
    /// How bytes get to the servers and back; needed by a pipeline with a fleet.
    pub transport: Option<Arc<dyn Transport>>,
    /// Rows to read at most.
    pub limit: Option<u64>,
    /// Stops the run.
    pub stopper: Stopper,
    /// What stages look at to see that it is stopping.
    pub stop: Stop,
}

/// A run as it goes, for whoever watches: counters to read, never to change.
pub struct View {
    /// Each stage, in order.
    pub stages: Vec<Watched>,
    /// The servers, if there are any.
    pub fleet: Option<Arc<Fleet>>,
    /// How much of the input has been read.
    pub progress: Arc<Progress>,
    door: Door,
    earlier: u64,
    started: Instant,
}

impl Options {
    /// A run that reads everything and that nobody stops.
    pub fn new(transport: Option<Arc<dyn Transport>>) -> Options {
        let (stopper, stop) = Stopper::new();
        Options { transport, limit: None, stopper, stop }
    }
}

impl Run {
    /// Opens the run's directory and builds the chain.
    ///
    /// # Errors
    /// `FixStore` if the directory cannot be used, `FixPipeline` if a stage cannot be built.
    pub async fn prepare(plan: Plan, options: Options) -> Result<Run, Error> {
        let run_dir = Arc::new(RunDir::open(store::Place::parse(&plan.run)?).await?);
        same_content(&run_dir, &plan).await?;
        let (answers, log) = Answers::open(&run_dir).await?;
        let fleet = plan.fleet.clone().map(|settings| Arc::new(Fleet::new(settings)));
        let door = Door::new(plan.memory);
        let progress = Arc::new(Progress::default());
        let parts = Parts {
            door: door.clone(),
            fleet: fleet.clone(),
            transport: options.transport,
            run_dir: Arc::clone(&run_dir),
            answers: Some(answers),
            stop: options.stop,
            seed: plan.seed,
            limit: options.limit,
            judge: Judge::default(),
            progress: Arc::clone(&progress),
        };
        let name = plan.name.clone();
        let simulated = plan.fleet.as_ref().is_some_and(|fleet| fleet.simulated.is_some());
        let (chain, stages) = wire::wire(plan, parts)?;
        let earlier = run_dir.done().len();
        let view = View { stages, fleet, progress, door, earlier, started: Instant::now() };
        let aside = AsideWriter::new(Arc::clone(&run_dir));
        Ok(Run { name, chain, aside, log, view: Arc::new(view), run_dir, stopper: options.stopper, simulated })
    }

    /// What can be watched while it runs.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view)
    }

    /// Runs to the end, and writes `summary.json`.
    ///
    /// # Errors
    /// Why the run could not go on. What was committed until then stays, and the same run can be resumed.
    pub async fn go(self) -> Result<Summary, Error> {
        let stopper = self.stopper.clone();
        let failed = self.chain.run(self.aside, self.log, || stopper.drain(Duration::ZERO)).await.err();
        let tally = self.view.door.tally();
        let ends = Ends::sum(self.run_dir.earlier_ends(), &tally);
        let summary = summarise(self.name, self.simulated, &self.view, ends, &tally, failed.is_none());
        let json = serde_json::to_vec_pretty(&summary)
            .map_err(|error| Error::new(ErrorKind::Bug, "the summary could not be encoded").because(error))?;
        let written = self.run_dir.place().join("summary.json").write(json).await;
        match failed {
            Some(error) => Err(error),
            None if tally.untold > 0 => Err(vanished(&tally)),
            None => written.map(|()| summary),
        }
    }
}

/// Writes down what a new run is, and holds a run that is taken up against it.
async fn same_content(run_dir: &RunDir, plan: &Plan) -> Result<(), Error> {
    let file = run_dir.place().join("plan.json");
    let new = content::content(plan);
    if !run_dir.done().is_empty()
        && let Some(old) = file.read().await?
    {
        let old = serde_json::from_slice(&old).map_err(|error| {
            Error::new(ErrorKind::FixStore, format!("{file} is damaged: restore it, or start a new run")).because(error)
        })?;
        let changes = content::changes(&old, &new);
        if changes.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the run in {} was begun with other settings, and its rows would be mixed with new ones:\n  {}\n\
             restore them, or begin a new run with --run",
            run_dir.place(),
            changes.join("\n  ")
        );
        return Err(Error::new(ErrorKind::FixPipeline, message));
    }
    let json = serde_json::to_vec_pretty(&new)
        .map_err(|error| Error::new(ErrorKind::Bug, "the plan could not be encoded").because(error))?;
    file.write(json).await
}

fn summarise(name: String, simulated: bool, view: &View, ends: Ends, tally: &Tally, whole: bool) -> Summary {
    let totals = view.fleet.as_ref().map(|fleet| fleet.totals()).unwrap_or_default();
    // After a failure, records can be dropped where they stand; without one, that is a bug (see `vanished`).
    let remaining = ends.remaining + tally.untold;
    let last = view.stages.len().saturating_sub(1);
    Summary {
        name,
        simulated,
        rows_in: ends.rows_in() + tally.untold,
        accepted: ends.accepted,
        forwarded: ends.forwarded,
        rejected: ends.rejected,
        failed: ends.failed,
        remaining,
        bad_input: ends.bad_input,
        requests: totals.requests,
        retries: totals.retries,
        recovered: totals.recovered,
        prompt_tokens: totals.usage.prompt_tokens,
        completion_tokens: totals.usage.completion_tokens,
        reasoning_tokens: totals.usage.reasoning_tokens,
        seconds: view.started.elapsed().as_secs_f64(),
        servers: view.fleet.as_ref().map(|fleet| fleet.report()).unwrap_or_default(),
        stages: view
            .stages
            .iter()
            .enumerate()
            .map(|(index, stage)| StageReport::new(&stage.name, &stage.account, stage.workers, index == last))
            .collect(),
        complete: whole && remaining == 0 && view.progress.ended(),
    }
}

fn vanished(tally: &Tally) -> Error {
    let named: Vec<_> = tally.untold_ids.iter().map(ToString::to_string).collect();
    Error::new(ErrorKind::Bug, format!("{} rows vanished, among them {}", tally.untold, named.join(", ")))
}

impl View {
    /// How many records came to which end in this session.
    pub fn tally(&self) -> Tally {
        self.door.tally()
    }

    /// How many records earlier sessions have done.
    pub fn earlier(&self) -> u64 {
        self.earlier
    }

    /// How long this session has run.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
