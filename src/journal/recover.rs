//! What a fresh start believes of the journal (pure): which frames are whole, and where each answer stands.

use super::{
    commit::Done,
    entry::Entry,
    frame::{Broken, Flaw, Frame, Kind, frames},
};
use crate::record::RecordId;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, io};

/// What stands in one segment. Stored beside it (`000000.idx`, one frame of JSON) when the segment is finished, so
/// that a start need not unpack what is done long since.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SegmentIndex {
    frames: Vec<FrameIndex>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct FrameIndex {
    at: u64,
    bytes: u64,
    ids: Vec<RecordId>,
}

/// A segment that cannot be believed: its bytes at `at` are neither a frame nor a tail that was torn.
#[derive(Debug, thiserror::Error)]
#[error("at byte {at}: {why}")]
pub struct Damage {
    /// Where.
    pub at: usize,
    /// What is wrong there.
    pub why: io::Error,
}

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// Number of the segment.
    pub segment: u64,
    /// Where in the segment its frame begins.
    pub at: u64,
    /// How many bytes the frame has.
    pub bytes: u64,
    /// Its position in the frame, from 0.
    pub position: usize,
}

/// The answers of records that are not done yet, by record.
#[derive(Debug, Default)]
pub struct Recovered(HashMap<RecordId, Location>);

impl SegmentIndex {
    /// Reads a segment whose index was not written: the process died before. The last segment may end torn; how many
    /// bytes of it are to be forgotten is said too.
    ///
    /// # Errors
    /// Damage anywhere else.
    pub fn scan(bytes: &[u8], segment: u64, last: bool) -> Result<(SegmentIndex, usize), Damage> {
        let mut index = SegmentIndex::default();
        for found in frames(bytes, segment) {
            let (at, frame) = match found {
                Ok(whole) => whole,
                Err(Broken::Torn { at }) if last => return Ok((index, bytes.len() - at)),
                Err(Broken::Torn { at }) => return Err(Damage { at, why: io::Error::other(Flaw::Cut) }),
                Err(Broken::Damaged { at, flaw }) => return Err(Damage { at, why: io::Error::other(flaw) }),
            };
            let ids = ids(&frame).map_err(|why| Damage { at, why })?;
            index.add(at as u64, frame.len() as u64, ids);
        }
        Ok((index, 0))
    }

    /// Adds the next frame.
    pub fn add(&mut self, at: u64, bytes: u64, ids: Vec<RecordId>) {
        self.frames.push(FrameIndex { at, bytes, ids });
    }

    /// The bytes to store.
    pub fn encode(&self, segment: u64) -> io::Result<Vec<u8>> {
        Frame::encode(Kind::Index, segment, 0, &serde_json::to_vec(self)?)
    }

    /// Reads stored bytes; `None` if they are not the index of this segment, which must then be scanned.
    pub fn decode(bytes: &[u8], segment: u64) -> Option<SegmentIndex> {
        let frame = Frame::decode(bytes).ok()?;
        let fits = (frame.kind, frame.segment, frame.len()) == (Kind::Index, segment, bytes.len());
        if fits { serde_json::from_slice(&frame.unpack().ok()?).ok() } else { None }
    }
}

/// Which records a frame has entries of.
fn ids(frame: &Frame<'_>) -> io::Result<Vec<RecordId>> {
    let payload = frame.unpack()?;
    Entry::split(&payload).map(|entry| Entry::decode_id(entry?)).collect()
}

impl Recovered {
    /// Adds what stands in a segment; segments come in order. Of several entries of one record the last one counts.
    pub fn add(&mut self, segment: u64, index: SegmentIndex, done: &Done) {
        for FrameIndex { at, bytes, ids } in index.frames {
            for (position, id) in ids.into_iter().enumerate() {
                if done.contains(&id) == Ok(false) {
                    self.0.insert(id, Location { segment, at, bytes, position });
                }
            }
        }
    }

    /// Where the answer of this very record stands: same input, same position, same content.
    pub fn find(&self, id: &RecordId) -> Option<Location> {
        self.0.get(id).copied()
    }

    /// How many answers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        journal::{commit::Commit, entry::tests::entry},
        record::End,
    };

    /// A segment of one frame for each list of positions.
    fn segment(number: u64, frames: &[&[u64]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (sequence, positions) in frames.iter().enumerate() {
            let mut payload = Vec::new();
            positions.iter().for_each(|position| entry(*position, "x").encode(&mut payload).expect("encodes"));
            bytes.extend(Frame::encode(Kind::Entries, number, sequence as u64, &payload).expect("small"));
        }
        bytes
    }

    fn id(position: u64) -> RecordId {
        entry(position, "x").id
    }

    #[test]
    fn a_torn_tail_is_forgotten_in_the_last_segment_only() {
        let (whole, bytes) = (segment(3, &[&[1, 2]]), segment(3, &[&[1, 2], &[3]]));
        for cut in whole.len() + 1..bytes.len() {
            let (index, torn) = SegmentIndex::scan(&bytes[..cut], 3, true).expect("the last one may be torn");
            assert_eq!((index.frames.len(), torn), (1, cut - whole.len()));
            let damage = SegmentIndex::scan(&bytes[..cut], 3, false).expect_err("another one may not");
            assert_eq!(damage.at, whole.len());
        }
    }

    #[test]
    fn damage_in_the_middle_is_an_error_also_in_the_last_segment() {
        let first = segment(3, &[&[1]]).len();
        for at in 0..first {
            let mut bytes = segment(3, &[&[1], &[2]]);
            bytes[at] ^= 0x10;
            let damage = SegmentIndex::scan(&bytes, 3, true).expect_err("damaged");
            assert_eq!(damage.at, 0, "{at}: {damage}");
        }
    }

    #[test]
    fn the_index_says_what_a_scan_would() {
        let (index, torn) = SegmentIndex::scan(&segment(3, &[&[1, 2], &[3]]), 3, false).expect("whole");
        assert_eq!(torn, 0);
        let bytes = index.encode(3).expect("encodes");
        assert_eq!(SegmentIndex::decode(&bytes, 3), Some(index));
        assert_eq!(SegmentIndex::decode(&bytes, 4), None, "of another segment");
        assert_eq!(SegmentIndex::decode(&bytes[..bytes.len() - 1], 3), None, "cut");
    }

    #[test]
    fn the_last_entry_of_a_record_counts_and_done_records_are_left_out() {
        let mut done = Done::default();
        done.add(&Commit::new("part", [(&id(9), End::Accepted)].into_iter())).expect("known words");
        done.seal();
        let mut recovered = Recovered::default();
        for (number, frames) in [(0, &[&[1, 2][..], &[9]][..]), (1, &[&[3, 1]])] {
            let (index, _) = SegmentIndex::scan(&segment(number, frames), number, true).expect("whole");
            recovered.add(number, index, &done);
        }
        let place = |position| recovered.find(&id(position)).map(|found| (found.segment, found.position));
        assert_eq!((place(1), place(2), place(3), place(9)), (Some((1, 1)), Some((0, 1)), Some((1, 0)), None));
        assert_eq!(recovered.len(), 3);
        let changed = RecordId::new("a.jsonl", 1, b"another row");
        assert_eq!(recovered.find(&changed), None, "another content is another record");
    }
}
