//! Plan -> edges and tasks. The only file that sees two stages at once.

use super::{
    alarm::Alarm,
    plan::{Plan, PlannedStage},
};
use crate::{
    edge::{self, Account, AsideInlet, Inlet, Outlet, Sender},
    error::{Error, ErrorKind},
    journal::Log,
    progress::Progress,
    stage::{AsideWriter, Built, Ended, Judge, Knowledge, Parts, Stage, Workers},
    stop::Stop,
};
use std::{collections::HashMap, pin::pin, sync::Arc};
use tokio::{
    task::{Id, JoinSet},
    time::Instant,
};

/// A chain that is ready to run.
pub(super) struct Chain {
    stages: Vec<Link>,
    rejected: AsideInlet,
    alarm: Option<Alarm>,
}

/// One stage with its two ends.
struct Link {
    name: String,
    stage: Box<dyn Stage>,
    inlet: Inlet,
    outlet: Outlet,
    account: Arc<Account>,
}

/// The account of one stage, for whoever watches.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The stage's name.
    pub name: String,
    /// How many workers share its work.
    pub workers: usize,
    /// What it took, gave and waited for.
    pub account: Arc<Account>,
}

/// Rejected records that may wait for the aside writer.
const ASIDE_CAPACITY: usize = 64;

/// Builds every stage of `plan` and joins them.
pub(super) fn wire(plan: Plan, mut parts: Parts) -> Result<(Chain, Vec<Watched>), Error> {
    let judged = judged(&plan.stages);
    let (progress, stop) = (Arc::clone(&parts.progress), parts.stop.clone());
    // From the last to the first, since `dispatch` holds the transforms after it as its judge.
    let mut built = Vec::new();
    let mut following = Vec::new();
    for stage in plan.stages.into_iter().rev() {
        parts.judge = Judge::new(following.iter().rev().cloned().collect());
        let retries = stage.settings.retries();
        let made = stage.settings.build(&parts)?;
        match &made {
            Built::Transform(transform) => following.push((Arc::clone(transform), retries)),
            Built::Stage(_) => following.clear(),
        }
        built.push((stage.name, stage.workers, stage.capacity, stage.around, made));
    }
    built.reverse();

    let (aside, rejected) = edge::aside_edge(ASIDE_CAPACITY);
    let mut ends: Vec<_> = built.iter().map(|(_, _, capacity, _, _)| edge::edge(*capacity)).collect();
    // The edge into stage n; the last outlet leads nowhere, and is never used.
    let into: Vec<Sender> = ends.iter().map(|(sender, _)| sender.clone()).collect();
    let mut inlets: Vec<_> = ends.drain(..).map(|(_, receiver)| receiver).collect();
    inlets.reverse();

    let (mut stages, mut watched) = (Vec::new(), Vec::new());
    for (index, (name, workers, _, around, made)) in built.into_iter().enumerate() {
        let account = Arc::new(Account::default());
        let Some(receiver) = inlets.pop() else { continue };
        let inlet = if index == 0 { Inlet::empty() } else { Inlet::new(receiver, Arc::clone(&account)) };
        let pass = into.get(index + 1).cloned().unwrap_or_else(|| edge::edge(1).0);
        let around = around.and_then(|target| into.get(target).cloned());
        let outlet = Outlet::new(pass, around, aside.clone(), Arc::clone(&account));
        let stage: Box<dyn Stage> = match made {
            Built::Transform(transform) => Box::new(Workers::new(transform, workers)),
            Built::Stage(stage) => stage,
        };
        watched.push(Watched { name: name.clone(), workers, account: Arc::clone(&account) });
        stages.push(Link { name, stage, inlet, outlet, account });
    }
    let alarm = judged.and_then(|judged| judged.alarm(&watched, progress, stop));
    Ok((Chain { stages, rejected, alarm }, watched))
}

/// The stages between which answers are judged, by number, and the share of bad ones that is borne.
struct Judged {
    asks: usize,
    last: usize,
    most: f64,
}

/// Where answers are judged, if a stage says how many may be bad.
fn judged(stages: &[PlannedStage]) -> Option<Judged> {
    let asks = stages.iter().rposition(|stage| stage.kind.gives.contains(&Knowledge::Completion))?;
    let last = stages.iter().rposition(|stage| stage.kind.gives.contains(&Knowledge::Verdict))?;
    let shares = stages.iter().skip(asks).filter_map(|stage| stage.settings.most_rejected());
    let most = shares.min_by(f64::total_cmp)?;
    Some(Judged { asks, last, most })
}

impl Judged {
    fn alarm(&self, watched: &[Watched], progress: Arc<Progress>, stop: Stop) -> Option<Alarm> {
        let asks = Arc::clone(&watched.get(self.asks)?.account);
        let judge = watched.get(self.asks + 1..=self.last)?;
        let judge = judge.iter().map(|one| Arc::clone(&one.account)).collect();
        Some(Alarm::new(asks, judge, progress, stop, self.most))
    }
}

impl Chain {
    /// Runs every stage as a task until all have ended. The first failure, or the alarm about bad answers, is the one that is returned; `on_failure`
    /// is called when it happens, so that the rest can be told to stop.
    pub(super) async fn run(self, aside: AsideWriter, log: Log, on_failure: impl Fn()) -> Result<(), Error> {
        let mut tasks = JoinSet::new();
        let mut names: HashMap<Id, String> = HashMap::new();
        for Link { name, stage, inlet, outlet, account } in self.stages {
            let handle = tasks.spawn(async move {
                let started = Instant::now();
                let ended = stage.run(inlet, outlet).await;
                account.ran(started.elapsed());
                ended
            });
            names.insert(handle.id(), name);
        }
        let rejected = self.rejected;
        let handle =
            tasks.spawn(async move { aside.run(rejected).await.map_or_else(Ended::Failed, |()| Ended::Drained) });
        names.insert(handle.id(), "aside".to_owned());
        let handle = tasks.spawn(async move { log.run().await.map_or_else(Ended::Failed, |()| Ended::Drained) });
        names.insert(handle.id(), "journal".to_owned());

        let alarm = self.alarm;
        let mut alarm = pin!(async {
            match alarm {
                Some(alarm) => alarm.sounds().await,
                None => std::future::pending().await,
            }
        });
        let mut first: Option<Error> = None;
        loop {
            let joined = tokio::select! {
                joined = tasks.join_next_with_id() => joined,
                error = &mut alarm, if first.is_none() => {
                    on_failure();
                    first = Some(error);
                    continue;
                }
            };
            let failure = match joined {
                None => break,
                Some(Ok((_, Ended::Drained | Ended::DownstreamClosed))) => continue,
                Some(Ok((_, Ended::Failed(error)))) => error,
                Some(Err(error)) => {
                    let name = names.get(&error.id()).map_or("a stage", String::as_str);
                    Error::new(ErrorKind::Bug, format!("the stage `{name}` panicked")).because(error)
                }
            };
            if first.is_none() {
                on_failure();
                first = Some(failure);
            }
        }
        first.map_or(Ok(()), Err)
    }
}
