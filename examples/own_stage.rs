//! A kind of stage of one's own, and the whole program with it:
//!
//! ```sh
//! cargo run --example own_stage -- check examples/own_stage.toml
//! cargo run --example own_stage -- run examples/own_stage.toml
//! cargo run --example own_stage -- schema
//! ```
//!
//! From here on it is as if it were built in: its mistakes are shown with carets, it stands in the schema, it runs on
//! `workers`, and what it rejects is set aside with its reason.

use clap::Parser;
use forebay::{
    Error, cli,
    edge::Route,
    record::{Reason, Record, Rejection},
    setting::Complaints,
    stage::{Built, Kinds, Knowledge, Parts, Settings, Transform},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{process::ExitCode, sync::Arc};

/// Sets answers aside that have fewer words than `words`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MinWords {
    /// An answer with fewer words is set aside.
    words: usize,
}

impl Settings for MinWords {
    const KIND: &'static str = "min_words";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Completion];
    const EXAMPLE: &'static str = "[[stage]]\nkind = \"min_words\"\nwords = 20\n";

    fn check(&self, say: &mut Complaints) {
        if self.words == 0 {
            say.about("words", "must be at least 1");
        }
    }

    fn build(self, _: &Parts) -> Result<Built, Error> {
        Ok(Built::Transform(Arc::new(self)))
    }
}

impl Transform for MinWords {
    fn apply(&self, record: Record) -> Route {
        let answer = record.completion().map_or("", |completion| &completion.content);
        let words = answer.split_whitespace().count();
        if words < self.words {
            return Route::Aside(record, Rejection::new(Reason::TooShort, format!("{words} words")));
        }
        Route::Pass(record)
    }
}

fn main() -> ExitCode {
    cli::main(cli::Command::parse(), &Kinds::builtin().with::<MinWords>())
}
