//! `[[test]]`: an answer, and what the pipeline's `validate` stages are to say of it. Tried whenever the file is read.

use super::{settings::locate, text::Table};
use crate::{
    diagnostic::{Diagnostic, nearest},
    fleet::{
        Outcome,
        classify::classify,
        wire::{Collector, Ending},
    },
    record::{Attempt, Reason, Record, Rejection, Request, Thinking},
    setting::Complaints,
    stage::Judge,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{ops::Range, sync::Arc};

/// An answer, and what the `validate` stages are to say of it. Tests are tried when the file is read, by `check` and
/// before a run; no server is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// What is tested, for people.
    #[serde(default)]
    pub(super) name: Option<String>,

    /// The row: a table, or a text of JSON. Unless given, an empty one.
    #[serde(default)]
    #[schemars(extend("x-expects" = "a table or a text of JSON"))]
    pub(super) row: Option<Value>,

    /// The answer, as a server sends it.
    #[serde(default)]
    pub(super) answer: String,

    /// The thought that the server sends beside it. Unless given, none.
    #[serde(default)]
    pub(super) reasoning: Option<String>,

    /// Why the model stopped: `stop`, `length`, or another word.
    #[serde(default = "stop")]
    pub(super) finish_reason: String,

    /// Whether the model was asked to think. Unless given, nothing was said about it.
    #[serde(default)]
    pub(super) thinking: Option<bool>,

    /// What is to come out: `accept`, or the word for why not (`truncated`, `refusal`; all are in `docs/words.md`).
    pub(super) expect: String,
}

const ACCEPT: &str = "accept";

fn stop() -> String {
    "stop".to_owned()
}

impl Case {
    /// Says everything that is wrong with the values, beyond their types.
    pub(super) fn check(&self, say: &mut Complaints) {
        if self.expect != ACCEPT && Reason::from_word(&self.expect).is_none() {
            let words = Reason::ALL.iter().map(|reason| reason.word()).chain([ACCEPT]);
            let help = match nearest(&self.expect, words) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`forebay schema --words` prints all words".to_owned(),
            };
            say.about("expect", format!("`{}` is neither `accept` nor a reason; {help}", self.expect));
        }
        if let Err(why) = self.row() {
            say.about("row", why);
        }
    }

    /// Tries the answer on the judge; the mistake is shown at what was expected.
    pub(super) fn try_on(&self, judge: &Judge, table: &Table<'_>, span: &Range<usize>) -> Option<Diagnostic> {
        let said = judge.objection(self.record());
        let word = said.as_ref().map_or(ACCEPT, |rejection| rejection.reason.word());
        if word == self.expect {
            return None;
        }
        let name = self.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
        let (message, label) = match said {
            None => (format!("the test{name} fails: the answer is accepted"), String::new()),
            Some(Rejection { reason, detail }) => {
                (format!("the test{name} fails: the answer is rejected as `{reason}`"), detail)
            }
        };
        let place = locate(table, "expect").unwrap_or_else(|| span.clone());
        Some(Diagnostic::new(message, place, label))
    }

    /// The row's text, or why it is none.
    fn row(&self) -> Result<String, String> {
        match &self.row {
            None => Ok("{}".to_owned()),
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(Value::Object(_)) => Ok(text.clone()),
                Ok(_) => Err("the row is not a JSON object".to_owned()),
                Err(error) => Err(format!("the row is not JSON: {error}")),
            },
            Some(table @ Value::Object(_)) => Ok(table.to_string()),
            Some(_) => Err("`row` must be a table or a text of JSON".to_owned()),
        }
    }

    /// The record as it comes out of `dispatch`: the answer goes through the same reading as every server's.
    fn record(&self) -> Record {
        let request = Request {
            path: "/v1/chat/completions",
            body: Map::new(),
            thinking: match self.thinking {
                Some(true) => Thinking::On,
                Some(false) => Thinking::Off,
                None => Thinking::Unset,
            },
            max_tokens: u32::MAX,
            run_seed: 0,
        };
        let message = json!({ "role": "assistant", "content": self.answer, "reasoning_content": self.reasoning });
        let reply = json!({ "choices": [{ "index": 0, "message": message, "finish_reason": self.finish_reason }] });
        let mut collector = Collector::new(false, JSON);
        collector.push(reply.to_string().as_bytes());
        let (completion, fault, detail) = match classify(200, JSON, None, &collector.finish(Ending::Whole), &request) {
            Outcome::Answer(completion) => (Some(completion), None, String::new()),
            Outcome::Fault(fault) => (None, Some(fault.reason), fault.detail),
        };
        let mut record = Record::unbound(self.row().unwrap_or_default());
        record.request = Some(Arc::new(request));
        record.attempts.push(Attempt {
            number: 0,
            server: "test".into(),
            seed: 0,
            started_ms: 0,
            seconds: 0.0,
            first_token_seconds: None,
            completion,
            fault,
            detail,
            raw: bytes::Bytes::new(),
        });
        record
    }
}

const JSON: &str = "application/json";
