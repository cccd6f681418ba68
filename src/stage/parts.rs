//! [`Parts`]: what a stage is built from besides its settings.

use super::Transform;
use crate::{
    edge::Route,
    fleet::{Fleet, Transport},
    journal::{Answers, RunDir},
    progress::Progress,
    record::{Door, Record, Rejection},
    stop::Stop,
};
use std::sync::Arc;

/// The working parts a stage may need, as apart from the settings a user writes.
#[derive(Clone)]
pub struct Parts {
    /// Where records enter, and their ends are counted.
    pub door: Door,
    /// The inference servers; `None` in a pipeline that asks none.
    pub fleet: Option<Arc<Fleet>>,
    /// How bytes get to a server and back.
    pub transport: Option<Arc<dyn Transport>>,
    /// The run's directory.
    pub run_dir: Arc<RunDir>,
    /// What servers have answered, this session and earlier ones; without it, nothing is journaled.
    pub answers: Option<Answers>,
    /// Whether the run is to stop.
    pub stop: Stop,
    /// What all randomness is derived from.
    pub seed: u64,
    /// How many records are read at most.
    pub limit: Option<u64>,
    /// What judges an answer before it leaves `dispatch`.
    pub judge: Judge,
    /// How much of the input has been read.
    pub progress: Arc<Progress>,
}

/// The transforms from `dispatch` to the next `validate` that asks for retries, run on a copy of each answer, so that
/// a bad one is asked again without a way back in the chain.
#[derive(Clone, Default)]
pub struct Judge {
    transforms: Vec<Arc<dyn Transform>>,
    retries: u32,
}

impl Judge {
    /// A judge made of the stages that follow `dispatch`, in their order, each with how often it asks again; those
    /// after the last one that does are left out.
    pub fn new(mut following: Vec<(Arc<dyn Transform>, u32)>) -> Self {
        let retries = following.iter().map(|(_, retries)| *retries).max().unwrap_or(0);
        while following.last().is_some_and(|(_, retries)| *retries == 0) {
            following.pop();
        }
        Judge { transforms: following.into_iter().map(|(transform, _)| transform).collect(), retries }
    }

    /// How often a bad answer is asked again.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Why a record would be set aside, if it would; `copy` must hold no promise ([`Record::copy`]).
    pub fn objection(&self, mut copy: Record) -> Option<Rejection> {
        for transform in &self.transforms {
            match transform.apply(copy) {
                Route::Pass(record) => copy = record,
                Route::Around(_) => return None,
                Route::Aside(_, rejection) => return Some(rejection),
            }
        }
        None
    }
}
