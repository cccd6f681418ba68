//! `sink`: the dataset as it is to be, in part files that are whole or not there.

use super::{Built, Ended, Knowledge, Parts, Stage};
use crate::{
    edge::{Closed, Inlet, Outlet},
    error::Error,
    fleet::Fleet,
    format::shape,
    journal::{PartFiles, PartFormat, PartLimits, RunDir},
    record::{Attempt, End, Record, Rejection, Request},
    setting::{Complaints, Duration, Size},
    store::Place,
};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{borrow::Cow, sync::Arc};
use tokio::time::{Instant, sleep_until};

/// Writes the rows: the answer where the row's shape has it, the thought beside it as `reasoning_content`, and where
/// it all came from in one object called `forebay`. Every other byte of a row stays as it was read.
///
/// A part appears under its name only when it is whole.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The folder the parts go to, on this machine or in an object store.
    pub path: String,
    /// How rows are written.
    #[serde(default)]
    pub format: Format,
    /// Rows in a part at most.
    #[serde(default = "part_rows")]
    #[schemars(extend("x-content" = false))]
    pub part_rows: u64,
    /// Size of a part at most, before compression.
    #[serde(default = "part_size")]
    #[schemars(extend("x-content" = false))]
    pub part_size: Size,
    /// A part is closed when its first row has waited this long.
    #[serde(default = "part_age")]
    #[schemars(extend("x-content" = false))]
    pub part_age: Duration,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Format {
    /// One JSON text a line.
    #[serde(rename = "jsonl")]
    Jsonl,
    /// The same, compressed with zstd.
    #[default]
    #[serde(rename = "jsonl.zst")]
    JsonlZst,
}

fn part_rows() -> u64 {
    100_000
}

fn part_size() -> Size {
    Size(256 << 20)
}

fn part_age() -> Duration {
    Duration(std::time::Duration::from_secs(300))
}

impl Settings {
    /// Writes to the folder `path`, with everything else as it is by default.
    pub fn new(path: impl Into<String>) -> Self {
        Settings {
            path: path.into(),
            format: Format::default(),
            part_rows: part_rows(),
            part_size: part_size(),
            part_age: part_age(),
        }
    }
}

impl super::Settings for Settings {
    const KIND: &'static str = "sink";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Row];
    const MOVES_RECORDS: bool = true;
    const EXAMPLE: &'static str = "[[stage]]\nkind = \"sink\"\npath = \"out/regenerated\"\n";

    fn check(&self, say: &mut Complaints) {
        if self.path.is_empty() {
            say.about("path", "must name a folder");
        }
        if self.part_rows == 0 {
            say.about("part_rows", "must be at least 1");
        }
        if self.part_size.0 == 0 {
            say.about("part_size", "must be at least 1 byte");
        }
    }

    fn build(self, parts: &Parts) -> Result<Built, Error> {
        Ok(Built::Stage(Box::new(Sink {
            folder: Place::parse(&self.path)?,
            run: Arc::clone(&parts.run_dir),
            fleet: parts.fleet.clone(),
            format: match self.format {
                Format::Jsonl => PartFormat::Jsonl,
                Format::JsonlZst => PartFormat::JsonlZst,
            },
            limits: PartLimits { rows: self.part_rows, bytes: self.part_size.0, age: self.part_age.0 },
        })))
    }
}

struct Sink {
    folder: Place,
    run: Arc<RunDir>,
    fleet: Option<Arc<Fleet>>,
    format: PartFormat,
    limits: PartLimits,
}

impl Stage for Sink {
    fn run(self: Box<Self>, inlet: Inlet, outlet: Outlet) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            match self.write_all(&inlet, &outlet).await {
                Ok(ended) => ended,
                Err(error) => Ended::Failed(error),
            }
        })
    }
}

impl Sink {
    async fn write_all(self, inlet: &Inlet, outlet: &Outlet) -> Result<Ended, Error> {
        let mut parts =
            PartFiles::open(self.folder.clone(), "output", Arc::clone(&self.run), self.format, self.limits).await?;
        loop {
            let due = parts.due();
            let record = tokio::select! {
                record = inlet.next() => record,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    parts.commit().await?;
                    continue;
                }
            };
            let Some(record) = record else { break };
            let line = match line(&record) {
                Ok(line) => line,
                Err(rejection) => {
                    if let Err(Closed(record)) = outlet.aside(record, rejection).await {
                        record.ticket.tell(End::Remaining);
                        return Ok(Ended::DownstreamClosed);
                    }
                    continue;
                }
            };
            if let (Some(fleet), Some(attempt)) = (&self.fleet, record.attempts.last()) {
                fleet.accepted(&attempt.server);
            }
            let end = if record.forwarded { End::Forwarded } else { End::Accepted };
            let line = line.into_owned();
            parts.add(&line, record.id, end, record.ticket).await?;
        }
        parts.commit().await?;
        Ok(Ended::Drained)
    }
}

/// The row as it is to be written, without its line end.
fn line(record: &Record) -> Result<Cow<'_, [u8]>, Rejection> {
    let (Some(attempt), Some(request)) = (record.attempts.last(), &record.request) else {
        return Ok(shape::one_line(&record.row));
    };
    let Some(completion) = &attempt.completion else { return Ok(shape::one_line(&record.row)) };
    let answered = shape::with_answer(
        &record.row,
        &record.layout,
        &completion.content,
        completion.reasoning.as_deref(),
        completion.tool_calls.as_ref(),
        &provenance(attempt, request),
    )?;
    Ok(Cow::Owned(shape::one_line(&answered).into_owned()))
}

/// Where an answer came from: the object that stands in its row as `forebay`.
fn provenance(attempt: &Attempt, request: &Request) -> Value {
    let completion = attempt.completion.as_ref();
    let sampling: serde_json::Map<String, Value> = request
        .body
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "messages" | "prompt" | "tools"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    json!({
        "server": attempt.server,
        "model": completion.and_then(|completion| completion.model.as_deref()),
        "thinking": request.thinking,
        "sampling": sampling,
        "seed": attempt.seed,
        "attempt": attempt.number,
        "finish_reason": completion.map(|completion| completion.finish.word()),
        "usage": completion.map(|completion| completion.usage),
        "started_ms": attempt.started_ms,
        "first_token_seconds": attempt.first_token_seconds,
        "seconds": attempt.seconds,
    })
}
