//! The keys of the file itself, and those that every stage has.

use crate::pipeline::{DEFAULT_CAPACITY, NAME_HELP, is_name};
use crate::record::DEFAULT_ROOM;
use crate::setting::{Complaints, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// What a pipeline file says about the pipeline as a whole, before its fleet and its stages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    /// What the pipeline is called: in its run's directory, its logs and its report.
    pub(super) name: String,

    /// The directory of the run, local or in an object store (`s3://bucket/runs/x`): its journal, what was set
    /// aside, and its report. The same command resumes what it finds there. By default `runs/` and the name.
    #[serde(default)]
    pub(super) run: Option<String>,

    /// What all randomness (samples, seeds sent to servers) is derived from.
    #[serde(default)]
    pub(super) seed: u64,

    /// How many bytes of rows may be in flight at once. It bounds the memory of the whole run.
    #[serde(default = "memory")]
    #[schemars(extend("x-content" = false))]
    pub(super) memory: Size,
}

/// What every stage has besides `kind`, which says what it does and what other keys it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Common {
    /// What the stage is called, if its kind is not name enough: two stages of one kind need names.
    #[serde(default)]
    pub(super) name: Option<String>,

    /// How many tasks share the work of a stage that looks at one record at a time. Others ignore it.
    #[serde(default = "workers")]
    #[schemars(range(min = 1, max = 1024), extend("x-content" = false))]
    pub(super) workers: NonZeroU32,

    /// How many records may wait between this stage and the next.
    #[serde(default = "capacity")]
    #[schemars(range(min = 1, max = 65536), extend("x-content" = false))]
    pub(super) capacity: NonZeroU32,
}

/// The keys of the file itself.
pub(super) const HEAD: &[&str] = &["name", "run", "seed", "memory", "fleet", "stage", "test"];

/// The names of the fields of [`Common`].
pub(super) const COMMON: &[&str] = &["name", "workers", "capacity"];

fn memory() -> Size {
    Size(u64::from(DEFAULT_ROOM))
}

fn workers() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn capacity() -> NonZeroU32 {
    u32::try_from(DEFAULT_CAPACITY).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
}

impl Head {
    /// Says everything that is wrong with the values, beyond their types.
    pub(super) fn check(&self, say: &mut Complaints) {
        if !is_name(&self.name) {
            say.about("name", format!("a pipeline cannot be called `{}`: {NAME_HELP}", self.name));
        }
        if self.run.as_ref().is_some_and(|run| run.trim().is_empty()) {
            say.about("run", "`run` is empty: name a directory");
        }
        if self.memory_bytes().is_none() {
            say.about("memory", format!("`memory` must be from 1MiB to 4095MiB, not {}", self.memory));
        }
    }

    /// The room for rows, if it is one that can be given.
    pub(super) fn memory_bytes(&self) -> Option<u32> {
        u32::try_from(self.memory.0).ok().filter(|bytes| *bytes >= 1 << 20)
    }
}
