//! Built into every run: writes what was set aside, with its reason, its attempts and the raw replies.

use crate::{
    edge::AsideInlet,
    error::{Error, ErrorKind},
    journal::{PartFiles, PartFormat, PartLimits, RunDir},
    record::{Attempt, End, Family, Reason, Record, Rejection},
};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};

/// Where rejected records go: `<run>/aside/part-00000.jsonl` and so on.
pub struct AsideWriter {
    run: Arc<RunDir>,
}

/// Aside rows are few and worth seeing soon.
const LIMITS: PartLimits = PartLimits { rows: 10_000, bytes: 64 << 20, age: Duration::from_secs(30) };

impl AsideWriter {
    /// A writer into the run's directory.
    pub fn new(run: Arc<RunDir>) -> Self {
        AsideWriter { run }
    }

    /// Writes until every stage has ended.
    pub async fn run(self, inlet: AsideInlet) -> Result<(), Error> {
        let folder = self.run.place().join("aside");
        let mut parts = PartFiles::open(folder, "aside", self.run, PartFormat::Jsonl, LIMITS).await?;
        loop {
            let due = parts.due();
            let next = tokio::select! {
                next = inlet.next() => next,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    parts.commit().await?;
                    continue;
                }
            };
            let Some((record, rejection)) = next else { break };
            let end = end(rejection.reason);
            let line = serde_json::to_vec(&Entry::new(&record, &rejection, end)).map_err(|error| {
                Error::new(ErrorKind::Bug, format!("{} could not be written aside", record.id)).because(error)
            })?;
            parts.add(&line, record.id, end, record.ticket).await?;
        }
        parts.commit().await
    }
}

/// Under what heading a reason is counted.
fn end(reason: Reason) -> End {
    match reason.family() {
        Family::Input => End::BadInput(reason),
        Family::Row | Family::Answer => End::Rejected(reason),
        Family::Reply => End::Failed(reason),
    }
}

/// One line of an aside file. The row is there as JSON where it is that, else as text, else as base64.
#[derive(Serialize)]
struct Entry<'a> {
    input: &'a str,
    row: u64,
    end: &'static str,
    reason: Reason,
    detail: &'a str,
    attempts: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl<'a> Entry<'a> {
    fn new(record: &'a Record, rejection: &'a Rejection, end: End) -> Entry<'a> {
        // What the user asked to be dropped is named and counted, but not stored a second time.
        let row: &[u8] = if rejection.reason == Reason::FilteredOut { b"" } else { &record.row };
        let text = std::str::from_utf8(row).ok().filter(|text| !text.is_empty());
        let content = text.and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        Entry {
            input: &record.id.input,
            row: record.id.row,
            end: end.word(),
            reason: rejection.reason,
            detail: &rejection.detail,
            attempts: record.attempts.iter().map(attempt).collect(),
            content,
            text: text.filter(|_| content.is_none()),
            base64: (text.is_none() && !row.is_empty()).then(|| BASE64_STANDARD.encode(row)),
        }
    }
}

fn attempt(attempt: &Attempt) -> Value {
    let completion = attempt.completion.as_ref();
    json!({
        "number": attempt.number,
        "server": attempt.server,
        "seed": attempt.seed,
        "started_ms": attempt.started_ms,
        "seconds": attempt.seconds,
        "fault": attempt.fault,
        "detail": attempt.detail,
        "finish_reason": completion.map(|completion| completion.finish.word()),
        "usage": completion.map(|completion| completion.usage),
        "answer": completion.map(|completion| completion.content.as_str()),
        "reasoning": completion.and_then(|completion| completion.reasoning.as_deref()),
        "raw": String::from_utf8_lossy(&attempt.raw),
    })
}
