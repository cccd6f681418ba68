//! `filter`: which rows go on, and which go round or out.

use super::{
    Built, Knowledge, Parts, Transform,
    expression::{Expression, names_of_row},
};
use crate::{
    edge::Route,
    error::{Error, ErrorKind},
    format::shape,
    record::{Reason, Record, Rejection},
    setting::Complaints,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Keeps the rows that `keep` picks; the others go round to a later stage, or are dropped.
///
/// `keep` is `empty_response` (the row has no answer, or one with nothing to see in it), or an expression over the
/// row: `source == "web" and messages|length < 4`. In an expression, the row's fields stand under their own names and
/// all together in `row`; `empty_response`, `prompt_chars` and `answer_chars` are worked out. Fields that a row does
/// not have count as undefined: false, and unequal to everything.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Which rows go on to the next stage: `empty_response`, or an expression.
    pub keep: String,
    /// Where the others go: the name of a later stage, or `drop`.
    #[serde(default = "drop_others")]
    pub others: String,
}

fn drop_others() -> String {
    DROP.to_owned()
}

const DROP: &str = "drop";

/// The word for rows that need an answer.
const EMPTY_RESPONSE: &str = "empty_response";

impl super::Settings for Settings {
    const KIND: &'static str = "filter";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Row];
    const EXAMPLE: &'static str = "[[stage]]\nkind = \"filter\"\nkeep = \"empty_response\"\nothers = \"sink\"\n";

    fn check(&self, say: &mut Complaints) {
        if let Err(error) = Expression::new(&self.keep) {
            say.about("keep", format!("is not an expression: {error}"));
        }
    }

    fn around(&self) -> Option<&str> {
        Some(self.others.as_str()).filter(|others| *others != DROP)
    }

    fn build(self, _: &Parts) -> Result<Built, Error> {
        Ok(Built::Transform(Arc::new(Filter::new(&self)?)))
    }
}

struct Filter {
    keep: Keep,
    drop_others: bool,
}

enum Keep {
    EmptyResponse,
    Expression(Box<Expression>),
}

impl Filter {
    fn new(settings: &Settings) -> Result<Filter, Error> {
        let keep = if settings.keep.trim() == EMPTY_RESPONSE {
            Keep::EmptyResponse
        } else {
            let expression = Expression::new(&settings.keep).map_err(|error| {
                Error::new(ErrorKind::FixPipeline, format!("`keep = {:?}` is not an expression", settings.keep))
                    .because(error)
            })?;
            Keep::Expression(Box::new(expression))
        };
        Ok(Filter { keep, drop_others: settings.others == DROP })
    }

    fn keeps(&self, record: &Record) -> Result<bool, Rejection> {
        match &self.keep {
            Keep::EmptyResponse => Ok(shape::answer(&record.row, &record.layout)?.is_needed()),
            Keep::Expression(expression) => expression.holds(&names(record)?),
        }
    }
}

/// What an expression of a filter can speak of.
fn names(record: &Record) -> Result<Map<String, Value>, Rejection> {
    let mut names = names_of_row(record)?;
    // A row that holds no chat can still be filtered by its other fields.
    if let Ok(answer) = shape::answer(&record.row, &record.layout) {
        names.insert(EMPTY_RESPONSE.to_owned(), answer.is_needed().into());
        names.insert("answer_chars".to_owned(), answer.chars().into());
    }
    if let Ok(chars) = shape::prompt_chars(&record.row, &record.layout) {
        names.insert("prompt_chars".to_owned(), chars.into());
    }
    Ok(names)
}

impl Transform for Filter {
    fn apply(&self, record: Record) -> Route {
        match self.keeps(&record) {
            Ok(true) => Route::Pass(record),
            Ok(false) if self.drop_others => Route::Aside(record, Reason::FilteredOut.into()),
            Ok(false) => Route::Around(record),
            Err(rejection) => Route::Aside(record, rejection),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(keep: &str, row: &str) -> &'static str {
        let settings = Settings { keep: keep.to_owned(), others: "sink".to_owned() };
        match Filter::new(&settings).expect("an expression").apply(Record::unbound(row.to_owned())) {
            Route::Pass(_) => "pass",
            Route::Around(_) => "around",
            Route::Aside(_, rejection) => rejection.reason.word(),
        }
    }

    const EMPTY: &str =
        r#"{"n":3,"source":"web","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":""}]}"#;
    const FULL: &str = r#"{"n":9,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello."}]}"#;

    #[test]
    fn rows_without_an_answer_pass_and_the_others_go_round() {
        assert_eq!(route("empty_response", EMPTY), "pass");
        assert_eq!(route("empty_response", FULL), "around");
        assert_eq!(route("empty_response", r#"{"a":1}"#), "unknown_shape");
    }

    #[test]
    fn an_expression_sees_the_fields_of_the_row() {
        assert_eq!(route("source == 'web' and messages|length == 2", EMPTY), "pass");
        assert_eq!(route("source == 'web'", FULL), "around");
        assert_eq!(route("row.n > 5 or empty_response", FULL), "pass");
        assert_eq!(route("answer_chars > 5 and prompt_chars == 2", FULL), "pass");
        assert_eq!(route("missing.deeper == 1", FULL), "around");
    }

    #[test]
    fn an_expression_that_fails_on_a_row_sets_it_aside() {
        assert_eq!(route("n + source > 3", EMPTY), "bad_expression");
    }

    #[test]
    fn an_expression_without_end_is_stopped() {
        assert_eq!(route("range(100000)|map('upper')|list|length > 0", FULL), "bad_expression");
    }

    #[test]
    fn what_is_no_expression_is_complained_about() {
        let mut say = Complaints::default();
        let settings = Settings { keep: "source = 'web'".to_owned(), others: drop_others() };
        super::super::Settings::check(&settings, &mut say);
        assert!(!say.is_empty());
    }
}
