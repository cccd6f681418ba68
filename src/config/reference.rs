//! What can be written into a pipeline file, from the settings types themselves: a JSON schema for editors and a
//! reference for people.

use super::{
    case::Case,
    head::{Common, Head},
    shape::{Shape, Type},
};
use crate::{
    fleet::FleetSettings,
    pipeline::PlannedStage,
    stage::{Kind, Kinds},
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The JSON schema (draft 2020-12) of a whole pipeline file.
pub fn schema(kinds: &Kinds) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut file = Head::json_schema(&mut generator).to_value();
    let fleet = generator.subschema_for::<FleetSettings>().to_value();
    let stages: Vec<Value> = kinds.iter().map(|kind| stage_schema(kind, &mut generator)).collect();
    let test = json!({
        "description": "Answers, and what the `validate` stages are to say of them.",
        "type": "array",
        "items": Case::json_schema(&mut generator).to_value(),
    });
    let stage = json!({
        "description": "The chain, from `read` to `sink`.",
        "type": "array",
        "items": { "oneOf": stages },
    });
    if let Some(file) = file.as_object_mut() {
        file.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        file.insert("title".to_owned(), "A Forebay pipeline".into());
        file.insert("$defs".to_owned(), generator.take_definitions(true).into());
        let keys = file.entry("properties").or_insert_with(|| json!({}));
        if let Some(keys) = keys.as_object_mut() {
            keys.insert("fleet".to_owned(), fleet);
            keys.insert("stage".to_owned(), stage);
            keys.insert("test".to_owned(), test);
        }
        if let Some(required) = file.entry("required").or_insert_with(|| json!([])).as_array_mut() {
            required.push("stage".into());
        }
    }
    file
}

/// One kind of stage: the keys all stages have, and its own.
fn stage_schema(kind: &Kind, generator: &mut SchemaGenerator) -> Value {
    let common = Common::json_schema(generator).to_value();
    let mut own = (kind.schema)(generator).to_value();
    let mut keys = common.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    keys.insert("kind".to_owned(), json!({ "const": kind.name, "description": "What the stage does." }));
    keys.extend(own.get("properties").and_then(Value::as_object).cloned().unwrap_or_default());
    let required = own.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let required: Vec<Value> = std::iter::once(Value::from("kind")).chain(required).collect();
    if let Some(own) = own.as_object_mut() {
        own.insert("title".to_owned(), kind.name.into());
        own.insert("type".to_owned(), "object".into());
        own.insert("properties".to_owned(), keys.into());
        own.insert("required".to_owned(), required.into());
        own.insert("additionalProperties".to_owned(), false.into());
    }
    own
}

/// A `[[test]]` table that fits the example of `validate`.
const TEST: &str = r#"[[test]]
name = "an answer that was cut is no answer"
answer = "The first reason is"
finish_reason = "length"
expect = "truncated"
"#;

/// The reference of the pipeline file in Markdown: every key with its type, default and meaning.
pub fn reference(kinds: &Kinds) -> String {
    let mut page = String::from(
        "# The pipeline file\n\n\
         This page is written by `forebay schema --reference` from the program itself.\n\n\
         Every value can be set on the command line: `--set stage.template.max_tokens=8192`, `--set fleet.model=x`, \
         `--set run=runs/second`. In every string `${NAME}` is replaced from the environment, and `$${` stands for \
         `${`.\n",
    );
    section(&mut page, "The file itself", "", Type::of::<Head>().shape());
    section(&mut page, "`[fleet]`", "", Type::of::<FleetSettings>().shape());
    section(&mut page, "`[[stage]]`", "", Type::of::<Common>().shape());
    for kind in kinds.iter() {
        section(&mut page, &format!("`kind = \"{}\"`", kind.name), kind.example, Type::of_kind(kind).shape());
    }
    section(&mut page, "`[[test]]`", TEST, Type::of::<Case>().shape());
    page
}

fn section(page: &mut String, title: &str, example: &str, shape: Shape<'_>) {
    page.push_str(&format!("\n## {title}\n\n{}\n", shape.description()));
    if !example.is_empty() {
        page.push_str(&format!("\n```toml\n{}\n```\n", example.trim()));
    }
    let mut rows = String::new();
    keys(&mut rows, "", shape, 0);
    if !rows.is_empty() {
        page.push_str(&format!("\n| key | value | default | meaning |\n|---|---|---|---|\n{rows}"));
    }
}

/// One row for each key, and for each key of a table in it.
fn keys(rows: &mut String, before: &str, shape: Shape<'_>, depth: usize) {
    for key in shape.keys() {
        let name = format!("{before}{}", key.name);
        let default = match key.shape.default() {
            _ if key.required => "required".to_owned(),
            None | Some(Value::Null) => String::new(),
            Some(value) => format!("`{}`", toml_value(value)),
        };
        let expects = cell(&key.shape.expects());
        rows.push_str(&format!("| `{name}` | {expects} | {default} | {} |\n", meaning(key.shape)));
        let tables = key.shape.forms().into_iter().chain(key.shape.items().into_iter().flat_map(Shape::forms));
        for table in tables.filter(|_| depth < 2) {
            keys(rows, &format!("{name}."), table, depth + 1);
        }
    }
}

/// The description, with that of each word it may be.
fn meaning(shape: Shape<'_>) -> String {
    let mut text = shape.description().to_owned();
    for form in shape.forms() {
        if let (Some([word]), about) = (form.words().as_deref(), form.description())
            && !about.is_empty()
        {
            text.push_str(&format!(" `{word}`: {about}"));
        }
    }
    cell(&text)
}

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// A JSON value as it is written in a pipeline file.
pub(super) fn toml_value(value: &Value) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Object(table) => {
            let given = table.iter().filter(|(_, value)| !value.is_null());
            let inside = list(given.map(|(key, value)| format!("{key} = {}", toml_value(value))).collect());
            if inside.is_empty() { "{}".to_owned() } else { format!("{{ {inside} }}") }
        }
        Value::Array(items) => format!("[{}]", list(items.iter().map(toml_value).collect())),
        other => other.to_string(),
    }
}

/// The settings of a stage that are not what they are by default, as `key = value`.
pub(crate) fn settings_beyond_defaults(stage: &PlannedStage) -> Vec<String> {
    let schema = Type::of_kind(&stage.kind);
    let defaults: Map<String, Value> = schema
        .shape()
        .keys()
        .iter()
        .filter_map(|key| Some((key.name.to_owned(), key.shape.default()?.clone())))
        .collect();
    let Value::Object(settings) = stage.settings.to_json() else { return Vec::new() };
    let told = settings.iter().filter(|(key, value)| !value.is_null() && defaults.get(*key) != Some(value));
    told.map(|(key, value)| format!("{key} = {}", toml_value(value))).collect()
}
