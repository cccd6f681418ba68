//! [`Plan`]: a checked pipeline, made from a file by `config` or by hand in code; and [`Draft`], what it is made of.

use super::chain::{Fault, Link, faults};
use crate::{
    fleet::FleetSettings,
    record::DEFAULT_ROOM,
    stage::{AnySettings, Kind, Settings},
};
use std::fmt;

/// A pipeline that has been checked: everything in it fits together.
#[derive(Debug)]
pub struct Plan {
    /// What it is called.
    pub name: String,
    /// The run's directory: a local path or a URL of an object store.
    pub run: String,
    /// What all randomness is derived from.
    pub seed: u64,
    /// How many bytes of rows may be in flight.
    pub memory: u32,
    /// The inference servers, if any are asked.
    pub fleet: Option<FleetSettings>,
    /// The chain, from `read` to `sink`.
    pub stages: Vec<PlannedStage>,
    /// How many answers its file has tried on the stages that judge, all with what was expected.
    pub tests: usize,
}

/// One stage of a [`Plan`].
pub struct PlannedStage {
    /// Its name, unlike any other in the plan.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// How many tasks share its work, if it is a transform.
    pub workers: usize,
    /// How many records the edge behind it holds.
    pub capacity: usize,
    /// The stage (by number, from 0) that records which go round join at.
    pub around: Option<usize>,
    /// What it is built from.
    pub settings: Box<dyn AnySettings>,
}

/// A pipeline that has not been checked.
#[derive(Debug)]
pub struct Draft {
    /// What it is called.
    pub name: String,
    /// The run's directory.
    pub run: String,
    /// What all randomness is derived from.
    pub seed: u64,
    /// How many bytes of rows may be in flight.
    pub memory: u32,
    /// The inference servers, if any are asked.
    pub fleet: Option<FleetSettings>,
    /// The chain, from `read` to `sink`.
    pub stages: Vec<DraftStage>,
}

/// One stage of a [`Draft`].
pub struct DraftStage {
    /// The name, if it is not to be that of its kind.
    pub name: Option<String>,
    /// Its kind.
    pub kind: Kind,
    /// How many tasks share its work, if it is a transform.
    pub workers: usize,
    /// How many records the edge behind it holds.
    pub capacity: usize,
    /// What it is built from.
    pub settings: Box<dyn AnySettings>,
}

/// How many records an edge holds unless the file says otherwise: enough to bridge a hiccup of either side. Memory
/// is bounded elsewhere, in bytes.
pub const DEFAULT_CAPACITY: usize = 64;

impl Plan {
    /// An empty draft: its run is kept in `runs/NAME`, its seed is 0.
    pub fn draft(name: impl Into<String>) -> Draft {
        let name = name.into();
        let run = format!("runs/{name}");
        Draft { name, run, seed: 0, memory: DEFAULT_ROOM, fleet: None, stages: Vec::new() }
    }
}

impl Draft {
    /// The same with one more stage at its end.
    #[must_use]
    pub fn stage<S: Settings + Send>(self, settings: S) -> Self {
        self.push(DraftStage::new(settings))
    }

    /// The same with one more stage at its end, which may have a name, workers and a capacity of its own.
    #[must_use]
    pub fn push(mut self, stage: DraftStage) -> Self {
        self.stages.push(stage);
        self
    }

    /// The same with a fleet.
    #[must_use]
    pub fn fleet(mut self, fleet: FleetSettings) -> Self {
        self.fleet = Some(fleet);
        self
    }

    /// The same with its run kept in this directory.
    #[must_use]
    pub fn run(mut self, directory: impl Into<String>) -> Self {
        self.run = directory.into();
        self
    }

    /// The plan, or everything that is wrong with the chain. The values in its settings are not looked at.
    pub fn check(self) -> Result<Plan, Vec<Fault>> {
        let links: Vec<Link<'_>> = self.stages.iter().map(DraftStage::link).collect();
        let faults = faults(&links, self.fleet.is_some());
        if !faults.is_empty() {
            return Err(faults);
        }
        let number = |name: &str| links.iter().position(|link| link.name() == Some(name));
        let around: Vec<Option<usize>> = links.iter().map(|link| link.around.and_then(number)).collect();
        let stages = self.stages.into_iter().zip(around).map(|(stage, around)| stage.planned(around)).collect();
        let Draft { name, run, seed, memory, fleet, .. } = self;
        Ok(Plan { name, run, seed, memory, fleet, stages, tests: 0 })
    }
}

impl DraftStage {
    /// A stage named after its kind, with one worker.
    pub fn new<S: Settings + Send>(settings: S) -> Self {
        let settings = Box::new(settings);
        DraftStage { name: None, kind: Kind::of::<S>(), workers: 1, capacity: DEFAULT_CAPACITY, settings }
    }

    /// What the chain needs to know of it.
    pub(crate) fn link(&self) -> Link<'_> {
        Link {
            name: self.name.as_deref(),
            kind: Some(&self.kind),
            around: self.settings.around(),
            retries: self.settings.retries(),
        }
    }

    fn planned(self, around: Option<usize>) -> PlannedStage {
        let DraftStage { name, kind, workers, capacity, settings } = self;
        let name = name.unwrap_or_else(|| kind.name.to_owned());
        PlannedStage { name, kind, workers, capacity, around, settings }
    }
}

impl fmt::Debug for PlannedStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedStage")
            .field("name", &self.name)
            .field("kind", &self.kind.name)
            .field("workers", &self.workers)
            .field("capacity", &self.capacity)
            .field("around", &self.around)
            .field("settings", &self.settings.to_json())
            .finish()
    }
}

impl fmt::Debug for DraftStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DraftStage").field("name", &self.name).field("kind", &self.kind.name).finish_non_exhaustive()
    }
}
