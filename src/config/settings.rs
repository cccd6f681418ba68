//! Decodes one table into one settings type, in two steps: the table is held against the schema of the type, which
//! finds every unknown key and every value of a wrong type at once; then serde reads it, and the type's own `check`
//! is placed at the values it complains about.

use super::{
    Complaints,
    shape::{Key, Shape},
    text::{Table, Value},
};
use crate::diagnostic::{Diagnostic, nearest, suggest};
use std::ops::Range;
use toml::{Spanned, de::DeValue};

/// What was found wrong, and what must not be shown when it is.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) list: Vec<Diagnostic>,
    pub(super) hide: Vec<Range<usize>>,
}

/// Where a table stands, and what else may stand in it: what is needed to speak of it.
pub(super) struct Place<'a> {
    /// What the table is, as in "`max_token` is no key of `template`".
    pub(super) what: &'a str,
    /// Where to point if a key is not there.
    pub(super) span: Range<usize>,
    /// Names of keys that are read elsewhere but may have been meant.
    pub(super) also: &'a [&'a str],
}

impl Findings {
    /// Holds `table` against `shape`, with everything in it.
    pub(super) fn table(&mut self, table: &Table<'_>, shape: Shape<'_>, place: &Place<'_>) {
        let keys = shape.keys();
        let names = || keys.iter().map(|key| key.name).chain(place.also.iter().copied());
        let mut meant = Vec::new();
        for (name, value) in table {
            let name_span = name.span();
            let name: &str = name.get_ref();
            if let Some(key) = keys.iter().find(|key| key.name == name) {
                self.value(name, &format!("`{name}`"), value, key.shape);
            } else if !shape.open() {
                let near = nearest(name, names());
                meant.extend(near);
                if keys.iter().any(|key| Some(key.name) == near && is_secret(key.shape)) {
                    self.hide.push(value.span());
                }
                let message = format!("`{name}` is no key of {}", place.what);
                self.list.push(Diagnostic::new(message, name_span, "").maybe_help(suggest(name, names())));
            }
        }
        for key in keys.iter().filter(|key| key.required && !table.contains_key(key.name) && !meant.contains(&key.name))
        {
            self.list.push(missing(key, place));
        }
    }

    /// Holds the value of `key` against `shape`. `what` is the key in words, which for an element of a list is more.
    fn value(&mut self, key: &str, what: &str, value: &Value<'_>, shape: Shape<'_>) {
        let span = value.span();
        if is_secret(shape) {
            self.secret(key, value);
            return;
        }
        let fits = |form: &Shape<'_>| {
            let types = form.types();
            types.is_empty() || types.iter().any(|kind| is_of(kind, value.get_ref()))
        };
        let fitting: Vec<Shape<'_>> = shape.forms().into_iter().filter(fits).collect();
        if fitting.is_empty() {
            let label = format!("this is {}", in_words(value.get_ref()));
            self.list.push(Diagnostic::new(format!("{what} must be {}", shape.expects()), span, label));
            return;
        }
        match value.get_ref() {
            DeValue::String(text) => self.word(what, text, span, &fitting),
            DeValue::Integer(number) => self.number(what, number.as_str(), number.radix(), span, &fitting),
            DeValue::Float(number) => self.number(what, number.as_str(), 10, span, &fitting),
            DeValue::Array(items) => {
                if let [only] = fitting.as_slice()
                    && let Some(shape) = only.items()
                {
                    let what = format!("an element of `{key}`");
                    items.iter().for_each(|item| self.value(key, &what, item, shape));
                }
            }
            DeValue::Table(table) => {
                if let Some(form) = form_of(table, &fitting) {
                    self.table(table, form, &Place { what, span, also: &[] });
                }
            }
            _ => {}
        }
    }

    /// A secret is a table that says where it is; whatever else stands there is not shown.
    fn secret(&mut self, key: &str, value: &Value<'_>) {
        let named = |table: &Table<'_>| {
            let place = |word: &str| table.get(word).and_then(|value| value.get_ref().as_str().map(str::to_owned));
            table.len() == 1 && (place("env").is_some_and(|name| is_variable(&name)) || place("file").is_some())
        };
        if value.get_ref().as_table().is_some_and(named) {
            return;
        }
        self.hide.push(value.span());
        let message = format!("`{key}` must say where the secret is, and not what it is");
        self.list.push(Diagnostic::new(message, value.span(), "").help(format!(
            "files are shared and logged; write `{key} = {{ env = \"NAME\" }}` to take it from an environment \
             variable, or `{key} = {{ file = \"path\" }}` from a file"
        )));
    }

    /// A string where only some words will do.
    fn word(&mut self, what: &str, text: &str, span: Range<usize>, forms: &[Shape<'_>]) {
        let Some(words) = forms.iter().map(|form| form.words()).collect::<Option<Vec<_>>>() else { return };
        let words = words.concat();
        if !words.contains(&text) {
            let help = suggest(text, words.iter().copied());
            self.list.push(Diagnostic::new(format!("{what} cannot be `{text}`"), span, "").maybe_help(help));
        }
    }

    /// A number that is too small or too large for its type.
    fn number(&mut self, what: &str, text: &str, radix: u32, span: Range<usize>, forms: &[Shape<'_>]) {
        let [form] = forms else { return };
        #[expect(clippy::cast_precision_loss, reason = "limits are compared, not computed with")]
        let number = i64::from_str_radix(text, radix).map(|whole| whole as f64).or_else(|_| text.parse::<f64>());
        let Ok(number) = number else { return };
        let beyond = match form.limits() {
            (Some(least), _) if number < least => format!("at least {least}"),
            (_, Some(most)) if number > most => format!("at most {most}"),
            _ => return,
        };
        self.list.push(Diagnostic::new(format!("{what} must be {beyond}"), span, ""));
    }
}

/// Reads a table with serde. The only mistakes left are those that no schema can say.
pub(super) fn decode<T>(
    table: Table<'_>,
    span: Range<usize>,
    read: impl FnOnce(toml::de::ValueDeserializer<'_>) -> Result<T, toml::de::Error>,
) -> Result<T, Diagnostic> {
    let value = Spanned::new(span.clone(), DeValue::Table(table));
    read(toml::de::ValueDeserializer::from(value)).map_err(|error| {
        let (first, rest) = error.message().split_once('\n').unwrap_or((error.message(), ""));
        let help = (!rest.is_empty()).then(|| rest.replace('\n', "; "));
        Diagnostic::new(first, error.span().unwrap_or(span), "").maybe_help(help)
    })
}

/// Places what `check` said at the values it is about; at `span`, if the value is a default.
pub(super) fn placed(complaints: Complaints, table: &Table<'_>, span: &Range<usize>) -> Vec<Diagnostic> {
    let place =
        |(key, message): (String, String)| Diagnostic::new(message, locate(table, &key).unwrap_or(span.clone()), "");
    complaints.into_iter().map(place).collect()
}

/// Where the value at `path` stands, or the nearest one above it that is written down.
///
/// `on_reject.retry` is a key in a table in a key, `servers.2` the third element of a list.
pub(super) fn locate(table: &Table<'_>, path: &str) -> Option<Range<usize>> {
    let mut words = path.split('.');
    let mut value = table.get(words.next()?)?;
    for word in words {
        let inner = match value.get_ref() {
            DeValue::Table(table) => table.get(word),
            DeValue::Array(items) => word.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        match inner {
            Some(inner) => value = inner,
            None => break,
        }
    }
    Some(value.span())
}

fn missing(key: &Key<'_>, place: &Place<'_>) -> Diagnostic {
    let about = key.shape.description().split_whitespace().collect::<Vec<_>>().join(" ");
    let about = about.split_once(". ").map_or(about.as_str(), |(first, _)| first).trim_end_matches('.');
    let colon = if about.is_empty() { "" } else { ": " };
    let help = format!("add `{}`, {}{colon}{}", key.name, key.shape.expects(), uncapitalised(about));
    Diagnostic::new(format!("{} has no `{}`", place.what, key.name), place.span.clone(), "").help(help)
}

/// A sentence as part of another: "Where the rows are" begins small, "URLs of servers" does not.
fn uncapitalised(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => first.to_lowercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

fn is_secret(shape: Shape<'_>) -> bool {
    shape.mark("x-secret").is_some()
}

/// Whether a value is of a JSON type; a whole number is also a number.
fn is_of(kind: &str, value: &DeValue<'_>) -> bool {
    match value {
        DeValue::String(_) | DeValue::Datetime(_) => kind == "string",
        DeValue::Integer(_) => kind == "integer" || kind == "number",
        DeValue::Float(_) => kind == "number",
        DeValue::Boolean(_) => kind == "boolean",
        DeValue::Array(_) => kind == "array",
        DeValue::Table(_) => kind == "object",
    }
}

/// What a value is, in the words of `Shape::expects`.
fn in_words(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The one of several forms that has a key of the table; `None` if it is not clear which is meant.
fn form_of<'a>(table: &Table<'_>, forms: &[Shape<'a>]) -> Option<Shape<'a>> {
    if let [only] = forms {
        return Some(*only);
    }
    let mut likely = forms.iter().filter(|form| form.keys().iter().any(|key| table.contains_key(key.name)));
    likely.next().filter(|_| likely.next().is_none()).copied()
}

/// True if `name` can be that of an environment variable: a key that was pasted there most often cannot.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
