//! `validate`: which answers may go into the dataset.

mod content;
mod echo;
mod language;
mod matches;
mod number;
mod outcome;
mod refusal;
mod repetition;
mod rules;
#[cfg(feature = "schema")]
mod schema;

pub use language::Language;
pub use matches::Matches;
pub use outcome::OnReject;
pub use rules::rules_against;

use super::{Built, Knowledge, Parts, Transform};
use crate::{
    edge::Route,
    error::Error,
    record::{Reason, Record, Rejection, Verdict},
    setting::Complaints,
};
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
    /// The greatest number of characters the answer has, blanks around it not counted. Unless given, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_answer_chars: Option<u64>,
    /// The greatest number of tokens the answer has, as the server counted them; those of the thought do not count
    /// where the server tells them apart. An answer whose tokens the server did not count passes. Unless given, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_answer_tokens: Option<u64>,
    /// How many times as many characters as the answer the thought may have. Unless given, any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_think_ratio: Option<f64>,
    /// A regular expression that must match somewhere in the answer; write `^…$` for all of it. The syntax is that of
    /// Rust's `regex` crate: no look-around, no back-references. Unless given, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// The same for the thought; no thought counts as an empty one. Unless given, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_regex: Option<String>,
    /// Whether the answer must be one JSON value and nothing else.
    #[serde(default)]
    pub json: bool,
    /// A JSON Schema that the answer, as JSON, must fit, written as the JSON it is:
    /// `'''{"type": "object", "required": ["answer"]}'''`. Patterns in it have the syntax of `regex`, and a `$ref` may
    /// only lead to a place inside it. Unless given, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<String>,
    /// The language the answer must be in: `["en", "de"]` for any of these (ISO 639), `"as_prompt"` for that of the last
    /// turn. Blocks of code do not count, and what is too short or too mixed to tell passes. Unless given, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// The final answer must be the one that a field of the row holds: `{ field = "gold", how = "numeric" }`. Unless
    /// given, none is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<Matches>,
    /// An expression that must be true, in the language of `filter`: `answer|length > 3 * prompt|length`. It can speak
    /// of `answer`, `reasoning`, `prompt` (the last turn), `finish_reason`, `usage` (`prompt_tokens`,
    /// `completion_tokens`, `reasoning_tokens`), `tool_calls`, `thinking`, `model`, and of the row's fields as `filter`
    /// does. Unless given, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// More ways in which refusals begin, for `not_refusal`, which knows the usual English ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusal_phrases: Vec<String>,
    /// What happens to a bad answer: `"aside"` sets the record aside at once, `{ retry = 2 }` asks again up to two
    /// times, each time with another seed, and then sets it aside.
    #[serde(default)]
    pub on_reject: OnReject,
    /// The run stops itself when more than this share of the rows asked about are set aside, over 200 rows (50 at its
    /// beginning): most often `max_tokens`, a parser or a switch is wrong then. It can be resumed. 1 never stops.
    #[serde(default = "half")]
    #[schemars(range(min = 0, max = 1), extend("x-content" = false))]
    pub stop_when_rejected: f64,
}

fn half() -> f64 {
    0.5
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
    /// The answer does not begin as refusals do ("I'm sorry, but I can't help with that").
    NotRefusal,
    /// The answer is not the prompt again. Prompts of fewer than 20 letters may be answered alike.
    NotEcho,
}

/// What is required unless the pipeline file says otherwise: what no dataset wants.
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
            max_answer_chars: None,
            max_answer_tokens: None,
            max_think_ratio: None,
            regex: None,
            reasoning_regex: None,
            json: false,
            json_schema: None,
            language: None,
            matches: None,
            expression: None,
            refusal_phrases: Vec::new(),
            on_reject: OnReject::default(),
            stop_when_rejected: half(),
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
        content::check(self, say);
        if self.max_answer_tokens == Some(0) {
            say.about("max_answer_tokens", "no answer has 0 tokens; leave the key out for no limit");
        }
        if self.max_answer_chars.is_some_and(|most| most < self.min_answer_chars.unwrap_or(1)) {
            say.about("max_answer_chars", "no answer is that short and longer than `min_answer_chars` too");
        }
        if self.max_think_ratio.is_some_and(|most| !most.is_finite() || most < 0.0) {
            say.about("max_think_ratio", "must be 0 or more");
        }
        if !(0.0..=1.0).contains(&self.stop_when_rejected) {
            say.about("stop_when_rejected", "must be 0 to 1");
        }
        if !self.refusal_phrases.is_empty() && !self.require.contains(&Requirement::NotRefusal) {
            say.about("refusal_phrases", "nobody looks for refusals: add \"not_refusal\" to `require`");
        }
        if self.refusal_phrases.iter().any(|phrase| phrase.trim().is_empty()) {
            say.about("refusal_phrases", "an empty phrase begins every answer");
        }
    }

    fn retries(&self) -> u32 {
        self.on_reject.retries()
    }

    fn most_rejected(&self) -> Option<f64> {
        Some(self.stop_when_rejected).filter(|most| *most < 1.0)
    }

    fn judges(&self) -> Result<Option<Arc<dyn Transform>>, Error> {
        Ok(Some(Arc::new(Validate::new(self.clone())?)))
    }

    fn build(self, _parts: &Parts) -> Result<Built, Error> {
        Ok(Built::Transform(Arc::new(Validate::new(self)?)))
    }
}

/// The stage.
pub(super) struct Validate {
    rules: Rules,
}

impl Validate {
    /// With every setting as it is by default.
    pub(super) fn by_default() -> Self {
        Validate { rules: Rules::by_default() }
    }

    fn new(settings: Settings) -> Result<Self, Error> {
        Ok(Validate { rules: Rules::new(settings)? })
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
            Some(completion) => self.rules.objection(completion, record),
            None => Some(Rejection::new(attempt.fault.unwrap_or(Reason::Empty), attempt.detail.as_str())),
        }
    }
}

#[cfg(test)]
mod tests;
