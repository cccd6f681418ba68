//! What an answer must say: patterns, JSON, the right final answer, an expression of the user's own.

#[cfg(feature = "schema")]
use super::schema::Schema;
use super::{Settings, language::Wanted, matches::Matcher, rules::prompt};
use crate::{
    error::{Error, ErrorKind},
    record::{Completion, Reason, Record, Rejection, Thinking},
    setting::Complaints,
    stage::expression::{Expression, names_of_row},
};
use regex::Regex;
use serde_json::{Map, Value, json};

/// The rules about what an answer says, ready to be held against it.
#[derive(Default)]
pub struct Content {
    answer: Option<Regex>,
    reasoning: Option<Regex>,
    json: bool,
    #[cfg(feature = "schema")]
    schema: Option<Schema>,
    language: Option<Wanted>,
    matches: Option<Matcher>,
    expression: Option<Expression>,
}

/// Says what cannot be read in the settings these rules are made of.
pub fn check(settings: &Settings, say: &mut Complaints) {
    for (key, pattern) in [("regex", &settings.regex), ("reasoning_regex", &settings.reasoning_regex)] {
        if let Some(Err(error)) = pattern.as_deref().map(Regex::new) {
            say.about(key, format!("the pattern cannot be read: {}", one_line(&error)));
        }
    }
    if let Some(Err(error)) = settings.expression.as_deref().map(Expression::new) {
        say.about("expression", format!("is not an expression: {error}"));
    }
    if let Some(Err(error)) = settings.language.as_ref().map(Wanted::new) {
        say.about("language", error);
    }
    #[cfg(feature = "schema")]
    if let Some(Err(error)) = settings.json_schema.as_deref().map(Schema::new) {
        say.about("json_schema", format!("is not a JSON Schema: {error}"));
    }
    #[cfg(not(feature = "schema"))]
    if settings.json_schema.is_some() {
        say.about("json_schema", "this program was built without JSON Schema: build it with the feature `schema`");
    }
    if settings.matches.as_ref().is_some_and(|matches| matches.field.trim().is_empty()) {
        say.about("matches.field", "`field` is empty: name the row's field that holds the right answer");
    }
}

/// What is particular in a regex error: its last line, where the others draw the pattern.
fn one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim().trim_start_matches("error: ").trim_end_matches('.').to_owned()
}

impl Content {
    /// The error says which setting cannot be read.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let pattern = |key: &str, pattern: &Option<String>| {
            pattern.as_deref().map(Regex::new).transpose().map_err(|error| unreadable(key).because(error))
        };
        let expression = settings.expression.as_deref().map(Expression::new).transpose();
        let matches = settings.matches.clone().map(Matcher::new).transpose();
        Ok(Content {
            answer: pattern("regex", &settings.regex)?,
            reasoning: pattern("reasoning_regex", &settings.reasoning_regex)?,
            json: settings.json,
            #[cfg(feature = "schema")]
            schema: told("json_schema", settings.json_schema.as_deref().map(Schema::new))?,
            language: told("language", settings.language.as_ref().map(Wanted::new))?,
            matches: matches.map_err(|error| unreadable("matches").because(error))?,
            expression: expression.map_err(|error| unreadable("expression").because(error))?,
        })
    }

    /// Why `completion`, a reply to what `record` asks, does not say what it must, if it does not.
    pub fn objection(&self, completion: &Completion, record: &Record) -> Option<Rejection> {
        let thought = completion.reasoning.as_deref().unwrap_or_default();
        no_match("answer", self.answer.as_ref(), &completion.content)
            .or_else(|| no_match("thought", self.reasoning.as_ref(), thought))
            .or_else(|| self.not_json(&completion.content))
            .or_else(|| self.not_of_schema(&completion.content))
            .or_else(|| self.language.as_ref()?.objection(&completion.content, || prompt(record)))
            .or_else(|| self.matches.as_ref()?.objection(&completion.content, &record.row))
            .or_else(|| self.not_as_expressed(completion, record))
    }

    fn not_json(&self, answer: &str) -> Option<Rejection> {
        if !self.json {
            return None;
        }
        let error = serde_json::from_str::<serde::de::IgnoredAny>(answer).err()?;
        Some(Rejection::new(Reason::NotJson, error.to_string()))
    }

    #[cfg(feature = "schema")]
    fn not_of_schema(&self, answer: &str) -> Option<Rejection> {
        self.schema.as_ref()?.objection(answer)
    }

    #[cfg(not(feature = "schema"))]
    fn not_of_schema(&self, _answer: &str) -> Option<Rejection> {
        None
    }

    fn not_as_expressed(&self, completion: &Completion, record: &Record) -> Option<Rejection> {
        let expression = self.expression.as_ref()?;
        match names(completion, record).and_then(|names| expression.holds(&names)) {
            Ok(true) => None,
            Ok(false) => Some(Rejection::new(Reason::ExpressionFalse, format!("not {}", expression.text()))),
            Err(rejection) => Some(rejection),
        }
    }
}

/// What was made of the setting `key`, if it was set; a sentence becomes an error that names the key.
fn told<T>(key: &str, made: Option<Result<T, String>>) -> Result<Option<T>, Error> {
    made.transpose().map_err(|sentence| unreadable(key).because(std::io::Error::other(sentence)))
}

fn unreadable(key: &str) -> Error {
    Error::new(ErrorKind::FixPipeline, format!("validate: what stands under `{key}` cannot be read"))
}

fn no_match(what: &str, pattern: Option<&Regex>, text: &str) -> Option<Rejection> {
    let pattern = pattern.filter(|pattern| !pattern.is_match(text))?;
    Some(Rejection::new(Reason::NoMatch, format!("no match in the {what} for {pattern}")))
}

/// What an expression can speak of; where a field of the row has the same name, it is found in `row` only.
fn names(completion: &Completion, record: &Record) -> Result<Map<String, Value>, Rejection> {
    let mut names = names_of_row(record)?;
    let thinking = record.request.as_ref().map_or(Thinking::Unset, |request| request.thinking);
    let own = [
        ("answer", json!(completion.content)),
        ("reasoning", json!(completion.reasoning.as_deref().unwrap_or_default())),
        ("prompt", json!(prompt(record).unwrap_or_default())),
        ("finish_reason", json!(completion.finish.word())),
        ("usage", json!(completion.usage)),
        ("tool_calls", json!(completion.tool_calls)),
        ("thinking", json!(thinking)),
        ("model", json!(completion.model)),
    ];
    names.extend(own.map(|(name, value)| (name.to_owned(), value)));
    Ok(names)
}
