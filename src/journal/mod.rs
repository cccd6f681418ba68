//! What is done in a run, told so that a fresh start can believe it.
//!
//! A run's directory holds one small *commit* per finished part file. A commit names the part and every record whose
//! end it carries. It is created only after the part is whole under its final name, and only if no commit of that
//! number exists; what no commit names is not done.
//!
//! Beside it lies the *journal* of [`Answers`]: what servers have answered, from the moment it arrives. It makes nothing
//! done; it saves asking again for what no part holds yet.

mod answers;
mod commit;
mod entry;
mod frame;
mod log;
mod part;
mod recover;

pub use answers::{Answers, LogEnded};
pub use commit::{Commit, Done};
pub use entry::Entry;
pub use log::Log;
pub use part::{PartFiles, PartFormat, PartLimits};

use crate::{
    error::{Error, ErrorKind},
    record::{End, RecordId},
    store::{Lock, Place},
};
use std::collections::BTreeMap;
use tokio::sync::Mutex;
use xxhash_rust::xxh3::xxh3_64;

/// The directory of one run.
#[derive(Debug)]
pub struct RunDir {
    place: Place,
    /// What tells this run from all others.
    id: String,
    /// Held as long as this process works on the run.
    _lock: Option<Lock>,
    /// The number of the next commit. Held while one is written, so that numbers have no gaps.
    next: Mutex<u64>,
    done: Done,
}

impl RunDir {
    /// Opens the directory, and reads what earlier sessions committed.
    ///
    /// # Errors
    /// `FixStore` if it cannot be read, if another process works on it, or if a commit is damaged or missing.
    pub async fn open(place: Place) -> Result<RunDir, Error> {
        let lock = place.lock().await?;
        let id = run_id(&place).await?;
        let folder = place.join("commits");
        let mut done = Done::default();
        let mut next = 0;
        for name in folder.names().await? {
            let Some(number) = Commit::number(&name) else { continue };
            let file = folder.join(&name);
            let bytes = file.read().await?.unwrap_or_default();
            let commit = Commit::decode(&bytes).map_err(|error| {
                Error::new(ErrorKind::FixStore, format!("{file} is damaged: restore it, or start a new run"))
                    .because(error)
            })?;
            done.add(&commit)?;
            // Names are sorted, and numbers are given without gaps.
            if number != next {
                let message = format!("commit {next} is missing in {folder}: restore it, or start a new run");
                return Err(Error::new(ErrorKind::FixStore, message));
            }
            next += 1;
        }
        done.seal();
        Ok(RunDir { place, id, _lock: lock, next: Mutex::new(next), done })
    }

    /// Where the directory is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What earlier sessions of this run have done.
    pub fn done(&self) -> &Done {
        &self.done
    }

    /// Makes the ends of `records` final: they stand in `part`, which must be whole under its final name.
    ///
    /// # Errors
    /// `FixStore` if it cannot be written, or if another process has committed in this directory meanwhile.
    pub async fn commit<'a>(
        &self,
        part: &str,
        records: impl Iterator<Item = (&'a RecordId, End)>,
    ) -> Result<(), Error> {
        let commit = Commit::new(part, records);
        let mut next = self.next.lock().await;
        let file = self.place.join("commits").join(&Commit::file_name(*next));
        if !file.create(commit.encode()?).await? {
            let message = format!("another process works on {}: stop one of the two and start again", self.place);
            return Err(Error::new(ErrorKind::FixStore, message));
        }
        *next += 1;
        Ok(())
    }

    /// Takes `folder` for this run's parts of one `kind`; false if it is another run's, another kind's, or holds parts
    /// that nobody has claimed.
    ///
    /// The claim is a file in the folder itself, created only if there is none: of two runs that reach for one folder,
    /// one gets it. It is written before the first part, so that a part which was published but not committed when the
    /// process died is known as our own, and overwritten.
    pub async fn claim(&self, folder: &Place, kind: &str) -> Result<bool, Error> {
        let (claim, ours) = (folder.join(CLAIM), format!("{kind} of run {}\n", self.id));
        if let Some(found) = claim.read().await? {
            return Ok(found == ours.as_bytes());
        }
        if folder.names().await?.iter().any(|name| part::number(name).is_some()) {
            return Ok(false);
        }
        Ok(claim.create(ours.clone()).await? || claim.read().await?.is_some_and(|found| found == ours.as_bytes()))
    }

    /// Whether `folder` holds this run's own parts.
    pub async fn owns(&self, folder: &Place) -> Result<bool, Error> {
        let claim = folder.join(CLAIM).read().await?.unwrap_or_default();
        Ok(claim.ends_with(format!("of run {}\n", self.id).as_bytes()))
    }

    /// How many records earlier sessions brought to which end.
    pub fn earlier_ends(&self) -> &BTreeMap<End, u64> {
        self.done.ends()
    }
}

/// The file that says whose parts a folder holds. Readers of datasets leave out names that begin with a dot.
const CLAIM: &str = ".forebay";

/// What tells this run from all others; made up when it begins.
async fn run_id(place: &Place) -> Result<String, Error> {
    let file = place.join("id");
    let text = format!("{place} {} {}", std::process::id(), crate::clock::unix_ms());
    file.create(format!("{:016x}", xxh3_64(text.as_bytes()))).await?;
    let id = file.read().await?.unwrap_or_default();
    String::from_utf8(id.to_vec()).map_err(|error| {
        Error::new(ErrorKind::FixStore, format!("{file} is damaged: restore it, or start a new run")).because(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Reason;

    async fn open(folder: &tempfile::TempDir) -> RunDir {
        let place = Place::parse(folder.path().to_str().expect("utf-8")).expect("a place");
        RunDir::open(place).await.expect("opens")
    }

    #[tokio::test]
    async fn what_is_committed_is_done_after_a_fresh_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let ids: Vec<_> = (1..=3).map(|row| RecordId::new("a.jsonl", row, &[row as u8])).collect();
        let run = open(&folder).await;
        assert_eq!(run.done().contains(&ids[0]), Ok(false));
        let ends = [End::Accepted, End::Rejected(Reason::Truncated)];
        run.commit("part-00000.jsonl", ids.iter().zip(ends)).await.expect("commits");
        drop(run);

        let again = open(&folder).await;
        assert_eq!(again.done().contains(&ids[0]), Ok(true));
        assert_eq!(again.done().contains(&ids[1]), Ok(true));
        assert_eq!(again.done().contains(&ids[2]), Ok(false));
        assert_eq!(again.earlier_ends()[&End::Rejected(Reason::Truncated)], 1);
    }

    #[tokio::test]
    async fn another_content_at_the_same_position_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = open(&folder).await;
        let id = RecordId::new("a.jsonl", 1, b"old");
        run.commit("part-00000.jsonl", [(&id, End::Accepted)].into_iter()).await.expect("commits");
        drop(run);
        let changed = RecordId::new("a.jsonl", 1, b"new");
        assert!(open(&folder).await.done().contains(&changed).is_err());
    }

    #[tokio::test]
    async fn a_run_that_is_worked_on_is_refused_to_a_second_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::parse(folder.path().to_str().expect("utf-8")).expect("a place");
        let first = open(&folder).await;
        let refused = RunDir::open(place.clone()).await.expect_err("the second is refused");
        assert_eq!(refused.kind(), ErrorKind::FixStore);
        drop(first);
        RunDir::open(place).await.expect("the first has gone");
    }

    #[tokio::test]
    async fn of_two_runs_that_reach_for_one_folder_one_gets_it() {
        let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
        let (one, two) = (open(&folders[0]).await, open(&folders[1]).await);
        let out = Place::parse(folders[2].path().to_str().expect("utf-8")).expect("a place");
        assert!(one.claim(&out, "output").await.expect("claims"));
        assert!(one.claim(&out, "output").await.expect("claims"), "again, after a restart");
        assert!(!two.claim(&out, "output").await.expect("claims"));
        assert!(!one.claim(&out, "aside").await.expect("claims"), "nor for other parts of the same run");
    }

    #[tokio::test]
    async fn a_commit_that_is_missing_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = open(&folder).await;
        for _ in 0..3 {
            run.commit("part-00000.jsonl", std::iter::empty()).await.expect("commits");
        }
        drop(run);
        std::fs::remove_file(folder.path().join("commits/0000001.json.zst")).expect("removes");
        let place = Place::parse(folder.path().to_str().expect("utf-8")).expect("a place");
        assert!(RunDir::open(place).await.expect_err("noticed").to_string().contains("commit 1 is missing"));
    }
}
