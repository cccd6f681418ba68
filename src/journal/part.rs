//! Part files: rows gathered until a part is full or old enough, then published whole and committed.

use super::RunDir;
use crate::{
    error::{Error, ErrorKind},
    record::{End, RecordId, Ticket},
    store::Place,
};
use object_store::buffered::BufWriter;
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{io::AsyncWriteExt, time::Instant};

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartFormat {
    /// One JSON text a line.
    Jsonl,
    /// The same in zstd frames that each hold whole lines.
    JsonlZst,
}

/// When a part is full.
#[derive(Debug, Clone, Copy)]
pub struct PartLimits {
    /// Rows in a part at most.
    pub rows: u64,
    /// Bytes in a part at most, before compression (one row may overshoot).
    pub bytes: u64,
    /// A part is closed when its first row has waited this long.
    pub age: Duration,
}

/// A folder of part files, `part-00000.jsonl` and so on, that is being written.
///
/// A row's end is told only when its part is committed. Dropped with rows uncommitted, it tells that they remain.
pub struct PartFiles {
    folder: Place,
    run: Arc<RunDir>,
    format: PartFormat,
    limits: PartLimits,
    next: u64,
    open: Option<OpenPart>,
}

/// The part that takes rows now.
struct OpenPart {
    name: String,
    upload: BufWriter,
    /// Whole lines that have not gone to `upload` yet.
    lines: Vec<u8>,
    bytes: u64,
    since: Instant,
    rows: Vec<(RecordId, End, Ticket)>,
}

/// Lines are gathered to about this much before they are compressed into a frame and go out.
const FRAME: usize = 1 << 20;

/// How the names of parts begin.
const PREFIX: &str = "part-";

/// zstd's own default: near its best ratio per CPU second.
const LEVEL: i32 = 3;

impl PartFormat {
    /// The ending of a part's name.
    pub fn extension(self) -> &'static str {
        match self {
            PartFormat::Jsonl => "jsonl",
            PartFormat::JsonlZst => "jsonl.zst",
        }
    }
}

impl PartFiles {
    /// Continues the parts of one `kind` in `folder`, after those that are committed.
    ///
    /// # Errors
    /// `FixStore` if the folder is somebody else's, or if a committed part is gone.
    pub async fn open(
        folder: Place,
        kind: &str,
        run: Arc<RunDir>,
        format: PartFormat,
        limits: PartLimits,
    ) -> Result<PartFiles, Error> {
        if !run.claim(&folder, kind).await? {
            let message =
                format!("{folder} already holds parts that are not of this run: name another folder, or remove it");
            return Err(Error::new(ErrorKind::FixStore, message));
        }
        folder.sweep(PREFIX).await?;
        // A part that was published but not committed when the process died has the highest number; its rows are made
        // again, and it is overwritten. Committed ones are never touched.
        let there: HashSet<u64> = folder.names().await?.iter().filter_map(|name| number(name)).collect();
        if let Some(gone) = run.done().parts(&folder.to_string()).find(|part| !there.contains(part)) {
            let message =
                format!("part {gone} of {folder} is gone, and its rows with it: restore it, or start a new run");
            return Err(Error::new(ErrorKind::FixStore, message));
        }
        let next = run.done().parts(&folder.to_string()).max().map_or(0, |last| last + 1);
        Ok(PartFiles { folder, run, format, limits, next, open: None })
    }

    /// When the open part is to be closed for its age; `None` if there is none.
    pub fn due(&self) -> Option<Instant> {
        self.open.as_ref().map(|part| part.since + self.limits.age)
    }

    /// Adds one row (without a line end) that came to `end`; gives its room back. Commits if the part is now full.
    pub async fn add(&mut self, line: &[u8], id: RecordId, end: End, mut ticket: Ticket) -> Result<(), Error> {
        let (folder, format, next) = (&self.folder, self.format, self.next);
        let part = self.open.get_or_insert_with(|| {
            let name = format!("{PREFIX}{next:05}.{}", format.extension());
            OpenPart {
                upload: folder.join(&name).upload(),
                name,
                lines: Vec::new(),
                bytes: 0,
                since: Instant::now(),
                rows: Vec::new(),
            }
        });
        part.lines.extend_from_slice(line);
        part.lines.push(b'\n');
        part.bytes += line.len() as u64 + 1;
        ticket.leave_room();
        part.rows.push((id, end, ticket));
        if part.lines.len() >= FRAME {
            part.write_lines(format).await.map_err(|error| cannot_write(folder, error))?;
        }
        if part.rows.len() as u64 >= self.limits.rows || part.bytes >= self.limits.bytes {
            self.commit().await?;
        }
        Ok(())
    }

    /// Publishes the open part, commits it, and tells the ends of its rows. Nothing happens if there is none.
    pub async fn commit(&mut self) -> Result<(), Error> {
        let Some(mut part) = self.open.take() else { return Ok(()) };
        let published = async {
            part.write_lines(self.format).await?;
            part.upload.shutdown().await
        };
        published.await.map_err(|error| cannot_write(&self.folder, error))?;
        let shown = self.folder.join(&part.name).to_string();
        self.run.commit(&shown, part.rows.iter().map(|(id, end, _)| (id, *end))).await?;
        self.next += 1;
        for (_, end, ticket) in part.rows.drain(..) {
            ticket.tell(end);
        }
        Ok(())
    }
}

impl Drop for OpenPart {
    fn drop(&mut self) {
        // Only what no commit names is still here.
        self.rows.drain(..).for_each(|(_, _, ticket)| ticket.tell(End::Remaining));
    }
}

impl OpenPart {
    async fn write_lines(&mut self, format: PartFormat) -> std::io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let out = match format {
            PartFormat::Jsonl => std::mem::take(&mut self.lines),
            PartFormat::JsonlZst => {
                let frame = zstd::bulk::compress(&self.lines, LEVEL)?;
                self.lines.clear();
                frame
            }
        };
        self.upload.put(out.into()).await.map_err(std::io::Error::from)
    }
}

/// The number in a part's name.
pub(super) fn number(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.split('.').next()?.parse().ok()
}

fn cannot_write(folder: &Place, error: std::io::Error) -> Error {
    let message = format!("cannot write to {folder}: make room or give permission, then run the same command again");
    Error::new(ErrorKind::FixStore, message).because(error)
}
