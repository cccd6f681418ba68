//! What flows: one row of the dataset, and what the stages have learnt about it.

mod answer;
mod chat;
mod reason;
pub mod thought;
mod ticket;

pub use answer::{Attempt, Completion, Finish, Request, Thinking, Usage};
pub use chat::{Chat, Layout, Message, Role, Shape};
pub use reason::{Family, Reason, Rejection};
pub use ticket::{DEFAULT_ROOM, Door, End, Tally, Ticket};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// One row on its way through the pipeline.
///
/// A stage fills in what it learns and never takes away what an earlier one said. Rows are plain data except
/// for the [`Ticket`], which ties the record to the run it is part of.
#[derive(Debug)]
pub struct Record {
    /// Where the row came from; its identity for the whole run.
    pub id: RecordId,
    /// The row exactly as it was read.
    pub row: Bytes,
    /// How its dataset writes conversations.
    pub layout: Arc<Layout>,
    /// What the model is to see, once a `template` stage has read the row.
    pub chat: Option<Arc<Chat>>,
    /// What is to be asked of a server.
    pub request: Option<Arc<Request>>,
    /// What servers have answered, in order; the last one holds the completion that counts.
    pub attempts: Vec<Attempt>,
    /// What validation said; `None` until it has spoken.
    pub verdict: Option<Verdict>,
    /// True if the record went round the stages that would have answered it.
    pub forwarded: bool,
    /// Room in memory, and the promise that this record's end is told.
    pub ticket: Ticket,
}

/// Where a row stands in its input: the identity of a record, and a check that the row is still the same.
///
/// The user's own `id` field is never used for identity: it may be missing, doubled, or of mixed type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordId {
    /// The input file, as the pipeline file's `path` led to it.
    pub input: Arc<str>,
    /// Position in that file, from 1: the line number, or the element's number in a JSON array.
    pub row: u64,
    /// XXH3 (64 bit) of the row's bytes: the same position with other content is another record.
    pub hash: u64,
}

/// What validation says of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The answer may go into the dataset.
    Accept,
    /// It may not, and why.
    Reject(Rejection),
}

impl Record {
    /// A record fresh from its input.
    pub fn new(id: RecordId, row: Bytes, layout: Arc<Layout>, ticket: Ticket) -> Self {
        Record {
            id,
            row,
            layout,
            chat: None,
            request: None,
            attempts: Vec::new(),
            verdict: None,
            forwarded: false,
            ticket,
        }
    }

    /// A record that belongs to no run: for tests, for `audit`, and for unit tests of stages.
    pub fn unbound(row: impl Into<Bytes>) -> Self {
        let row = row.into();
        Record::new(RecordId::new("memory", 1, &row), row, Arc::default(), Ticket::blank())
    }

    /// A copy for judging: everything but the ticket, so that dropping it tells nothing.
    pub fn copy(&self) -> Record {
        Record {
            id: self.id.clone(),
            row: self.row.clone(),
            layout: Arc::clone(&self.layout),
            chat: self.chat.clone(),
            request: self.request.clone(),
            attempts: self.attempts.clone(),
            verdict: self.verdict.clone(),
            forwarded: self.forwarded,
            ticket: Ticket::blank(),
        }
    }

    /// The answer that counts: the completion of the last attempt, if it has one.
    pub fn completion(&self) -> Option<&Completion> {
        self.attempts.last().and_then(|attempt| attempt.completion.as_ref())
    }
}

impl RecordId {
    /// The identity of `row`, the `position`-th of `input` counted from 1.
    pub fn new(input: impl Into<Arc<str>>, position: u64, row: &[u8]) -> Self {
        RecordId { input: input.into(), row: position, hash: xxhash_rust::xxh3::xxh3_64(row) }
    }

    /// A seed that is the same for this record in every run with the same `run_seed`, and differs per attempt.
    ///
    /// It is kept below 2^31: some servers read the seed as a signed 32-bit integer.
    pub fn seed(&self, run_seed: u64, attempt: u32) -> u64 {
        let mut text = Vec::with_capacity(self.input.len() + 28);
        text.extend_from_slice(&run_seed.to_le_bytes());
        text.extend_from_slice(&self.row.to_le_bytes());
        text.extend_from_slice(&self.hash.to_le_bytes());
        text.extend_from_slice(&attempt.to_le_bytes());
        text.extend_from_slice(self.input.as_bytes());
        xxhash_rust::xxh3::xxh3_64(&text) >> 33
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.input, self.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_stable_and_differs_per_record_and_attempt() {
        let first = RecordId::new("a.jsonl", 1, b"{}");
        let second = RecordId::new("a.jsonl", 2, b"{}");
        assert_eq!(first.seed(7, 0), first.clone().seed(7, 0));
        assert_ne!(first.seed(7, 0), first.seed(7, 1));
        assert_ne!(first.seed(7, 0), first.seed(8, 0));
        assert_ne!(first.seed(7, 0), second.seed(7, 0));
        assert!(first.seed(7, 0) < 1 << 31);
    }
}
