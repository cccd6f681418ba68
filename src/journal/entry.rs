//! [`Entry`] (pure): what the journal keeps of one record.
//!
//! A payload is a row of *pieces*, each four bytes of length (little-endian) and so many bytes. Each of its pieces is
//! one entry, which is made of pieces again: a JSON text, the row, and the raw reply of each attempt. What may not be
//! text is so kept as the bytes it was.

use crate::{
    error::{Error, ErrorKind},
    record::{Attempt, Record, RecordId, Rejection},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;

/// A record as it left `dispatch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Which record.
    pub id: RecordId,
    /// What it was asked, as a hash: a request that has changed since needs an answer of its own.
    pub request: u64,
    /// Why it was set aside; `None` if it went on.
    pub aside: Option<Rejection>,
    /// Everything servers have answered.
    pub attempts: Vec<Attempt>,
    /// The row as it was read.
    #[serde(skip)]
    pub row: Bytes,
}

impl Entry {
    /// The entry of a record that leaves: it was asked `request`, and goes on or aside.
    pub fn new(record: &Record, request: u64, aside: Option<&Rejection>) -> Entry {
        Entry {
            id: record.id.clone(),
            request,
            aside: aside.cloned(),
            attempts: record.attempts.clone(),
            row: record.row.clone(),
        }
    }

    /// Adds it to a payload.
    ///
    /// # Errors
    /// `Bug` if it cannot be written as JSON, or has more than 4 GiB.
    pub fn encode(&self, payload: &mut Vec<u8>) -> Result<(), Error> {
        let json = serde_json::to_vec(self).map_err(io::Error::other);
        let mut entry = Vec::new();
        json.and_then(|json| {
            put(&mut entry, &json)?;
            put(&mut entry, &self.row)?;
            self.attempts.iter().try_for_each(|attempt| put(&mut entry, &attempt.raw))?;
            put(payload, &entry)
        })
        .map_err(|error| Error::new(ErrorKind::Bug, format!("{} could not be journaled", self.id)).because(error))
    }

    /// The entries of a payload, in the order they were added, each still as bytes for [`Entry::decode`].
    pub fn split(mut payload: &[u8]) -> impl Iterator<Item = io::Result<&[u8]>> {
        std::iter::from_fn(move || {
            if payload.is_empty() {
                return None;
            }
            let entry = take(&mut payload);
            if entry.is_err() {
                payload = &[];
            }
            Some(entry)
        })
    }

    /// Reads one entry.
    ///
    /// # Errors
    /// If the bytes are not those of an entry.
    pub fn decode(mut bytes: &[u8]) -> io::Result<Entry> {
        let mut entry: Entry = serde_json::from_slice(take(&mut bytes)?)?;
        entry.row = Bytes::copy_from_slice(take(&mut bytes)?);
        for attempt in &mut entry.attempts {
            attempt.raw = Bytes::copy_from_slice(take(&mut bytes)?);
        }
        Ok(entry)
    }

    /// Reads only which record an entry is of.
    ///
    /// # Errors
    /// If the bytes are not those of an entry.
    pub fn decode_id(mut bytes: &[u8]) -> io::Result<RecordId> {
        #[derive(Deserialize)]
        struct Named {
            id: RecordId,
        }
        let named: Named = serde_json::from_slice(take(&mut bytes)?)?;
        Ok(named.id)
    }
}

fn put(into: &mut Vec<u8>, piece: &[u8]) -> io::Result<()> {
    let length = u32::try_from(piece.len()).map_err(io::Error::other)?;
    into.extend_from_slice(&length.to_le_bytes());
    into.extend_from_slice(piece);
    Ok(())
}

fn take<'a>(from: &mut &'a [u8]) -> io::Result<&'a [u8]> {
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (length, rest) = from.split_first_chunk().ok_or_else(cut)?;
    let (piece, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(cut)?;
    *from = rest;
    Ok(piece)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::{Completion, Finish, Reason, Usage};

    /// An entry of the row at `position`, with all there can be in it.
    pub(in crate::journal) fn entry(position: u64, answer: &str) -> Entry {
        let row = Bytes::from(format!("{{\"id\": {position}}}"));
        let completion = Completion {
            content: answer.to_owned(),
            reasoning: Some(String::new()),
            tool_calls: Some(serde_json::json!([{"name": "f", "arguments": "{}"}])),
            finish: Finish::Other("eos".to_owned()),
            usage: Usage { completion_tokens: Some(12), ..Usage::default() },
            model: Some("demo".to_owned()),
            flaw: Some(Reason::Truncated),
            detail: "cut".to_owned(),
        };
        let fault = Attempt {
            number: 0,
            server: "http://one".into(),
            seed: 1,
            started_ms: 1_700_000_000_000,
            seconds: 1.5,
            first_token_seconds: None,
            completion: None,
            fault: Some(Reason::CutReply),
            detail: "broke off".to_owned(),
            raw: Bytes::from_static(b"data: \xff\xfe\n"),
        };
        let answered = Attempt {
            number: 1,
            first_token_seconds: Some(0.25),
            completion: Some(completion),
            fault: None,
            raw: Bytes::new(),
            ..fault.clone()
        };
        Entry {
            id: RecordId::new("a.jsonl", position, &row),
            request: u64::MAX,
            aside: (position == 0).then(|| Rejection::new(Reason::CutReply, "broke off")),
            attempts: vec![fault, answered],
            row,
        }
    }

    #[test]
    fn an_entry_is_read_back_as_it_was() {
        let entries = [entry(0, "zero"), entry(1, ""), entry(2, "ü\n\"")];
        let mut payload = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut payload).expect("encodes"));
        let pieces: Vec<_> = Entry::split(&payload).collect::<io::Result<_>>().expect("whole");
        let read: Vec<_> = pieces.iter().map(|piece| Entry::decode(piece).expect("an entry")).collect();
        assert_eq!(read, entries);
        assert_eq!(Entry::decode_id(pieces[2]).expect("an id"), entries[2].id);
    }

    #[test]
    fn a_payload_that_breaks_off_is_an_error_and_not_a_shorter_one() {
        let mut payload = Vec::new();
        entry(1, "one").encode(&mut payload).expect("encodes");
        for cut in 1..payload.len() {
            let split: io::Result<Vec<_>> = Entry::split(&payload[..cut]).collect();
            assert!(split.is_err(), "{cut}");
        }
        let inner = Entry::split(&payload).next().expect("one").expect("whole");
        for cut in 0..inner.len() {
            assert!(Entry::decode(&inner[..cut]).is_err(), "{cut}");
        }
    }
}
