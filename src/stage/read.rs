//! `read`: rows of the input files, one record each.

mod ahead;

use super::{Built, Ended, Knowledge, Parts, Stage};
use crate::{
    edge::{Closed, Inlet, Outlet},
    error::{Error, ErrorKind},
    format::{Framed, Limits},
    journal::RunDir,
    progress::Progress,
    record::{Door, End, Layout, Record, RecordId, Rejection, Role, Shape},
    setting::{Complaints, Size},
    stop::Stop,
    store::{InputFile, Place},
};
use ahead::Ahead;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Reads rows: JSONL or a JSON array, plain or compressed (gzip, zstd), told by content and not by name.
///
/// Each row is carried as the bytes it has. A line that cannot be read is set aside with file, line and reason, and
/// the rest is read. What a run has done already is skipped.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A file, a pattern such as `data/*.jsonl.zst`, or a URL of either in an object store.
    pub path: String,
    /// Where a row has its conversation: `messages`, `conversations` (ShareGPT), `alpaca` or `prompt_response`. Found
    /// for each row by itself unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// What role words mean besides the usual ones: `{ narrator = "system" }`. The usual ones are those of OpenAI,
    /// ShareGPT and common chat exports.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, Role>,
    /// A longer line is set aside unread.
    #[serde(default = "max_line_bytes")]
    pub max_line_bytes: Size,
    /// The run stops when more lines than this cannot be read, or more than half of the first hundred.
    #[serde(default = "max_bad_rows")]
    #[schemars(extend("x-content" = false))]
    pub max_bad_rows: u64,
}

fn max_line_bytes() -> Size {
    Size(64 << 20)
}

fn max_bad_rows() -> u64 {
    1_000
}

impl Settings {
    /// Reads what `path` names, with everything else as it is by default.
    pub fn new(path: impl Into<String>) -> Self {
        Settings {
            path: path.into(),
            shape: None,
            roles: BTreeMap::new(),
            max_line_bytes: max_line_bytes(),
            max_bad_rows: max_bad_rows(),
        }
    }
}

impl super::Settings for Settings {
    const KIND: &'static str = "read";
    const GIVES: &'static [Knowledge] = &[Knowledge::Row];
    const MOVES_RECORDS: bool = true;
    const EXAMPLE: &'static str = "[[stage]]\nkind = \"read\"\npath = \"data/*.jsonl.zst\"\n";

    fn check(&self, say: &mut Complaints) {
        if self.path.is_empty() {
            say.about("path", "must name a file or a pattern");
        }
        if self.max_line_bytes.0 == 0 {
            say.about("max_line_bytes", "must be at least 1 byte");
        }
    }

    fn build(self, parts: &Parts) -> Result<Built, Error> {
        Ok(Built::Stage(Box::new(Read {
            layout: Arc::new(Layout { shape: self.shape, roles: self.roles.clone() }),
            settings: self,
            door: parts.door.clone(),
            run: Arc::clone(&parts.run_dir),
            stop: parts.stop.clone(),
            limit: parts.limit.unwrap_or(u64::MAX),
            progress: Arc::clone(&parts.progress),
            read: 0,
            bad: 0,
        })))
    }
}

struct Read {
    settings: Settings,
    layout: Arc<Layout>,
    door: Door,
    run: Arc<RunDir>,
    stop: Stop,
    limit: u64,
    progress: Arc<Progress>,
    /// Rows met in this session, done ones and bad ones included.
    read: u64,
    bad: u64,
}

/// Among the first this many rows, more bad ones than good ones mean that the file is not what it is taken for.
const FIRST: u64 = 100;

impl Stage for Read {
    fn run(mut self: Box<Self>, _inlet: Inlet, outlet: Outlet) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            match self.read_all(&outlet).await {
                Ok(ended) => ended,
                Err(error) => Ended::Failed(error),
            }
        })
    }
}

impl Read {
    async fn read_all(&mut self, outlet: &Outlet) -> Result<Ended, Error> {
        let files = Place::inputs(&self.settings.path).await?;
        self.refuse_own_output(&files).await?;
        self.progress.expects(files.iter().map(|file| file.bytes).sum());
        for file in &files {
            if self.read >= self.limit {
                break;
            }
            if let Some(ended) = self.read_file(file, outlet).await? {
                return Ok(ended);
            }
        }
        if self.read == 0 {
            let message = format!("`{}` holds no rows: check the path of the `read` stage", self.settings.path);
            return Err(Error::new(ErrorKind::FixInput, message));
        }
        self.progress.ends();
        Ok(Ended::Drained)
    }

    /// A pattern that also covers the sink would take in, at each new start, what the run itself has written.
    async fn refuse_own_output(&self, files: &[InputFile]) -> Result<(), Error> {
        let folders: BTreeMap<_, _> =
            files.iter().map(InputFile::folder).map(|place| (place.to_string(), place)).collect();
        for folder in folders.values() {
            if self.run.owns(folder).await? {
                let message =
                    format!("`{}` covers {folder}, where this run writes: name another `path`", self.settings.path);
                return Err(Error::new(ErrorKind::FixPipeline, message));
            }
        }
        Ok(())
    }

    /// Reads one file; `Some` if reading is to end with it.
    async fn read_file(&mut self, file: &InputFile, outlet: &Outlet) -> Result<Option<Ended>, Error> {
        let reader = self.progress.counted(file.open().await?);
        let limits = Limits { max_line_bytes: self.settings.max_line_bytes.0 };
        let mut rows = Ahead::open(reader, Arc::clone(&file.name), limits);
        loop {
            if self.read >= self.limit {
                return Ok(None);
            }
            let framed = tokio::select! {
                biased;
                () = self.stop.draining_begins() => return Ok(Some(Ended::Drained)),
                framed = rows.next() => match framed? {
                    Some(framed) => framed,
                    None => return Ok(None),
                },
            };
            self.read += 1;
            if let Err(Closed(record)) = self.hand_on(file, framed, outlet).await? {
                record.ticket.tell(End::Remaining);
                return Ok(Some(Ended::DownstreamClosed));
            }
        }
    }

    async fn hand_on(
        &mut self,
        file: &InputFile,
        framed: Framed,
        outlet: &Outlet,
    ) -> Result<Result<(), Closed>, Error> {
        let id = RecordId::new(Arc::clone(&file.name), framed.position, &framed.bytes);
        match self.run.done().contains(&id) {
            Ok(false) => {}
            Ok(true) => return Ok(Ok(())),
            Err(_) => {
                let message = format!(
                    "{id} is not the row that this run has done before: \
                                       restore the file, or start a new run with --run"
                );
                return Err(Error::new(ErrorKind::FixInput, message));
            }
        }
        let ticket = self.door.enter(id.clone(), framed.bytes.len()).await;
        let record = Record::new(id, framed.bytes, Arc::clone(&self.layout), ticket);
        let Some(problem) = framed.problem else { return Ok(outlet.pass(record).await) };
        self.bad += 1;
        let plainly_wrong = self.read <= FIRST && self.bad > FIRST / 2;
        if self.bad > self.settings.max_bad_rows || plainly_wrong {
            let message = too_many(&record.id, self.bad, self.read, &problem);
            record.ticket.tell(End::Remaining);
            return Err(Error::new(ErrorKind::FixInput, message));
        }
        Ok(outlet.aside(record, problem).await)
    }
}

fn too_many(id: &RecordId, bad: u64, read: u64, last: &Rejection) -> String {
    format!(
        "{bad} of the first {read} rows of {} cannot be read, the last one at {id} ({}: {}): \
         check the file, or raise `max_bad_rows` of the `read` stage",
        id.input, last.reason, last.detail
    )
}
