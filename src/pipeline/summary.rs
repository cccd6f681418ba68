//! [`Summary`]: what a run says at its end. Its JSON form is `summary.json`, which scripts read.

use crate::{
    edge::Account,
    fleet::ServerReport,
    record::{End, Reason, Tally},
};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// What a run says at its end.
///
/// `rows_in = accepted + forwarded + rejected + failed + remaining`, with lines that could not be read counted apart.
/// Counts of rows are those of the whole run, earlier sessions included; requests, tokens and times are this session's.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The pipeline's name.
    pub name: String,
    /// True if the servers were simulated: then no answer comes from a model.
    pub simulated: bool,
    /// Rows that entered.
    pub rows_in: u64,
    /// Rows in the output with an accepted answer.
    pub accepted: u64,
    /// Rows in the output as they were read.
    pub forwarded: u64,
    /// Rows set aside for what they or their answers are.
    pub rejected: BTreeMap<Reason, u64>,
    /// Rows set aside because no server could answer them.
    pub failed: BTreeMap<Reason, u64>,
    /// Rows that were read and not done: the run stopped first.
    pub remaining: u64,
    /// Input lines that could not be read.
    pub bad_input: BTreeMap<Reason, u64>,
    /// Requests sent, without probes.
    pub requests: u64,
    /// Requests that asked for a record again.
    pub retries: u64,
    /// Rows that were not asked: an earlier session was killed after their answers had come, and kept them.
    pub recovered: u64,
    /// Tokens of prompts, as the servers say; null if none said.
    pub prompt_tokens: Option<u64>,
    /// Tokens made, also for answers that were not accepted; null if no server said.
    pub completion_tokens: Option<u64>,
    /// Tokens of thoughts among them; null if no server said.
    pub reasoning_tokens: Option<u64>,
    /// How long this session took.
    pub seconds: f64,
    /// Each server, as the client saw it.
    pub servers: Vec<ServerReport>,
    /// Each stage: what it took and gave, and what it waited for.
    pub stages: Vec<StageReport>,
    /// Whether everything that was asked for is done.
    pub complete: bool,
}

impl Summary {
    /// The stage that held the others back: the one that was at work the longest, neither waiting for input nor for
    /// room. `None` if every stage waited most of the time.
    pub fn bottleneck(&self) -> Option<&str> {
        let busiest = self.stages.iter().max_by(|a, b| a.busy_s.total_cmp(&b.busy_s))?;
        (busiest.busy_s > self.seconds / 2.0).then_some(busiest.name.as_str())
    }
}

/// One stage in the summary.
#[derive(Debug, Clone, Serialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// Records it took.
    #[serde(rename = "in")]
    pub taken: u64,
    /// Records it gave on, to the next stage or round it.
    pub out: u64,
    /// Records it set aside.
    pub aside: u64,
    /// How long it was at work: it ran, and waited for neither, per worker.
    pub busy_s: f64,
    /// How long it had nothing to take, per worker.
    pub waited_for_input_s: f64,
    /// How long it had nowhere to put what it had done, per worker.
    pub waited_for_room_s: f64,
}

impl StageReport {
    /// What `account` says of the stage `name` with so many workers. A stage without an outlet of its own (the sink)
    /// gives what it takes and does not set aside.
    pub fn new(name: &str, account: &Account, workers: usize, last: bool) -> StageReport {
        let per_worker = |waited: Duration| waited.as_secs_f64() / workers.max(1) as f64;
        let out = if last { account.taken() - account.aside() } else { account.passed() + account.around() };
        let waited = per_worker(account.waited_for_input() + account.waited_for_room());
        StageReport {
            busy_s: (account.ran_for().as_secs_f64() - waited).max(0.0),
            name: name.to_owned(),
            taken: account.taken(),
            out,
            aside: account.aside(),
            waited_for_input_s: per_worker(account.waited_for_input()),
            waited_for_room_s: per_worker(account.waited_for_room()),
        }
    }
}

/// Ends counted by heading: what the row counts of a summary are made of.
#[derive(Debug, Default)]
pub(super) struct Ends {
    pub(super) accepted: u64,
    pub(super) forwarded: u64,
    pub(super) rejected: BTreeMap<Reason, u64>,
    pub(super) failed: BTreeMap<Reason, u64>,
    pub(super) bad_input: BTreeMap<Reason, u64>,
    pub(super) remaining: u64,
}

impl Ends {
    /// The ends of earlier sessions and of this one together.
    pub(super) fn sum(earlier: &BTreeMap<End, u64>, tally: &Tally) -> Ends {
        let mut sum = Ends::default();
        for (end, count) in earlier.iter().chain(&tally.ends) {
            match *end {
                End::Accepted => sum.accepted += count,
                End::Forwarded => sum.forwarded += count,
                End::Rejected(reason) => *sum.rejected.entry(reason).or_default() += count,
                End::Failed(reason) => *sum.failed.entry(reason).or_default() += count,
                End::BadInput(reason) => *sum.bad_input.entry(reason).or_default() += count,
                End::Remaining => sum.remaining += count,
            }
        }
        sum
    }

    /// Rows that entered: all but lines that could not be read.
    pub(super) fn rows_in(&self) -> u64 {
        let rejected: u64 = self.rejected.values().sum();
        let failed: u64 = self.failed.values().sum();
        self.accepted + self.forwarded + rejected + failed + self.remaining
    }
}
