//! `template`: what is asked of the model about a row, and how.

mod body;
mod clock;
mod history;
mod render;
mod tojson;

use super::{Built, Knowledge, Parts, Transform};
use crate::{
    edge::Route,
    error::{Error, ErrorKind},
    format::shape,
    record::{Chat, Message, Reason, Record, Rejection, Request, Role, Thinking},
    setting::Complaints,
};
use clock::Moment;
use render::ChatTemplate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{path::PathBuf, sync::Arc};

/// Makes the request: the row's conversation, how the model is to sample, and whether it is to think.
///
/// Every sampling setting is sent, also where it is the default: what a request leaves out, servers take from the
/// model's `generation_config.json`, so that two servers, or two versions of one, would sample differently unseen.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A system turn put first in conversations that have no system (or developer) turn. Unless given, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Whether the model is to think before it answers, for models whose chat template has such a switch. Sent as
    /// `chat_template_kwargs`. Unless given, nothing is said, and the model does as it is used to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// The name of that switch in the model's chat template: `enable_thinking` for Qwen and GLM, `thinking` for
    /// DeepSeek and Granite.
    #[serde(default = "enable_thinking")]
    pub thinking_key: String,
    /// Whether the thoughts of earlier turns are sent along, for models that are to see them. By default they are taken
    /// out of the model's turns before the last user turn, under whatever name or marker they stand there.
    #[serde(default)]
    pub earlier_thoughts: bool,
    /// How freely the model chooses, 0 to 2; 0 always takes the likeliest token.
    #[serde(default = "one")]
    pub temperature: f64,
    /// Only the likeliest tokens that together have this probability, above 0 and up to 1; 1 is off.
    #[serde(default = "one")]
    pub top_p: f64,
    /// Only so many of the likeliest tokens; -1 is off.
    #[serde(default = "off")]
    pub top_k: i64,
    /// Only tokens at least this likely in proportion to the likeliest, 0 to 1; 0 is off.
    #[serde(default)]
    pub min_p: f64,
    /// How much tokens that were said already are avoided, -2 to 2; 0 is off.
    #[serde(default)]
    pub presence_penalty: f64,
    /// The same, growing with how often they were said, -2 to 2; 0 is off.
    #[serde(default)]
    pub frequency_penalty: f64,
    /// The factor by which tokens of prompt and answer are made less likely, above 0; 1 is off.
    #[serde(default = "one")]
    pub repetition_penalty: f64,
    /// Texts at which the model stops; they are not part of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The most tokens the model may make for one answer, its thought included. There is no default: a server's own
    /// is its whole context, or as little as 16.
    pub max_tokens: u32,
    /// Further fields of the request body, sent as they are: what a server takes besides.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Who makes the prompt out of the conversation.
    #[serde(default)]
    pub render: Render,
    /// The model's chat template, for `render = "client"`: a `.jinja` file, or a `tokenizer_config.json` that has it
    /// as `chat_template`. The special tokens come from the `tokenizer_config.json`, which may also lie beside the
    /// `.jinja` file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_file: Option<PathBuf>,
}

/// Who makes the prompt out of the conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Render {
    /// The server, with its model's template: `/v1/chat/completions`.
    #[default]
    Server,
    /// Forebay, with `template_file`; the server gets one text: `/v1/completions`. The answer is then not taken
    /// apart by the server: thoughts stand in it with their markers.
    Client,
}

fn enable_thinking() -> String {
    "enable_thinking".to_owned()
}

fn one() -> f64 {
    1.0
}

fn off() -> i64 {
    -1
}

impl Settings {
    /// Asks for at most `max_tokens` tokens, with everything else as it is by default.
    pub fn new(max_tokens: u32) -> Self {
        Settings {
            system: None,
            thinking: None,
            thinking_key: enable_thinking(),
            earlier_thoughts: false,
            temperature: one(),
            top_p: one(),
            top_k: off(),
            min_p: 0.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: one(),
            stop: Vec::new(),
            max_tokens,
            extra: Map::new(),
            render: Render::default(),
            template_file: None,
        }
    }
}

impl super::Settings for Settings {
    const KIND: &'static str = "template";
    const NEEDS: &'static [Knowledge] = &[Knowledge::Row];
    const GIVES: &'static [Knowledge] = &[Knowledge::Request];
    const EXAMPLE: &'static str = r#"[[stage]]
kind = "template"
thinking = true
temperature = 0.6
top_p = 0.95
top_k = 20
max_tokens = 16384
"#;

    fn check(&self, say: &mut Complaints) {
        self.check_sampling(say);
        self.check_extra(say);
        self.check_rendering(say);
    }

    fn build(self, parts: &Parts) -> Result<Built, Error> {
        Ok(Built::Transform(Arc::new(Template::new(self, parts.seed, Moment::now())?)))
    }
}

impl Settings {
    fn check_rendering(&self, say: &mut Complaints) {
        match (self.render, &self.template_file) {
            (Render::Client, None) => say.about(
                "render",
                "\"client\" needs `template_file`: the model's chat_template.jinja or tokenizer_config.json",
            ),
            (Render::Server, Some(_)) => say.about(
                "template_file",
                "the server renders with its own template; write `render = \"client\"` to render with this one",
            ),
            _ => {}
        }
        if self.thinking_key.is_empty() {
            say.about("thinking_key", "the name of the template's switch cannot be empty");
        }
        if self.system.as_deref().is_some_and(|text| text.trim().is_empty()) {
            say.about("system", "the system turn is blank; leave the key out for none");
        }
    }
}

/// The stage.
struct Template {
    settings: Settings,
    /// The request's body without the conversation.
    body: Map<String, Value>,
    /// `None` where the server renders.
    template: Option<ChatTemplate>,
    run_seed: u64,
}

impl Template {
    fn new(settings: Settings, run_seed: u64, moment: Moment) -> Result<Self, Error> {
        let template = match (settings.render, &settings.template_file) {
            (Render::Server, _) => None,
            (Render::Client, Some(path)) => Some(ChatTemplate::read(path, moment)?.with(settings.template_variables())),
            (Render::Client, None) => {
                let what = "template: `render = \"client\"` needs `template_file`";
                return Err(Error::new(ErrorKind::FixPipeline, what));
            }
        };
        Ok(Template { body: settings.body(), template, settings, run_seed })
    }

    /// The conversation of the row, with the system turn it is to have.
    fn chat(&self, record: &Record) -> Result<Chat, Rejection> {
        let mut chat = shape::chat(&record.row, &record.layout)?;
        // An empty list is common in datasets and refused by servers; it says the same as none.
        chat.tools =
            chat.tools.filter(|tools| !tools.is_null() && tools.as_array().is_none_or(|list| !list.is_empty()));
        if !self.settings.earlier_thoughts {
            history::without_thoughts(&mut chat);
        }
        let instructed = chat.messages.iter().any(|turn| matches!(turn.role, Role::System | Role::Developer));
        if let Some(system) = &self.settings.system
            && !instructed
        {
            chat.messages.insert(0, Message::text(Role::System, system.as_str()));
        }
        Ok(chat)
    }

    fn request(&self, chat: &Chat) -> Result<Request, Rejection> {
        let mut body = Map::new();
        let path = match &self.template {
            Some(template) => {
                body.insert("prompt".to_owned(), Value::String(template.render(chat)?));
                "/v1/completions"
            }
            None => {
                let failed = |error: serde_json::Error| Rejection::new(Reason::BadTurns, error.to_string());
                body.insert("messages".to_owned(), serde_json::to_value(&chat.messages).map_err(failed)?);
                if let Some(tools) = &chat.tools {
                    body.insert("tools".to_owned(), tools.clone());
                }
                "/v1/chat/completions"
            }
        };
        body.extend(self.body.clone());
        let thinking = match self.settings.thinking {
            Some(true) => Thinking::On,
            Some(false) => Thinking::Off,
            None => Thinking::Unset,
        };
        Ok(Request { path, body, thinking, max_tokens: self.settings.max_tokens, run_seed: self.run_seed })
    }
}

impl Transform for Template {
    fn apply(&self, mut record: Record) -> Route {
        let made = self.chat(&record).and_then(|chat| Ok((self.request(&chat)?, chat)));
        match made {
            Ok((request, chat)) => {
                record.request = Some(Arc::new(request));
                record.chat = Some(Arc::new(chat));
                Route::Pass(record)
            }
            Err(rejection) => Route::Aside(record, rejection),
        }
    }
}

#[cfg(test)]
mod tests;
