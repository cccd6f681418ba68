//! [`Log`]: writes down the answers as they come.

use super::{
    entry::Entry,
    frame::{Frame, Kind},
    recover::SegmentIndex,
};
use crate::{
    error::{Error, ErrorKind},
    record::RecordId,
    store::{Append, Place},
};
use std::{io, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

/// Writes entries into segments, `<run>/journal/000000.seg` and so on, until nobody gives any more.
///
/// Entries are gathered into groups; one group is one frame, one write and one sync. What was given is durable within
/// a second, as long as the disk keeps up; when it does not, the channel to here fills, and `dispatch` waits. In an
/// object store, which knows no growing files, it is durable when its segment is full or ten seconds old.
///
/// Any error ends the run: a sync that failed is never repeated, since it may then succeed without the bytes. What of
/// the segment is whole is found by the next start.
pub struct Log {
    folder: Place,
    entries: mpsc::Receiver<Entry>,
    group: Group,
    segment: Option<Segment>,
    /// Number of the next segment. One that exists is never written again.
    next: u64,
}

/// Entries that are not written yet.
#[derive(Default)]
struct Group {
    payload: Vec<u8>,
    ids: Vec<RecordId>,
    /// When the first one came.
    since: Option<Instant>,
}

/// The segment that takes frames now.
struct Segment {
    number: u64,
    file: Append,
    bytes: u64,
    frames: u64,
    index: SegmentIndex,
    since: Instant,
}

/// A group of this size is written at once: large enough to compress well, small enough to be read for one entry.
const GROUP_BYTES: usize = 1 << 20;

/// A group of this age is written at once: half of the promised second, the other half is for the disk.
const GROUP_AGE: Duration = Duration::from_millis(500);

impl Log {
    /// A log that takes `entries` and writes segments from number `next` on into `folder`.
    pub(super) fn new(folder: Place, entries: mpsc::Receiver<Entry>, next: u64) -> Log {
        Log { folder, entries, group: Group::default(), segment: None, next }
    }

    /// Writes until nobody gives entries any more, and finishes the last segment.
    ///
    /// # Errors
    /// `FixStore` if it cannot be written.
    pub async fn run(mut self) -> Result<(), Error> {
        loop {
            let due = self.due();
            tokio::select! {
                // Time comes first: entries may never stop coming.
                biased;
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.write_what_is_due().await?,
                entry = self.entries.recv() => match entry {
                    Some(entry) => self.add(&entry).await?,
                    None => break,
                },
            }
        }
        self.write_group().await?;
        self.finish_segment().await
    }

    /// When something is to be written for its age.
    fn due(&self) -> Option<Instant> {
        let group = self.group.since.map(|since| since + GROUP_AGE);
        group.into_iter().chain(self.segment_due()).min()
    }

    fn segment_due(&self) -> Option<Instant> {
        Some(self.segment.as_ref()?.since + self.folder.growth().age?)
    }

    async fn add(&mut self, entry: &Entry) -> Result<(), Error> {
        entry.encode(&mut self.group.payload)?;
        self.group.ids.push(entry.id.clone());
        self.group.since.get_or_insert_with(Instant::now);
        if self.group.payload.len() >= GROUP_BYTES { self.write_group().await } else { Ok(()) }
    }

    async fn write_what_is_due(&mut self) -> Result<(), Error> {
        self.write_group().await?;
        match self.segment_due() {
            Some(due) if due <= Instant::now() => self.finish_segment().await,
            _ => Ok(()),
        }
    }

    /// Writes the group as the next frame, if there is one.
    async fn write_group(&mut self) -> Result<(), Error> {
        let Group { payload, ids, since: Some(_) } = std::mem::take(&mut self.group) else { return Ok(()) };
        let mut segment = match self.segment.take() {
            Some(segment) => segment,
            None => self.begin_segment().await?,
        };
        let frame = Frame::encode(Kind::Entries, segment.number, segment.frames, &payload).map_err(bug)?;
        segment.file.write(&frame).await?;
        segment.index.add(segment.bytes, frame.len() as u64, ids);
        segment.bytes += frame.len() as u64;
        segment.frames += 1;
        let full = segment.bytes >= self.folder.growth().bytes;
        self.segment = Some(segment);
        if full { self.finish_segment().await } else { Ok(()) }
    }

    async fn begin_segment(&mut self) -> Result<Segment, Error> {
        let number = self.next;
        self.next += 1;
        let file = Append::create(self.folder.join(&segment_name(number))).await?;
        Ok(Segment { number, file, bytes: 0, frames: 0, index: SegmentIndex::default(), since: Instant::now() })
    }

    /// Ends the open segment, if there is one, and writes its index. The next one begins only after that, so that the
    /// last segment alone can be without an index.
    async fn finish_segment(&mut self) -> Result<(), Error> {
        let Some(segment) = self.segment.take() else { return Ok(()) };
        segment.file.finish().await?;
        write_index(&self.folder, segment.number, &segment.index).await
    }
}

/// Writes the index of a finished segment beside it.
pub(super) async fn write_index(folder: &Place, segment: u64, index: &SegmentIndex) -> Result<(), Error> {
    folder.join(&index_name(segment)).write(index.encode(segment).map_err(bug)?).await
}

/// The name of a segment's file.
pub(super) fn segment_name(number: u64) -> String {
    format!("{number:06}.seg")
}

/// The name of a segment's index.
pub(super) fn index_name(number: u64) -> String {
    format!("{number:06}.idx")
}

fn bug(error: io::Error) -> Error {
    Error::new(ErrorKind::Bug, "answers could not be journaled").because(error)
}
