//! [`Answers`]: every answer of a run, kept as it comes, and found again after a crash.

use super::{
    RunDir,
    entry::Entry,
    frame::Frame,
    log::{Log, index_name, segment_name, write_index},
    recover::{Location, Recovered, SegmentIndex},
};
use crate::{
    error::{Error, ErrorKind},
    record::Record,
    store::Place,
};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::mpsc;

/// The answers of a run: takes new ones, and finds those that earlier sessions got and did not commit.
#[derive(Clone)]
pub struct Answers {
    log: mpsc::Sender<Entry>,
    earlier: Arc<Earlier>,
}

/// What earlier sessions wrote.
struct Earlier {
    folder: Place,
    recovered: Recovered,
    /// Payloads that were unpacked last: records come in the order of the input, their answers in about that order.
    unpacked: Mutex<VecDeque<(Location, Arc<Vec<u8>>)>>,
}

/// The log has ended, which only happens when it failed: the run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnded;

/// Entries that may wait for the log.
const WAITING: usize = 64;

/// Payloads (about 1 MiB each) that are held unpacked.
const UNPACKED: usize = 8;

impl Answers {
    /// Opens the journal of a run, and finds what is in it. The [`Log`] must be run for answers to be kept.
    ///
    /// A torn tail of the last segment is forgotten.
    ///
    /// # Errors
    /// `FixStore` if it cannot be read, or is damaged anywhere else.
    pub async fn open(run: &RunDir) -> Result<(Answers, Log), Error> {
        let folder = run.place().join("journal");
        let names = folder.names().await?;
        let numbers = |ending: &str| {
            let number = |name: &String| name.strip_suffix(ending)?.parse::<u64>().ok();
            names.iter().filter_map(number).collect::<Vec<_>>()
        };
        let mut segments = numbers(".seg");
        segments.sort_unstable();
        let mut recovered = Recovered::default();
        for segment in &segments {
            let index = index_of(&folder, *segment, Some(segment) == segments.last()).await?;
            recovered.add(*segment, index, run.done());
        }
        // A number is never used twice, not even if somebody took the segment away and left its index.
        let next = segments.into_iter().chain(numbers(".idx")).max().map_or(0, |last| last + 1);
        let (log, entries) = mpsc::channel(WAITING);
        let earlier = Earlier { folder: folder.clone(), recovered, unpacked: Mutex::default() };
        Ok((Answers { log, earlier: Arc::new(earlier) }, Log::new(folder, entries, next)))
    }

    /// Keeps what came of a record; waits while the log has too much to write.
    ///
    /// It is durable a little later (see [`Log`]). The record need not wait for that: it is done only when its part is
    /// committed, and a crash before then costs one more request.
    pub async fn keep(&self, entry: Entry) -> Result<(), LogEnded> {
        self.log.send(entry).await.map_err(|_| LogEnded)
    }

    /// What an earlier session got for this record when it asked the same `request`, if it did.
    ///
    /// # Errors
    /// `FixStore` if it stands in the journal but cannot be read.
    pub async fn find(&self, record: &Record, request: u64) -> Result<Option<Entry>, Error> {
        let Some(location) = self.earlier.recovered.find(&record.id) else { return Ok(None) };
        let entry = self.earlier.read(location).await?;
        if entry.id != record.id || entry.row != record.row {
            return Err(self.earlier.damaged(location, io::Error::other("it is of another record")));
        }
        Ok(Some(entry).filter(|entry| entry.request == request))
    }

    /// How many answers of earlier sessions there are that are not committed.
    pub fn recovered(&self) -> usize {
        self.earlier.recovered.len()
    }
}

/// What stands in a segment: what its index says, or what a scan finds.
async fn index_of(folder: &Place, segment: u64, last: bool) -> Result<SegmentIndex, Error> {
    let stored = folder.join(&index_name(segment)).read().await?;
    if let Some(index) = stored.and_then(|bytes| SegmentIndex::decode(&bytes, segment)) {
        return Ok(index);
    }
    let file = folder.join(&segment_name(segment));
    let bytes = file.read().await?.unwrap_or_default();
    let (index, torn) =
        SegmentIndex::scan(&bytes, segment, last).map_err(|damage| damaged(&file, damage.at, damage.why))?;
    if torn > 0 {
        tracing::warn!("{file} ends in {torn} bytes of an answer that was being written: it is asked for again");
    }
    write_index(folder, segment, &index).await.map(|()| index)
}

impl Earlier {
    async fn read(&self, location: Location) -> Result<Entry, Error> {
        let payload = self.payload(location).await?;
        let entry = Entry::split(&payload).nth(location.position);
        let entry = entry.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
        entry.and_then(Entry::decode).map_err(|error| self.damaged(location, error))
    }

    /// The unpacked payload of the frame at a location.
    async fn payload(&self, location: Location) -> Result<Arc<Vec<u8>>, Error> {
        let frame = Location { position: 0, ..location };
        if let Some(payload) =
            self.unpacked(|all| all.iter().find(|(at, _)| *at == frame).map(|(_, is)| Arc::clone(is)))
        {
            return Ok(payload);
        }
        let file = self.folder.join(&segment_name(frame.segment));
        let bytes = file.read_range(frame.at..frame.at + frame.bytes).await?;
        let payload = Frame::decode(&bytes).map_err(io::Error::other).and_then(|found| found.unpack());
        let payload = Arc::new(payload.map_err(|error| self.damaged(frame, error))?);
        self.unpacked(|all| {
            all.truncate(UNPACKED - 1);
            all.push_front((frame, Arc::clone(&payload)));
        });
        Ok(payload)
    }

    fn unpacked<T>(&self, look: impl FnOnce(&mut VecDeque<(Location, Arc<Vec<u8>>)>) -> T) -> T {
        look(&mut self.unpacked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn damaged(&self, location: Location, why: io::Error) -> Error {
        damaged(&self.folder.join(&segment_name(location.segment)), location.at as usize, why)
    }
}

fn damaged(file: &Place, at: usize, why: io::Error) -> Error {
    let message = format!(
        "{file} is damaged at byte {at}: restore it, or delete it: rows that are not committed are then asked for again"
    );
    Error::new(ErrorKind::FixStore, message).because(why)
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
