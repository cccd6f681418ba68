//! One commit (pure): which part holds which records, and with what end. And [`Done`], the sum of them.

use crate::{
    error::{Error, ErrorKind},
    record::{End, Reason, RecordId},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What one finished part holds. Stored as JSON in a zstd frame, `commits/0000000.json.zst`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Commit {
    /// The part file, as its folder names it.
    part: String,
    /// The records in it, grouped so that a word is not repeated for each row.
    groups: Vec<Group>,
}

/// Records of one input that came to the same end.
#[derive(Debug, Serialize, Deserialize)]
struct Group {
    input: Arc<str>,
    end: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Position and content hash of each.
    rows: Vec<(u64, u64)>,
}

/// The sum of a run's commits: which records are done.
#[derive(Debug, Default)]
pub struct Done {
    rows: HashMap<Arc<str>, Vec<(u64, u64)>>,
    ends: BTreeMap<End, u64>,
    parts: Vec<String>,
}

/// A commit of 100,000 rows is about 2.5 MB of JSON; one that claims to be larger than this is damaged.
const LARGEST: usize = 1 << 30;

impl Commit {
    /// The commit of `records` in `part`.
    pub fn new<'a>(part: &str, records: impl Iterator<Item = (&'a RecordId, End)>) -> Commit {
        let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (id, end) in records {
            groups.entry((Arc::clone(&id.input), end)).or_default().push((id.row, id.hash));
        }
        let groups = groups
            .into_iter()
            .map(|((input, end), rows)| Group {
                input,
                end: end.word().to_owned(),
                reason: end.reason().map(|reason| reason.word().to_owned()),
                rows,
            })
            .collect();
        Commit { part: part.to_owned(), groups }
    }

    /// The name of the file that holds commit `number`.
    pub fn file_name(number: u64) -> String {
        format!("{number:07}.json.zst")
    }

    /// The number in a file's name, if it is that of a commit.
    pub fn number(file_name: &str) -> Option<u64> {
        file_name.strip_suffix(".json.zst")?.parse().ok()
    }

    /// The bytes to store.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let json = serde_json::to_vec(self).map_err(bug)?;
        zstd::bulk::compress(&json, 3).map_err(bug)
    }

    /// Reads stored bytes.
    pub fn decode(bytes: &[u8]) -> Result<Commit, std::io::Error> {
        let size = zstd::bulk::Decompressor::upper_bound(bytes).unwrap_or(LARGEST).min(LARGEST);
        let json = zstd::bulk::decompress(bytes, size)?;
        serde_json::from_slice(&json).map_err(std::io::Error::other)
    }
}

fn bug(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Bug, "a commit could not be encoded").because(error)
}

impl Done {
    /// Adds what a commit says. Call [`Done::seal`] after the last one.
    ///
    /// # Errors
    /// `FixStore` if it uses a word this version does not know.
    pub fn add(&mut self, commit: &Commit) -> Result<(), Error> {
        self.parts.push(commit.part.clone());
        for group in &commit.groups {
            let end = End::from_words(&group.end, group.reason.as_deref()).ok_or_else(|| {
                let message = format!("the run was written by another version: unknown end `{}`", group.end);
                Error::new(ErrorKind::FixStore, message)
            })?;
            *self.ends.entry(end).or_default() += group.rows.len() as u64;
            self.rows.entry(Arc::clone(&group.input)).or_default().extend_from_slice(&group.rows);
        }
        Ok(())
    }

    /// Makes the rows ready for [`Done::contains`].
    pub fn seal(&mut self) {
        for rows in self.rows.values_mut() {
            rows.sort_unstable();
            rows.shrink_to_fit();
        }
    }

    /// Whether the record is done.
    ///
    /// # Errors
    /// The hash that was committed, if another content was done at this position.
    pub fn contains(&self, id: &RecordId) -> Result<bool, u64> {
        let Some(rows) = self.rows.get(&id.input) else { return Ok(false) };
        match rows.binary_search_by_key(&id.row, |(row, _)| *row).ok().and_then(|at| rows.get(at)) {
            None => Ok(false),
            Some((_, hash)) if *hash == id.hash => Ok(true),
            Some((_, hash)) => Err(*hash),
        }
    }

    /// The numbers of the committed parts in `folder`.
    pub fn parts(&self, folder: &str) -> impl Iterator<Item = u64> {
        let inside = format!("{folder}/");
        self.parts.iter().filter_map(move |part| super::part::number(part.strip_prefix(&inside)?))
    }

    /// How many records came to which end.
    pub fn ends(&self) -> &BTreeMap<End, u64> {
        &self.ends
    }

    /// How many records are done.
    pub fn len(&self) -> u64 {
        self.ends.values().sum()
    }

    /// Whether nothing is done yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl End {
    /// The word for what kind of end it is.
    pub fn word(self) -> &'static str {
        match self {
            End::Accepted => "accepted",
            End::Forwarded => "forwarded",
            End::Rejected(_) => "rejected",
            End::Failed(_) => "failed",
            End::BadInput(_) => "bad_input",
            End::Remaining => "remaining",
        }
    }

    /// Why, where the end has a reason.
    pub fn reason(self) -> Option<Reason> {
        match self {
            End::Rejected(reason) | End::Failed(reason) | End::BadInput(reason) => Some(reason),
            End::Accepted | End::Forwarded | End::Remaining => None,
        }
    }

    fn from_words(end: &str, reason: Option<&str>) -> Option<End> {
        let reason = reason.map(Reason::from_word);
        match (end, reason) {
            ("accepted", None) => Some(End::Accepted),
            ("forwarded", None) => Some(End::Forwarded),
            ("rejected", Some(reason)) => reason.map(End::Rejected),
            ("failed", Some(reason)) => reason.map(End::Failed),
            ("bad_input", Some(reason)) => reason.map(End::BadInput),
            _ => None,
        }
    }
}
