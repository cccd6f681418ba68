//! [`Expression`]: a condition that a user writes over what is known of a record.
//!
//! The language is that of Jinja: `source == "web" and messages|length < 4`. What a row does not have counts as
//! undefined: false, and unequal to everything.

use crate::record::{Reason, Record, Rejection};
use minijinja::{Environment, UndefinedBehavior, value::Serde};
use serde_json::{Map, Value};

/// Steps an expression may take for one record.
const FUEL: u64 = 100_000;

/// A condition that can be read.
pub(super) struct Expression {
    engine: Environment<'static>,
    text: String,
}

impl Expression {
    /// Reads `text`; the error says why it is no expression.
    pub(super) fn new(text: &str) -> Result<Self, minijinja::Error> {
        let mut engine = Environment::new();
        engine.set_undefined_behavior(UndefinedBehavior::Chainable);
        engine.set_fuel(Some(FUEL));
        engine.compile_expression(text)?;
        Ok(Expression { engine, text: text.to_owned() })
    }

    /// Whether it is true with these names; a rejection with [`Reason::BadExpression`] if that cannot be worked out.
    pub(super) fn holds(&self, names: &Map<String, Value>) -> Result<bool, Rejection> {
        let worked_out = self.engine.compile_expression(&self.text).and_then(|compiled| compiled.eval(Serde(names)));
        match worked_out {
            Ok(value) => Ok(value.is_true()),
            Err(error) => Err(Rejection::new(Reason::BadExpression, error.to_string())),
        }
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// The names every expression has: the row's fields under their own names, and all together in `row`.
pub(super) fn names_of_row(record: &Record) -> Result<Map<String, Value>, Rejection> {
    let row: Value =
        serde_json::from_slice(&record.row).map_err(|error| Rejection::new(Reason::InvalidJson, error.to_string()))?;
    let mut names = row.as_object().cloned().unwrap_or_default();
    names.insert("row".to_owned(), row);
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, row: &str) -> Result<bool, Reason> {
        let names = names_of_row(&Record::unbound(row.to_owned())).expect("a row");
        Expression::new(text).expect("an expression").holds(&names).map_err(|rejection| rejection.reason)
    }

    #[test]
    fn fields_stand_under_their_own_names_and_in_row() {
        assert_eq!(holds("n > 2 and row.n == 3", r#"{"n":3}"#), Ok(true));
        assert_eq!(holds("missing.deeper == 1", r#"{"n":3}"#), Ok(false));
    }

    #[test]
    fn one_that_fails_or_does_not_end_is_a_rejection() {
        assert_eq!(holds("n + text > 3", r#"{"n":3,"text":"x"}"#), Err(Reason::BadExpression));
        assert_eq!(holds("range(100000)|map('upper')|list|length > 0", "{}"), Err(Reason::BadExpression));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        assert!(Expression::new("source = 'web'").is_err());
    }
}
