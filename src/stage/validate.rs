//! `validate`: which answers may go into the dataset.

mod outcome;
mod repetition;
mod rules;

pub use outcome::OnReject;

use super::{Built, Knowledge, Parts, Transform};
use crate::{
    edge::Route,
    error::{Error, ErrorKind},
    record::{Reason, Record, Rejection, Verdict},
    setting::Complaints,
};
use regex::Regex;
use rules::Rules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Judges each answer; a bad one is asked again or set aside, with the reason.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What an answer must be. `answer` is always required, also when the list leaves it out.
    #[serde(default = "usual")]
    pub require: Vec<Requirement>,
    /// Further finish reasons that mean the model was done, for servers that say `eos_token` where OpenAI's API has
    /// `stop`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finish_words: Vec<String>,
    /// The least number of characters the answer has, blanks around it not counted. Unless given, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_answer_chars: Option<u64>,
    /// The greatest number of tokens the answer has, as the server counted them; those of the thought do not count
    /// where the server tells them apart. An answer whose tokens the server did not count passes. Unless given, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_answer_tokens: Option<u64>,
    /// A regular expression that must match somewhere in the answer; write `^…$` for all of it. The syntax is that of
    /// Rust's `regex` crate: no look-around, no back-references. Unless given, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Whether the answer must be one JSON value and nothing else.
    #[serde(default)]
    pub json: bool,
    /// What happens to a bad answer: `"aside"` sets the record aside at once, `{ retry = 2 }` asks again up to two
    /// times, each time with another seed, and then sets it aside.
    #[serde(default)]
    pub on_reject: OnReject,
}

/// What an answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// There is an answer, it is where it belongs, and the model did as it was told: not empty, not in the reasoning
    /// field, no thought where thinking was off, no markers left in the text, no call of a tool that was not offered.
    Answer,
    /// The model says it was done: not cut at `max_tokens`, and no unknown finish reason.
    Finished,
    /// A thought that was opened is closed.
    ClosedThinking,
    /// Where thinking was on, there is a thought.
    Thinking,
    /// Neither the answer nor the thought repeats itself without end. Tables, refrains and lists pass; an answer that
    /// says one sentence a hundred times because it was asked to does not.
    NotDegenerate,
}

/// What is required unless the pipeline file says otherwise: all but a thought.
fn usual() -> Vec<Requirement> {
    use Requirement::{Answer, ClosedThinking, Finished, NotDegenerate};
    vec![Answer, Finished, ClosedThinking, NotDegenerate]
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            require: usual(),
            finish_words: Vec::new(),
            min_answer_chars: None,
            max_answer_tokens: None,
            regex: None,
            json: false,
            on_reject: OnReject::default(),
        }
    }
}

impl super::Settings for Settings {
    const KIND: &'static str = "validate";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Completion];
    const GIVES: &'static [Knowledge] = &[Knowledge::Verdict];
    const EXAMPLE: &'static str = r#"[[stage]]
kind = "validate"
require = ["answer", "finished", "closed_thinking", "not_degenerate"]
on_reject = { retry = 2 }
"#;

    fn check(&self, say: &mut Complaints) {
        if let Some(Err(error)) = self.regex.as_deref().map(Regex::new) {
            say.about("regex", format!("the pattern cannot be read: {}", one_line(&error)));
        }
        if self.max_answer_tokens == Some(0) {
            say.about("max_answer_tokens", "no answer has 0 tokens; leave the key out for no limit");
        }
    }

    fn retries(&self) -> u32 {
        self.on_reject.retries()
    }

    fn build(self, _parts: &Parts) -> Result<Built, Error> {
        Ok(Built::Transform(Arc::new(Validate::new(self)?)))
    }
}

/// What is particular in a regex error: its last line, where the others draw the pattern.
fn one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim().trim_start_matches("error: ").trim_end_matches('.').to_owned()
}

/// The stage.
pub(super) struct Validate {
    rules: Rules,
}

impl Validate {
    /// With every setting as it is by default.
    pub(super) fn by_default() -> Self {
        Validate { rules: Rules { settings: Settings::default(), pattern: None } }
    }

    fn new(settings: Settings) -> Result<Self, Error> {
        let pattern = settings.regex.as_deref().map(Regex::new).transpose().map_err(|error| {
            Error::new(ErrorKind::FixPipeline, "validate: the pattern under `regex` cannot be read").because(error)
        })?;
        Ok(Validate { rules: Rules { settings, pattern } })
    }
}

impl Transform for Validate {
    fn apply(&self, mut record: Record) -> Route {
        match self.objection(&record) {
            None => {
                record.verdict = Some(Verdict::Accept);
                Route::Pass(record)
            }
            Some(rejection) => {
                record.verdict = Some(Verdict::Reject(rejection.clone()));
                Route::Aside(record, rejection)
            }
        }
    }
}

impl Validate {
    /// Why the record's answer may not go into the dataset, if it may not.
    fn objection(&self, record: &Record) -> Option<Rejection> {
        let Some(attempt) = record.attempts.last() else {
            return Some(Rejection::new(Reason::Empty, "no server was asked"));
        };
        match &attempt.completion {
            Some(completion) => self.rules.objection(completion, record.request.as_deref()),
            None => Some(Rejection::new(attempt.fault.unwrap_or(Reason::Empty), attempt.detail.as_str())),
        }
    }
}

#[cfg(test)]
mod tests;
