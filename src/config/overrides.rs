//! `--set key.path=value`: what the command line says instead of the file.

use super::text::{Table, Value};
use crate::diagnostic::{Diagnostic, Sources, suggest};
use std::ops::Range;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// One argument of `--set`, cut into its parts.
pub(super) struct Override {
    /// The words before `=`, with their places.
    path: Vec<(String, Range<usize>)>,
    /// What stands behind it.
    value: String,
    /// The value as a TOML document `x=value`, set off so far that every place in it is one in the sources.
    document: String,
    span: Range<usize>,
}

impl Override {
    /// Adds the argument to the sources and cuts it up.
    pub(super) fn new(sources: &mut Sources, argument: &str) -> Result<Self, Diagnostic> {
        let start = sources.add("--set", argument);
        let whole = start..start + argument.len();
        let Some((path, value)) = argument.split_once('=') else {
            return Err(Diagnostic::new("there is no `=` in this argument of --set", whole, "")
                .help("write `--set stage.template.max_tokens=8192`"));
        };
        let mut at = start;
        let mut words = Vec::new();
        for word in path.split('.') {
            let name = word.trim();
            if name.is_empty() {
                return Err(Diagnostic::new("a key is missing here", at..at + word.len().max(1), "")
                    .help("write `--set stage.template.max_tokens=8192`"));
            }
            words.push((name.to_owned(), at..at + word.len()));
            at += word.len() + 1;
        }
        // `x=` is two bytes, and the path with its `=` at least as many: the value ends up at its own place.
        let document = format!("{}x={value}", " ".repeat((start + path.len() + 1).saturating_sub(2)));
        let from = start + path.len() + 1;
        Ok(Override { path: words, value: value.to_owned(), document, span: from..whole.end })
    }

    /// Puts the value into the table of the file.
    pub(super) fn apply<'t>(&'t self, table: &mut Table<'t>) -> Result<(), Diagnostic> {
        let mut words = self.path.as_slice();
        let table = match words {
            [(word, _), (name, span), rest @ ..] if word == "stage" => {
                words = rest;
                stage(table, name, span.clone())?
            }
            _ => table,
        };
        let [before @ .., (key, span)] = words else {
            let (_, span) = self.path.last().cloned().unwrap_or_default();
            return Err(Diagnostic::new("a key of the stage is missing here", span, "")
                .help("write `--set stage.template.max_tokens=8192`"));
        };
        let mut inner = table;
        for (word, span) in before {
            let next = inner
                .entry(Spanned::new(span.clone(), word.clone().into()))
                .or_insert_with(|| Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
            let place = next.span();
            let DeValue::Table(table) = next.get_mut() else {
                return Err(Diagnostic::new(format!("`{word}` has no keys"), span.clone(), "")
                    .see(place, "this is a plain value"));
            };
            inner = table;
        }
        inner.remove(key.as_str());
        inner.insert(Spanned::new(span.clone(), key.clone().into()), self.value());
        Ok(())
    }

    /// The value as TOML, or, where it is none, as a string.
    fn value(&self) -> Value<'_> {
        let parsed = DeTable::parse(&self.document).ok().map(Spanned::into_inner).filter(|table| table.len() == 1);
        parsed
            .and_then(|mut table| table.remove("x"))
            .unwrap_or_else(|| Spanned::new(self.span.clone(), DeValue::String(self.value.as_str().into())))
    }
}

/// The stage called `name`, or the one of that kind that has no name.
fn stage<'a, 't>(table: &'a mut Table<'t>, name: &str, span: Range<usize>) -> Result<&'a mut Table<'t>, Diagnostic> {
    let mut names = Vec::new();
    if let Some(DeValue::Array(stages)) = table.get_mut("stage").map(Spanned::get_mut) {
        for value in stages.iter_mut() {
            let DeValue::Table(stage) = value.get_mut() else { continue };
            let named = stage.get("name").or_else(|| stage.get("kind")).and_then(|value| value.get_ref().as_str());
            if named == Some(name) {
                return Ok(stage);
            }
            names.extend(named.map(str::to_owned));
        }
    }
    Err(Diagnostic::new(format!("there is no stage `{name}`"), span, "")
        .maybe_help(suggest(name, names.iter().map(String::as_str))))
}
