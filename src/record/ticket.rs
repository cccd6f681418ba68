//! [`Ticket`]: room in memory, and the promise that a record's end is told.

use super::{Reason, RecordId};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How a record's way through the run ended. Exactly one is told for each ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// In the output, with an answer that validation accepted (or, where nothing is asked, as the stages left it).
    Accepted,
    /// In the output as it was read: it needed no new answer.
    Forwarded,
    /// Set aside because of what the row or the answer is.
    Rejected(Reason),
    /// Set aside because no server could answer it.
    Failed(Reason),
    /// Not a row at all: an input line that could not be read.
    BadInput(Reason),
    /// Not done: the run stopped first. A resumed run takes it up again.
    Remaining,
}

/// Where `read` takes a ticket for each record: bounds the bytes of rows in flight, and keeps the [`Tally`].
#[derive(Debug, Clone)]
pub struct Door {
    room: Arc<Semaphore>,
    budget: u32,
    tally: Arc<Mutex<Tally>>,
}

/// How many records came to which end.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Tickets given out.
    pub entered: u64,
    /// Ends told, by kind.
    pub ends: BTreeMap<End, u64>,
    /// How many tickets were dropped without a word: always zero unless there is a bug.
    pub untold: u64,
    /// The first few of those, by name.
    pub untold_ids: Vec<RecordId>,
}

/// Rows are refused entry while their bytes would exceed this many.
pub const DEFAULT_ROOM: u32 = 64 << 20;

/// How many vanished records are kept by name; the rest is counted.
const UNTOLD_NAMED: usize = 10;

impl Door {
    /// A door that lets in records of up to `budget` bytes at once.
    pub fn new(budget: u32) -> Self {
        Door { room: Arc::new(Semaphore::new(budget as usize)), budget, tally: Arc::default() }
    }

    /// Waits until there is room for a row of `bytes` bytes.
    ///
    /// A row larger than the whole budget takes all of it and goes alone.
    pub async fn enter(&self, id: RecordId, bytes: usize) -> Ticket {
        let share = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, self.budget);
        // The semaphore is never closed, so the only error acquire can return does not happen.
        let room = Arc::clone(&self.room).acquire_many_owned(share).await.ok();
        self.with(|tally| tally.entered += 1);
        Ticket { room, promise: Some(Promise { id, tally: Arc::clone(&self.tally) }) }
    }

    /// The count so far.
    pub fn tally(&self) -> Tally {
        self.with(|tally| tally.clone())
    }

    fn with<T>(&self, look: impl FnOnce(&mut Tally) -> T) -> T {
        look(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tally {
    /// How many records came to the ends that `which` picks.
    pub fn count(&self, which: impl Fn(&End) -> bool) -> u64 {
        self.ends.iter().filter(|(end, _)| which(end)).map(|(_, n)| n).sum()
    }
}

/// Held by a record from `read` to its end.
///
/// Its two halves end at different times: a sink gives the room back when the row is encoded
/// ([`Ticket::leave_room`]) and tells the end only when the row is committed ([`Ticket::tell`]).
#[derive(Debug)]
pub struct Ticket {
    room: Option<OwnedSemaphorePermit>,
    promise: Option<Promise>,
}

/// The half of a ticket that must be redeemed by telling an end.
#[derive(Debug)]
struct Promise {
    id: RecordId,
    tally: Arc<Mutex<Tally>>,
}

impl Ticket {
    /// A ticket that holds no room and promises nothing.
    pub fn blank() -> Self {
        Ticket { room: None, promise: None }
    }

    /// Gives the room back; the promise stays.
    pub fn leave_room(&mut self) {
        self.room = None;
    }

    /// Tells how the record ended.
    pub fn tell(mut self, end: End) {
        if let Some(promise) = self.promise.take() {
            let mut tally = promise.tally.lock().unwrap_or_else(PoisonError::into_inner);
            *tally.ends.entry(end).or_default() += 1;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(promise) = self.promise.take() {
            let mut tally = promise.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.untold += 1;
            if tally.untold_ids.len() < UNTOLD_NAMED {
                tally.untold_ids.push(promise.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(row: u64) -> RecordId {
        RecordId::new("t.jsonl", row, b"")
    }

    #[tokio::test]
    async fn a_ticket_dropped_without_a_word_is_named() {
        let door = Door::new(100);
        door.enter(id(76), 1).await.tell(End::Accepted);
        drop(door.enter(id(77), 1).await);
        let tally = door.tally();
        assert_eq!((tally.entered, tally.untold), (2, 1));
        assert_eq!(tally.untold_ids, [id(77)]);
    }

    #[tokio::test]
    async fn room_comes_back_before_the_end_is_told() {
        let door = Door::new(10);
        let mut first = door.enter(id(1), 10).await;
        first.leave_room();
        let second = door.enter(id(2), 10).await;
        first.tell(End::Accepted);
        second.tell(End::Remaining);
        assert_eq!(door.tally().untold, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_larger_than_the_budget_goes_alone() {
        let door = Door::new(10);
        let large = door.enter(id(1), 1_000).await;
        let waiting = tokio::time::timeout(std::time::Duration::from_secs(1), door.enter(id(2), 1)).await;
        assert!(waiting.is_err(), "the large row holds the whole budget");
        large.tell(End::Accepted);
        door.enter(id(2), 1).await.tell(End::Accepted);
        assert_eq!(door.tally().count(|end| *end == End::Accepted), 2);
    }
}
