//! Does the answer fit a JSON Schema?

use crate::record::{Reason, Rejection};
use serde_json::Value;

/// A schema that answers are held against.
pub struct Schema(jsonschema::Validator);

impl Schema {
    /// Reads a schema. No other document is fetched: a `$ref` must lead to a place inside the schema itself.
    ///
    /// # Errors
    /// A sentence: what is not JSON, or no schema.
    pub fn new(text: &str) -> Result<Self, String> {
        let schema: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        // The patterns of a schema run over what a model wrote: only the engine without look-around is safe there.
        let options = jsonschema::options().offline().with_pattern_options(jsonschema::PatternOptions::regex());
        options.build(&schema).map(Schema).map_err(|error| error.to_string())
    }

    /// Why `answer` does not fit, if it does not.
    pub fn objection(&self, answer: &str) -> Option<Rejection> {
        let value: Value = match serde_json::from_str(answer) {
            Ok(value) => value,
            Err(error) => return Some(Rejection::new(Reason::NotJson, error.to_string())),
        };
        let error = self.0.validate(&value).err()?;
        let place = match error.instance_path().as_str() {
            "" => "the answer".to_owned(),
            path => path.to_owned(),
        };
        Some(Rejection::new(Reason::SchemaMismatch, format!("{place}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(schema: &str, answer: &str) -> Option<(Reason, String)> {
        let schema = Schema::new(schema).expect("a schema");
        schema.objection(answer).map(|rejection| (rejection.reason, rejection.detail))
    }

    #[test]
    fn an_answer_that_fits_passes_and_another_is_told_where_it_does_not() {
        let schema = r##"{
            "type": "object", "required": ["steps"], "additionalProperties": false,
            "properties": {"steps": {"type": "array", "items": {"$ref": "#/$defs/step"}}},
            "$defs": {"step": {"type": "string", "pattern": "^[a-z]+$"}}
        }"##;
        assert_eq!(reason(schema, r#" {"steps": ["mix", "bake"]} "#), None);
        let (word, detail) = reason(schema, r#"{"steps": ["mix", 3]}"#).expect("an objection");
        assert_eq!(word, Reason::SchemaMismatch);
        assert!(detail.starts_with("/steps/1: "), "{detail}");
        let (word, detail) = reason(schema, r#"{"steps": [], "more": 1}"#).expect("an objection");
        assert_eq!(word, Reason::SchemaMismatch);
        assert!(detail.starts_with("the answer: ") && detail.contains("more"), "{detail}");
        assert_eq!(reason(schema, "```json\n{}\n```").map(|(word, _)| word), Some(Reason::NotJson));
    }

    #[test]
    fn what_is_no_schema_is_refused_and_nothing_is_fetched() {
        for text in
            ["{", r#"{"type": "strin"}"#, r#"{"$ref": "http://127.0.0.1:9/schema.json"}"#, r#"{"pattern": "(?=a)"}"#]
        {
            assert!(Schema::new(text).is_err(), "{text}");
        }
    }
}
