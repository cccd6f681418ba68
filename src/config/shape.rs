//! What a table may hold, read from the JSON schema that `schemars` derives from a settings type.

use crate::stage::Kind;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

/// The schema of one settings type, with all that it refers to.
pub(super) struct Type {
    node: Value,
    definitions: Map<String, Value>,
}

impl Type {
    /// The schema of `T`.
    pub(super) fn of<T: JsonSchema>() -> Self {
        Type::make(T::json_schema)
    }

    /// The schema of the settings of a kind of stage.
    pub(super) fn of_kind(kind: &Kind) -> Self {
        Type::make(kind.schema)
    }

    fn make(schema: impl FnOnce(&mut SchemaGenerator) -> Schema) -> Self {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let node = schema(&mut generator).to_value();
        Type { node, definitions: generator.take_definitions(true) }
    }

    /// What a table of this type may hold.
    pub(super) fn shape(&self) -> Shape<'_> {
        Shape { node: &self.node, definitions: &self.definitions }
    }
}

/// A place in a schema: one setting, and what its value may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    node: &'a Value,
    definitions: &'a Map<String, Value>,
}

/// One key of a table.
#[derive(Debug)]
pub(super) struct Key<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// What its value may be.
    pub(super) shape: Shape<'a>,
    /// True if there is no default.
    pub(super) required: bool,
}

impl<'a> Shape<'a> {
    /// What the doc comment says; the setting's own before that of its type.
    pub(super) fn description(self) -> &'a str {
        let own = self.node.get("description").and_then(Value::as_str);
        own.or_else(|| self.resolved().node.get("description").and_then(Value::as_str)).unwrap_or("")
    }

    /// The value that is taken if none is given.
    pub(super) fn default(self) -> Option<&'a Value> {
        self.node.get("default")
    }

    /// A mark that the type carries, such as `x-secret` or `x-expects`.
    pub(super) fn mark(self, name: &str) -> Option<&'a Value> {
        self.node.get(name).or_else(|| self.forms().into_iter().find_map(|form| form.node.get(name)))
    }

    /// The keys of a table of this shape; empty if it is no table, or one with any keys.
    pub(super) fn keys(self) -> Vec<Key<'a>> {
        let node = self.resolved().node;
        let required = |name: &str| {
            let list = node.get("required").and_then(Value::as_array);
            list.is_some_and(|list| list.iter().any(|item| item == name))
        };
        let keys = node.get("properties").and_then(Value::as_object).into_iter().flatten();
        keys.map(|(name, node)| Key { name, shape: Shape { node, ..self }, required: required(name) }).collect()
    }

    /// True if a table of this shape takes any key.
    pub(super) fn open(self) -> bool {
        let node = self.resolved().node;
        match node.get("additionalProperties") {
            Some(more) => more != &Value::Bool(false),
            None => node.get("type").is_none_or(|kind| kind != "object"),
        }
    }

    /// What each element of a list of this shape may be.
    pub(super) fn items(self) -> Option<Shape<'a>> {
        self.resolved().node.get("items").map(|node| Shape { node, ..self })
    }

    /// The ways a value may look: alternatives apart, references followed, `null` (TOML has none) left out.
    pub(super) fn forms(self) -> Vec<Shape<'a>> {
        let node = self.resolved().node;
        let choices = ["anyOf", "oneOf"].into_iter().find_map(|word| node.get(word)).and_then(Value::as_array);
        match choices {
            Some(choices) => choices.iter().flat_map(|node| Shape { node, ..self }.forms()).collect(),
            None if node.get("type").is_some_and(|kind| kind == "null") => Vec::new(),
            None => vec![Shape { node, ..self }],
        }
    }

    /// The JSON types this one form may have; empty if it may have any.
    pub(super) fn types(self) -> Vec<&'a str> {
        match self.node.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect(),
            _ if self.node.get("enum").is_some() || self.node.get("const").is_some() => vec!["string"],
            _ => Vec::new(),
        }
    }

    /// The words this one form is limited to; `None` if any string will do.
    pub(super) fn words(self) -> Option<Vec<&'a str>> {
        if let Some(word) = self.node.get("const") {
            return Some(word.as_str().into_iter().collect());
        }
        self.node.get("enum").and_then(Value::as_array).map(|list| list.iter().filter_map(Value::as_str).collect())
    }

    /// The smallest and the largest number this form may be.
    pub(super) fn limits(self) -> (Option<f64>, Option<f64>) {
        let limit = |word| self.node.get(word).and_then(Value::as_f64);
        let largest = match self.node.get("format").and_then(Value::as_str) {
            Some("uint8") => Some(f64::from(u8::MAX)),
            Some("uint16") => Some(f64::from(u16::MAX)),
            Some("uint32") => Some(f64::from(u32::MAX)),
            _ => None,
        };
        (limit("minimum"), limit("maximum").or(largest))
    }

    /// What is expected here, in words: "a whole number", "a list of strings", "`on` or `off`".
    pub(super) fn expects(self) -> String {
        if let Some(words) = self.mark("x-expects").and_then(Value::as_str) {
            return words.to_owned();
        }
        let mut ways: Vec<String> = Vec::new();
        for form in self.forms() {
            match form.words() {
                Some(words) => ways.extend(words.iter().map(|word| format!("`{word}`"))),
                None => ways.extend(form.types().into_iter().map(|kind| form.describe(kind))),
            }
        }
        ways.dedup();
        match ways.split_last() {
            None => "any value".to_owned(),
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
        }
    }

    fn describe(self, kind: &str) -> String {
        match (kind, self.items()) {
            ("array", Some(items)) => format!("a list of {}", plural(&items.expects())),
            ("array", None) => "a list".to_owned(),
            ("integer", _) => "a whole number".to_owned(),
            ("number", _) => "a number".to_owned(),
            ("boolean", _) => "true or false".to_owned(),
            ("object", _) => "a table".to_owned(),
            _ => "a string".to_owned(),
        }
    }

    /// The same, with a `$ref` followed (also one that is the only alternative to `null`).
    fn resolved(self) -> Shape<'a> {
        let mut node = self.node;
        // A chain of references longer than this is a circle.
        for _ in 0..16 {
            let name = node.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
            let only = node.get("anyOf").and_then(Value::as_array).and_then(|choices| {
                let mut real = choices.iter().filter(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
                real.next().filter(|_| real.next().is_none())
            });
            match name.and_then(|name| self.definitions.get(name)).or(only) {
                Some(next) => node = next,
                None => break,
            }
        }
        Shape { node, ..self }
    }
}

fn plural(thing: &str) -> String {
    match thing.strip_prefix("a ") {
        Some(noun) if !noun.contains(' ') || noun == "whole number" => format!("{noun}s"),
        _ => thing.to_owned(),
    }
}
