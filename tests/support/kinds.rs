//! Kinds of stage to test pipeline files with: the names of the real ones, but keys that change only with the tests.

use forebay::{
    Error, ErrorKind,
    setting::{self, Complaints},
    stage::{Built, Kinds, Knowledge, Parts, Settings},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All of them.
pub fn kinds() -> Kinds {
    Kinds::builtin()
        .with::<Read>()
        .with::<Filter>()
        .with::<Template>()
        .with::<Dispatch>()
        .with::<Validate>()
        .with::<Sink>()
}

fn never() -> Result<Built, Error> {
    Err(Error::new(ErrorKind::Bug, "a test kind is never built"))
}

/// Reads rows.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// Where the rows are.
    path: String,
}

impl Settings for Read {
    const KIND: &'static str = "read";
    const GIVES: &'static [Knowledge] = &[Knowledge::Row];
    const MOVES_RECORDS: bool = true;
    const EXAMPLE: &'static str = "";
    fn build(self, _parts: &Parts) -> Result<Built, Error> {
        never()
    }
}

/// Lets some rows through.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Which rows.
    keep: Keep,
    /// Where the others go.
    #[serde(default)]
    others: Option<String>,
}

/// Which rows.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Those without an answer.
    EmptyResponse,
    /// All.
    Everything,
}

impl Settings for Filter {
    const KIND: &'static str = "filter";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Row];
    const EXAMPLE: &'static str = "";
    fn around(&self) -> Option<&str> {
        self.others.as_deref()
    }
    fn build(self, _parts: &Parts) -> Result<Built, Error> {
        never()
    }
}

/// Makes requests.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// How long answers may get.
    #[serde(default)]
    max_tokens: u32,
    /// How much chance there is.
    #[serde(default)]
    temperature: Option<f64>,
    /// Whether the model is to think.
    #[serde(default)]
    thinking: bool,
    /// Where an answer ends.
    #[serde(default)]
    stop: Vec<String>,
}

impl Settings for Template {
    const KIND: &'static str = "template";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Row];
    const GIVES: &'static [Knowledge] = &[Knowledge::Request];
    const EXAMPLE: &'static str = "";
    fn check(&self, say: &mut Complaints) {
        if self.temperature.is_some_and(|t| !(0.0..=2.0).contains(&t)) {
            say.about("temperature", "`temperature` must be 0 to 2");
        }
    }
    fn build(self, _parts: &Parts) -> Result<Built, Error> {
        never()
    }
}

/// Asks servers.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dispatch {
    /// How long to wait.
    #[serde(default)]
    grace: Option<setting::Duration>,
}

impl Settings for Dispatch {
    const KIND: &'static str = "dispatch";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Request];
    const GIVES: &'static [Knowledge] = &[Knowledge::Completion];
    const MOVES_RECORDS: bool = true;
    const EXAMPLE: &'static str = "";
    fn build(self, _parts: &Parts) -> Result<Built, Error> {
        never()
    }
}

/// Judges answers.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validate {
    /// What to do with bad ones.
    #[serde(default)]
    on_reject: OnReject,
}

/// What to do with bad answers.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnReject {
    /// How often they are asked again.
    retry: u32,
}

impl Settings for Validate {
    const KIND: &'static str = "validate";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Completion];
    const GIVES: &'static [Knowledge] = &[Knowledge::Verdict];
    const EXAMPLE: &'static str = "";
    fn check(&self, say: &mut Complaints) {
        if self.on_reject.retry > 100 {
            say.about("on_reject.retry", "`retry` must be at most 100");
        }
    }
    fn retries(&self) -> u32 {
        self.on_reject.retry
    }
    fn build(self, _parts: &Parts) -> Result<Built, Error> {
        never()
    }
}

/// Writes rows.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// Where to.
    path: String,
}

impl Settings for Sink {
    const KIND: &'static str = "sink";
    const MOVES_RECORDS: bool = true;
    const EXAMPLE: &'static str = "";
    fn build(self, _parts: &Parts) -> Result<Built, Error> {
        never()
    }
}
