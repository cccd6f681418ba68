//! Stages: the two shapes a step can have, what a user writes to get one, and the one list of kinds.
//!
//! To add a stage: one file with its [`Settings`] and its [`Transform`] (or [`Stage`]), and two lines here.

mod aside;
mod dispatch;
mod expression;
mod filter;
mod parts;
mod read;
mod sink;
mod template;
mod validate;
mod workers;

pub use aside::AsideWriter;
pub use dispatch::Settings as DispatchSettings;
pub use filter::Settings as FilterSettings;
pub use parts::{Judge, Parts};
pub use read::Settings as ReadSettings;
pub use sink::{Format as SinkFormat, Settings as SinkSettings};
pub use template::{Render, Settings as TemplateSettings};
pub use validate::{OnReject, Requirement, Settings as ValidateSettings, rules_against};
pub use workers::Workers;

use crate::{
    edge::{Inlet, Outlet, Route},
    error::Error,
    record::Record,
    setting::Complaints,
};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use std::sync::Arc;

/// A step that looks at one record at a time. It neither waits nor keeps anything between records, so that it can
/// be run on many workers, as a judge inside `dispatch`, and over stored rows.
pub trait Transform: Send + Sync {
    /// Says where the record goes.
    fn apply(&self, record: Record) -> Route;
}

/// A step that moves records itself: it takes from the inlet until that ends.
pub trait Stage: Send {
    /// Runs to the end of its input, or until nobody takes what it gives.
    fn run(self: Box<Self>, inlet: Inlet, outlet: Outlet) -> BoxFuture<'static, Ended>;
}

/// How a stage ended.
#[derive(Debug)]
pub enum Ended {
    /// Its input ended and all of it was dealt with.
    Drained,
    /// The stage after it has gone: a consequence, never reported as a cause.
    DownstreamClosed,
    /// It cannot go on.
    Failed(Error),
}

/// What a user writes in the pipeline file about one stage; it builds the stage.
///
/// The doc comments of its fields are the reference of the pipeline file.
pub trait Settings: Serialize + DeserializeOwned + JsonSchema + 'static {
    /// The word after `kind =`.
    const KIND: &'static str;
    /// What must be known of a record before this stage.
    const NEEDS: &'static [Knowledge] = &[];
    /// What is known of a record after it.
    const GIVES: &'static [Knowledge] = &[];
    /// True if it builds a [`Stage`], which cannot judge: none may stand between `dispatch` and a `validate` that
    /// asks again.
    const MOVES_RECORDS: bool = false;
    /// A complete `[[stage]]` table that parses, as an example.
    const EXAMPLE: &'static str;

    /// Says everything that is wrong with the values, beyond their types.
    fn check(&self, _say: &mut Complaints) {}

    /// The name of the later stage that records which go round this one join, if any do.
    fn around(&self) -> Option<&str> {
        None
    }

    /// How often a rejected answer is asked again; only `validate` says more than zero.
    fn retries(&self) -> u32 {
        0
    }

    /// The share of rows asked about, 0 to 1, that may end badly before the run stops itself; only `validate` names one.
    fn most_rejected(&self) -> Option<f64> {
        None
    }

    /// The stage alone, to try answers on, if it judges answers and does nothing else; only `validate` does.
    fn judges(&self) -> Result<Option<Arc<dyn Transform>>, Error> {
        Ok(None)
    }

    /// Makes the stage.
    fn build(self, parts: &Parts) -> Result<Built, Error>;
}

/// A stage, ready to be wired.
pub enum Built {
    /// A step that looks at one record at a time.
    Transform(Arc<dyn Transform>),
    /// A step that moves records itself.
    Stage(Box<dyn Stage>),
}

/// What stages can know of a record: what the plan checks instead of types on the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// The row as read.
    Row,
    /// What is to be asked.
    Request,
    /// What a server answered.
    Completion,
    /// Whether the answer is good.
    Verdict,
}

/// One entry of the list of kinds: what the rest of the program needs to know of a [`Settings`] type.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The word after `kind =`.
    pub name: &'static str,
    /// What must be known before it.
    pub needs: &'static [Knowledge],
    /// What is known after it.
    pub gives: &'static [Knowledge],
    /// Whether it builds a [`Stage`] and not a [`Transform`].
    pub moves_records: bool,
    /// A complete `[[stage]]` table.
    pub example: &'static str,
    /// Its keys, types and defaults.
    pub schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
    /// Reads a table (without the common keys) into settings.
    pub decode: fn(toml::de::ValueDeserializer<'_>) -> Result<Box<dyn AnySettings>, toml::de::Error>,
}

/// [`Settings`] with its type erased.
pub trait AnySettings: Send {
    /// See [`Settings::check`].
    fn check(&self, say: &mut Complaints);
    /// See [`Settings::around`].
    fn around(&self) -> Option<&str>;
    /// See [`Settings::retries`].
    fn retries(&self) -> u32;
    /// See [`Settings::most_rejected`].
    fn most_rejected(&self) -> Option<f64>;
    /// See [`Settings::judges`].
    fn judges(&self) -> Result<Option<Arc<dyn Transform>>, Error>;
    /// See [`Settings::build`].
    fn build(self: Box<Self>, parts: &Parts) -> Result<Built, Error>;
    /// The settings as JSON, defaults filled in: what `check` prints and fingerprints are made of.
    fn to_json(&self) -> serde_json::Value;
}

impl<S: Settings + Send> AnySettings for S {
    fn check(&self, say: &mut Complaints) {
        Settings::check(self, say);
    }
    fn around(&self) -> Option<&str> {
        Settings::around(self)
    }
    fn retries(&self) -> u32 {
        Settings::retries(self)
    }
    fn most_rejected(&self) -> Option<f64> {
        Settings::most_rejected(self)
    }
    fn judges(&self) -> Result<Option<Arc<dyn Transform>>, Error> {
        Settings::judges(self)
    }
    fn build(self: Box<Self>, parts: &Parts) -> Result<Built, Error> {
        Settings::build(*self, parts)
    }
    fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Kind {
    /// The entry for `S`.
    pub const fn of<S: Settings + Send>() -> Kind {
        Kind {
            name: S::KIND,
            needs: S::NEEDS,
            gives: S::GIVES,
            moves_records: S::MOVES_RECORDS,
            example: S::EXAMPLE,
            schema: S::json_schema,
            decode: |table| S::deserialize(table).map(|settings| Box::new(settings) as Box<dyn AnySettings>),
        }
    }
}

/// The judgement of a `validate` stage that says nothing of its own: what `audit`s and tests hold answers against.
pub fn validate_by_default() -> Arc<dyn Transform> {
    Arc::new(validate::Validate::by_default())
}

/// The kinds of stage there are: the built-in ones, and those a library user adds.
#[derive(Clone)]
pub struct Kinds(Vec<Kind>);

/// The one list.
const BUILTIN: &[Kind] = &[
    Kind::of::<read::Settings>(),
    Kind::of::<filter::Settings>(),
    Kind::of::<template::Settings>(),
    Kind::of::<dispatch::Settings>(),
    Kind::of::<validate::Settings>(),
    Kind::of::<sink::Settings>(),
];

impl Kinds {
    /// The kinds that come with Forebay.
    pub fn builtin() -> Self {
        Kinds(BUILTIN.to_vec())
    }

    /// These and one more; a kind of the same name is replaced.
    #[must_use]
    pub fn with<S: Settings + Send>(mut self) -> Self {
        self.0.retain(|kind| kind.name != S::KIND);
        self.0.push(Kind::of::<S>());
        self
    }

    /// The kind called `name`.
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.0.iter().find(|kind| kind.name == name)
    }

    /// All of them, in the order a chain usually has.
    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.0.iter()
    }
}
