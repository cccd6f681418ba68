//! One frame of a journal file (pure): a compressed payload that cannot be mistaken for another.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `fbj` and the version of the format, `1` |
//! | 4 | 4 | what the payload is |
//! | 8 | 8 | number of the segment |
//! | 16 | 8 | number of the frame in its segment, from 0 |
//! | 24 | 4 | length of the payload as stored |
//! | 28 | 4 | length of the payload unpacked |
//! | 32 | 8 | XXH3 (64 bit) of the 32 bytes before and of the payload as stored |
//! | 40 | | the payload: one zstd frame |
//!
//! Numbers are little-endian. Segment and frame number stand under the checksum: bytes that were whole once, in
//! another place, are not taken for these.

use std::io;
use xxhash_rust::xxh3::Xxh3Default;

/// A frame as it lies in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What the payload is.
    pub kind: Kind,
    /// Number of the segment it belongs to.
    pub segment: u64,
    /// Its number in that segment, from 0.
    pub sequence: u64,
    /// Length of the payload unpacked.
    unpacked: usize,
    /// The payload as stored.
    packed: &'a [u8],
}

/// What a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Entries: records that left `dispatch`.
    Entries,
    /// The index of a whole segment.
    Index,
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// Fewer bytes than the frame must have.
    #[error("it breaks off")]
    Cut,
    /// They do not begin as a frame does.
    #[error("no frame begins here")]
    NoFrame,
    /// They begin as a frame of another version does.
    #[error("it was written by another version")]
    Version,
    /// The checksum is another one.
    #[error("its checksum is wrong")]
    Checksum,
    /// A frame, but one that belongs to another place.
    #[error("it belongs to another place")]
    Misplaced,
}

/// How the frames of a segment end, where they do not end with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The bytes from here on are no frame, and no frame follows: what a process or machine leaves that dies
    /// while it writes.
    Torn {
        /// Where.
        at: usize,
    },
    /// The bytes here are no frame, and yet frames follow (or their version is unknown).
    Damaged {
        /// Where.
        at: usize,
        /// What is wrong.
        flaw: Flaw,
    },
}

const NAME: &[u8; 3] = b"fbj";
const VERSION: u8 = b'1';
const MAGIC: &[u8; 4] = b"fbj1";
const SUMMED: usize = 32;
const HEADER: usize = 40;

/// A frame that claims to hold more is damaged: a group is about 1 MiB, and one row more.
const LARGEST: usize = 1 << 30;

/// zstd's own default: near its best ratio per CPU second.
const LEVEL: i32 = 3;

impl<'a> Frame<'a> {
    /// The bytes of a frame with this payload, to be written.
    ///
    /// # Errors
    /// If the payload has more than 1 GiB.
    pub fn encode(kind: Kind, segment: u64, sequence: u64, payload: &[u8]) -> io::Result<Vec<u8>> {
        let packed = zstd::bulk::compress(payload, LEVEL)?;
        if payload.len().max(packed.len()) > LARGEST {
            return Err(io::Error::other("more than 1 GiB in one group"));
        }
        let mut bytes = Vec::with_capacity(HEADER + packed.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&kind.number().to_le_bytes());
        bytes.extend_from_slice(&segment.to_le_bytes());
        bytes.extend_from_slice(&sequence.to_le_bytes());
        // Both fit: they are at most 1 GiB.
        bytes.extend_from_slice(&(packed.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        let sum = checksum(&bytes, &packed);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(&packed);
        Ok(bytes)
    }

    /// The frame that `bytes` begin with.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn decode(bytes: &'a [u8]) -> Result<Frame<'a>, Flaw> {
        let magic: [u8; 4] = bytes.first_chunk().copied().ok_or(Flaw::Cut)?;
        if !magic.starts_with(NAME) {
            return Err(Flaw::NoFrame);
        }
        if !magic.ends_with(&[VERSION]) {
            return Err(Flaw::Version);
        }
        let (header, rest) = bytes.split_at_checked(HEADER).ok_or(Flaw::Cut)?;
        let (summed, _) = header.split_at_checked(SUMMED).ok_or(Flaw::Cut)?;
        let (packed, unpacked) = (u32_at(header, 24) as usize, u32_at(header, 28) as usize);
        if packed.max(unpacked) > LARGEST {
            return Err(Flaw::Checksum);
        }
        let packed = rest.get(..packed).ok_or(Flaw::Cut)?;
        if checksum(summed, packed) != u64_at(header, SUMMED) {
            return Err(Flaw::Checksum);
        }
        let kind = Kind::from_number(u32_at(header, 4)).ok_or(Flaw::Version)?;
        Ok(Frame { kind, segment: u64_at(header, 8), sequence: u64_at(header, 16), unpacked, packed })
    }

    /// The payload.
    pub fn unpack(&self) -> io::Result<Vec<u8>> {
        zstd::bulk::decompress(self.packed, self.unpacked)
    }

    /// How many bytes of the file it takes.
    pub fn len(&self) -> usize {
        HEADER + self.packed.len()
    }
}

/// The frames of a segment's `bytes`, each with where it begins; after the first [`Broken`] nothing comes.
pub fn frames(bytes: &[u8], segment: u64) -> impl Iterator<Item = Result<(usize, Frame<'_>), Broken>> {
    let (mut at, mut sequence) = (0, 0);
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let found = Frame::decode(rest).and_then(|frame| {
            let in_place = (frame.segment, frame.sequence, frame.kind) == (segment, sequence, Kind::Entries);
            if in_place { Ok(frame) } else { Err(Flaw::Misplaced) }
        });
        let begin = at;
        Some(match found {
            Ok(frame) => {
                at += frame.len();
                sequence += 1;
                Ok((begin, frame))
            }
            Err(flaw) => {
                at = bytes.len();
                let known = matches!(flaw, Flaw::Version | Flaw::Misplaced);
                let damaged = known || frame_follows(rest, segment);
                Err(if damaged { Broken::Damaged { at: begin, flaw } } else { Broken::Torn { at: begin } })
            }
        })
    })
}

/// Whether a whole frame of the segment stands anywhere behind the first byte of `rest`.
fn frame_follows(rest: &[u8], segment: u64) -> bool {
    memchr::memmem::find_iter(rest, MAGIC)
        .filter_map(|at| Frame::decode(rest.get(at..)?).ok())
        .any(|frame| frame.segment == segment)
}

impl Kind {
    fn number(self) -> u32 {
        match self {
            Kind::Entries => 1,
            Kind::Index => 2,
        }
    }

    fn from_number(number: u32) -> Option<Kind> {
        [Kind::Entries, Kind::Index].into_iter().find(|kind| kind.number() == number)
    }
}

fn checksum(summed: &[u8], packed: &[u8]) -> u64 {
    let mut sum = Xxh3Default::new();
    sum.update(summed);
    sum.update(packed);
    sum.digest()
}

/// The number at `at`; 0 where there are too few bytes.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// The number at `at`; 0 where there are too few bytes.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(payloads: &[Vec<u8>]) -> Vec<u8> {
        let frame = |(number, payload): (usize, &Vec<u8>)| Frame::encode(Kind::Entries, 7, number as u64, payload);
        payloads.iter().enumerate().flat_map(|one| frame(one).expect("small")).collect()
    }

    /// The payloads that are read back, and how they end.
    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<Broken>) {
        let (mut whole, mut broken) = (Vec::new(), None);
        for found in frames(bytes, 7) {
            match found {
                Ok((_, frame)) => whole.push(frame.unpack().expect("unpacks")),
                Err(end) => broken = Some(end),
            }
        }
        (whole, broken)
    }

    fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..6)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(payloads in payloads()) {
            prop_assert_eq!(read(&segment(&payloads)), (payloads, None));
        }

        #[test]
        fn a_cut_anywhere_leaves_all_frames_before_it(payloads in payloads(), cut in any::<prop::sample::Index>()) {
            let bytes = segment(&payloads);
            let cut = cut.index(bytes.len());
            let (whole, broken) = read(&bytes[..cut]);
            prop_assert!(payloads.starts_with(&whole));
            let kept = segment(&whole).len();
            let next = segment(&payloads[..=whole.len()]).len();
            prop_assert!(kept <= cut && cut < next, "no whole frame is left out");
            prop_assert_eq!(broken, (cut > kept).then_some(Broken::Torn { at: kept }));
        }

        #[test]
        fn a_flipped_bit_anywhere_is_noticed(payloads in payloads(), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
            let mut bytes = segment(&payloads);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let (whole, broken) = read(&bytes);
            prop_assert!(payloads.starts_with(&whole) && whole.len() < payloads.len());
            let in_last = at >= segment(&payloads[..payloads.len() - 1]).len();
            let damaged = matches!(broken, Some(Broken::Damaged { .. }));
            prop_assert!(broken.is_some() && (damaged || in_last), "damage in the middle is not a torn tail");
        }
    }

    #[test]
    fn a_frame_of_another_place_is_not_adopted() {
        for (segment, sequence) in [(8, 0), (7, 1)] {
            let bytes = Frame::encode(Kind::Entries, segment, sequence, b"foreign").expect("small");
            let misplaced = Broken::Damaged { at: 0, flaw: Flaw::Misplaced };
            assert_eq!(read(&bytes), (vec![], Some(misplaced)));
        }
    }

    #[test]
    fn a_frame_of_another_version_is_not_cut_off() {
        let mut bytes = segment(&[b"one".to_vec()]);
        bytes[3] = b'2';
        assert_eq!(read(&bytes), (vec![], Some(Broken::Damaged { at: 0, flaw: Flaw::Version })));
    }
}
