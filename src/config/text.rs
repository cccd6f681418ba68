//! The pipeline file's text as a table whose every key and value knows where it was said, and `${VAR}` from the
//! environment.

use crate::diagnostic::{Diagnostic, Sources};
use std::ops::Range;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A table with the places of its keys and values.
pub(super) type Table<'t> = DeTable<'t>;
/// A value with its place.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// Reads the text of a file, the first of the `sources`, into a table. A text that is no TOML yields one diagnostic.
pub(super) fn parse<'t>(sources: &mut Sources, text: &'t str) -> Result<Table<'t>, Diagnostic> {
    DeTable::parse(text).map(Spanned::into_inner).map_err(|error| {
        hide_keys(sources, text);
        let (first, rest) = error.message().split_once('\n').unwrap_or((error.message(), ""));
        let help = (!rest.is_empty()).then(|| rest.replace('\n', "; "));
        Diagnostic::new(first, error.span().unwrap_or(0..0), "").maybe_help(help)
    })
}

/// Covers whatever follows `api_key =` in a text that cannot be read, so that its rendering shows no secret.
fn hide_keys(sources: &mut Sources, text: &str) {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some((key, value)) = line.split_once('=').filter(|(key, _)| key.contains("api_key")) {
            let from = at + key.len() + 1;
            sources.hide(from..from + value.trim_end().len());
        }
        at += line.len();
    }
}

/// Replaces `${VAR}` in every string of `table` by what `look` knows of it; `$${` stays as `${`.
///
/// Values are replaced after parsing, so that no environment variable can add keys, and places stay true. Returns
/// where the values stand that could not be filled in.
pub(super) fn substitute(
    table: &mut Table<'_>,
    sources: &Sources,
    look: &dyn Fn(&str) -> Option<String>,
    say: &mut Vec<Diagnostic>,
) -> Vec<Range<usize>> {
    let mut unfilled = Vec::new();
    let mut open: Vec<&mut Value<'_>> = table.iter_mut().map(|(_, value)| value).collect();
    while let Some(value) = open.pop() {
        let span = value.span();
        match value.get_mut() {
            DeValue::String(text) if text.contains("${") => {
                let (filled, faults) = fill(text, look);
                if !faults.is_empty() {
                    unfilled.push(span.clone());
                }
                for (part, fault, help) in faults {
                    say.push(Diagnostic::new(fault, find(sources, span.clone(), &part), "").help(help));
                }
                *text = filled.into();
            }
            DeValue::Array(items) => open.extend(items.iter_mut()),
            DeValue::Table(table) => open.extend(table.iter_mut().map(|(_, value)| value)),
            _ => {}
        }
    }
    unfilled
}

/// Where `part` stands inside `span`; all of the span if it is written otherwise there.
fn find(sources: &Sources, span: Range<usize>, part: &str) -> Range<usize> {
    match sources.text(span.clone()).find(part) {
        Some(at) => span.start + at..span.start + at + part.len(),
        None => span,
    }
}

/// `text` with its variables replaced; and for each that cannot be, its text, what is wrong and what helps.
fn fill(text: &str, look: &dyn Fn(&str) -> Option<String>) -> (String, Vec<(String, String, String)>) {
    let mut filled = String::new();
    let mut faults = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = after;
            continue;
        }
        filled.push_str(before);
        let (name, behind) = after.split_once('}').unwrap_or((after, ""));
        let known = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
        rest = if known && after.len() > name.len() { behind } else { after };
        match look(name) {
            _ if !known || after.len() == name.len() => faults.push((
                "${".to_owned(),
                "`${` does not begin the name of an environment variable".to_owned(),
                "write `${NAME}`, or `$${` where the text itself is to hold `${`".to_owned(),
            )),
            Some(value) => filled.push_str(&value),
            None => faults.push((
                format!("${{{name}}}"),
                format!("the environment variable `{name}` is not set"),
                format!("set it, as in `{name}=… forebay …`, or write `$${{` for a text that is to hold `${{`"),
            )),
        }
    }
    filled.push_str(rest);
    (filled, faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(name: &str) -> Option<String> {
        (name == "BUCKET").then(|| "s3://b".to_owned())
    }

    #[test]
    fn variables_are_replaced_and_doubled_dollars_are_not() {
        assert_eq!(fill("${BUCKET}/x/${BUCKET}", &look).0, "s3://b/x/s3://b");
        assert_eq!(fill("cost $5, $${BUCKET} é", &look).0, "cost $5, ${BUCKET} é");
    }

    #[test]
    fn what_cannot_be_replaced_is_said() {
        assert!(fill("${NOPE}", &look).1[0].1.contains("`NOPE` is not set"));
        for text in ["${", "a ${}", "${a b}", "${BUCKET"] {
            assert!(fill(text, &look).1[0].1.contains("does not begin the name"), "{text}");
        }
    }

    #[test]
    fn a_variable_cannot_add_keys_and_its_place_stays_true() {
        let text = "a = 1\nb = [\"é${NOPE}\"]\nc = \"${TRICK}\"\n";
        let mut sources = Sources::default();
        sources.add("f", text);
        let mut table = parse(&mut sources, text).expect("it is TOML");
        let mut say = Vec::new();
        let look = |name: &str| (name == "TRICK").then(|| "\"\nd = 1".to_owned());
        substitute(&mut table, &sources, &look, &mut say);
        assert_eq!(table.len(), 3);
        assert_eq!(table.get("c").and_then(|c| c.get_ref().as_str()), Some("\"\nd = 1"));
        assert_eq!(sources.text(say[0].labels[0].span.clone()), "${NOPE}");
    }

    #[test]
    fn a_file_that_is_no_toml_does_not_show_its_key() {
        let text = "[fleet]\napi_key = sk-secret\n";
        let mut sources = Sources::default();
        sources.add("f", text);
        assert!(parse(&mut sources, text).is_err());
        assert!(!sources.text(0..text.len()).contains("sk-secret"));
    }
}
