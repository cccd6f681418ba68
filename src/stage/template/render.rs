//! Chat templates: what a model's own template makes of a conversation, rendered as transformers renders it.
//!
//! The environment is the one transformers documents for chat templates: blocks take their line with them
//! (`trim_blocks`, `lstrip_blocks`), loop controls, methods of Python's texts, lists and maps, `raise_exception`,
//! `strftime_now`, and a `tojson` without escapes for HTML. What a template may do is bounded, for it comes from
//! outside and meets rows from outside.

use super::{clock::Moment, tojson::tojson};
use crate::{
    error::{Error, ErrorKind},
    record::{Chat, Reason, Rejection},
};
use minijinja::{Environment, ErrorKind as Trouble, Value as Any, syntax::SyntaxConfig, value::Serde};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde_json::{Map, Value};
use std::{fs::File, io::Read, path::Path};

/// A chat template, read and compiled.
pub struct ChatTemplate {
    engine: Environment<'static>,
    /// Variables that are the same for every row: special tokens, thinking.
    variables: Map<String, Value>,
}

/// The template for conversations without tools, or for all.
const DEFAULT: &str = "default";
/// The template for conversations with tools, where a model has two.
const TOOL_USE: &str = "tool_use";
/// Steps of one rendering; a long conversation takes some ten thousand.
const FUEL: u64 = 5_000_000;
/// Larger files are no templates and no tokenizer configurations.
const FILE_BYTES: u64 = 64 << 20;
/// The special tokens a template may name.
const TOKENS: [&str; 4] = ["bos_token", "eos_token", "unk_token", "pad_token"];

impl ChatTemplate {
    /// Reads a template: a `tokenizer_config.json` (its `chat_template`, a text or a list of named ones, and its
    /// special tokens), or else a file that is the template itself. Such a one finds its special tokens in the
    /// `tokenizer_config.json` beside it, if there is one.
    pub fn read(path: &Path, moment: Moment) -> Result<Self, Error> {
        let text = read_text(path)?;
        if path.extension().is_some_and(|extension| extension == "json") {
            let config = read_config(path, &text)?;
            return ChatTemplate::new(templates_of(path, &config)?, tokens_of(&config), moment)
                .map_err(|error| unreadable(path, "its `chat_template` is no template").because(error));
        }
        let beside = path.with_file_name("tokenizer_config.json");
        let tokens = match beside.is_file() {
            true => tokens_of(&read_config(&beside, &read_text(&beside)?)?),
            false => Map::new(),
        };
        ChatTemplate::new(vec![(DEFAULT.to_owned(), text)], tokens, moment)
            .map_err(|error| unreadable(path, "it is no template").because(error))
    }

    /// Compiles named templates.
    fn new(
        templates: Vec<(String, String)>,
        variables: Map<String, Value>,
        moment: Moment,
    ) -> Result<Self, minijinja::Error> {
        let mut engine = Environment::new();
        if templates.iter().any(|(_, source)| source.trim().is_empty()) {
            return Err(minijinja::Error::new(Trouble::InvalidOperation, "the template is empty"));
        }
        engine.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        engine.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        engine.set_unknown_method_callback(unknown_method_callback);
        engine.set_fuel(Some(FUEL));
        engine.add_filter("tojson", tojson);
        engine.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(Trouble::InvalidOperation, message))
        });
        engine.add_function("strftime_now", move |pattern: &str| {
            moment.format(pattern).map_err(|unknown| minijinja::Error::new(Trouble::InvalidOperation, unknown))
        });
        for (name, source) in templates {
            engine.add_template_owned(name, source)?;
        }
        Ok(ChatTemplate { engine, variables })
    }

    /// The same template with more variables, such as `enable_thinking`.
    #[must_use]
    pub fn with(mut self, variables: Map<String, Value>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// The prompt for `chat`, up to where the model speaks. A conversation the template refuses is rejected with
    /// what the template says.
    pub fn render(&self, chat: &Chat) -> Result<String, Rejection> {
        let refuse = |error: minijinja::Error| Rejection::new(Reason::TemplateError, explain(&error));
        let messages = chat.messages.iter().map(message).collect();
        let mut variables = self.variables.clone();
        variables.insert("messages".to_owned(), Value::Array(messages));
        variables.insert("tools".to_owned(), chat.tools.clone().unwrap_or_default());
        variables.insert("documents".to_owned(), Value::Null);
        variables.insert("add_generation_prompt".to_owned(), Value::Bool(true));
        let template = match chat.tools {
            Some(_) => self.engine.get_template(TOOL_USE).or_else(|_| self.engine.get_template(DEFAULT)),
            None => self.engine.get_template(DEFAULT),
        };
        template.and_then(|template| template.render(Any::from(Serde(variables)))).map_err(refuse)
    }
}

/// A turn as a template sees it. Arguments of tool calls that are a text of JSON become what the text says, as the
/// servers do it before they render.
fn message(turn: &crate::record::Message) -> Value {
    let mut turn = serde_json::to_value(turn).unwrap_or_default();
    let calls = turn.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten() {
        let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
        if let Some(Ok(object @ Value::Object(_))) = arguments.as_str().map(serde_json::from_str::<Value>) {
            *arguments = object;
        }
    }
    turn
}

/// What a rendering failed of: the template's own words, and where it says them.
fn explain(error: &minijinja::Error) -> String {
    let words = match (error.kind(), error.detail()) {
        (Trouble::OutOfFuel, _) => "the template does not come to an end".to_owned(),
        (Trouble::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    match error.line() {
        Some(line) => format!("{words} (line {line} of the template)"),
        None => words,
    }
}

fn unreadable(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::FixInput, format!("cannot use {} as chat template: {what}", path.display()))
}

fn read_text(path: &Path) -> Result<String, Error> {
    let missing = |error: std::io::Error| {
        let what = format!("cannot read {} (`template_file`)", path.display());
        Error::new(ErrorKind::FixPipeline, what).because(error)
    };
    let file = File::open(path).map_err(missing)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(missing)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(unreadable(path, "it is larger than 64 MiB"));
    }
    String::from_utf8(bytes).map_err(|error| unreadable(path, "it is not UTF-8").because(error))
}

fn read_config(path: &Path, text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|error| unreadable(path, "it is not JSON").because(error))
}

/// The templates of a tokenizer configuration, by name.
fn templates_of(path: &Path, config: &Value) -> Result<Vec<(String, String)>, Error> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let templates: Vec<(String, String)> = match config.get("chat_template") {
        Some(Value::String(source)) => vec![(DEFAULT.to_owned(), source.clone())],
        Some(Value::Array(list)) => {
            list.iter().filter_map(|entry| Some((text(entry.get("name"))?, text(entry.get("template"))?))).collect()
        }
        _ => return Err(unreadable(path, "it has no `chat_template`; name the model's chat_template.jinja instead")),
    };
    match templates.iter().any(|(name, _)| name == DEFAULT) {
        true => Ok(templates),
        false => Err(unreadable(path, "none of its templates is called \"default\"")),
    }
}

/// The special tokens of a tokenizer configuration: a text each, or an object with the text under `content`.
fn tokens_of(config: &Value) -> Map<String, Value> {
    let token = |name: &str| {
        let token = config.get(name)?;
        let text = token.as_str().or_else(|| token.get("content")?.as_str())?;
        Some((name.to_owned(), Value::from(text)))
    };
    TOKENS.into_iter().filter_map(token).collect()
}

#[cfg(test)]
mod tests;
