//! The request's body besides the conversation: the sampling, the switch for thinking, and what the pipeline file adds.

use super::{Render, Settings};
use crate::setting::Complaints;
use serde_json::{Map, Value};

/// Where servers take variables for the model's chat template.
const TEMPLATE_VARIABLES: &str = "chat_template_kwargs";

/// Keys that `extra` cannot have, and why.
const NOT_EXTRA: &[(&[&str], &str)] = &[
    (
        &["extra_body", "extra_headers", "extra_query"],
        "is a parameter of OpenAI's Python client, and no field of the request: write its entries straight into `extra`",
    ),
    (
        &[
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "presence_penalty",
            "frequency_penalty",
            "repetition_penalty",
            "stop",
            "max_tokens",
        ],
        "has a setting of its own in this stage: write it outside of `extra`",
    ),
    (&["max_completion_tokens"], "is another name for `max_tokens`, which is a setting of this stage"),
    (&["repeat_penalty"], "is another name for `repetition_penalty`, which is a setting of this stage"),
    (&["messages", "prompt", "tools"], "comes from each row"),
    (&["model"], "is a setting of [fleet]"),
    (&["seed"], "is made for each row and attempt from the run's seed"),
    (&["stream", "stream_options"], "is set by `dispatch`"),
    (&["echo"], "would put the prompt into the answer"),
    (&["n", "best_of"], "would ask for more than one answer; a row has one"),
];

impl Settings {
    /// Says which sampling settings are out of range. NaN is in no range.
    pub(super) fn check_sampling(&self, say: &mut Complaints) {
        let ranges = [
            ("temperature", self.temperature, (0.0..=2.0).contains(&self.temperature), "from 0 to 2"),
            ("top_p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "above 0 and up to 1, which is off"),
            ("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "from 0, which is off, to 1"),
            ("presence_penalty", self.presence_penalty, (-2.0..=2.0).contains(&self.presence_penalty), "from -2 to 2"),
            (
                "frequency_penalty",
                self.frequency_penalty,
                (-2.0..=2.0).contains(&self.frequency_penalty),
                "from -2 to 2",
            ),
            (
                "repetition_penalty",
                self.repetition_penalty,
                self.repetition_penalty > 0.0 && self.repetition_penalty <= 2.0,
                "above 0 and up to 2; 1 is off",
            ),
        ];
        for (key, value, fits, range) in ranges {
            if !fits {
                say.about(key, format!("{value} is out of range: {range}"));
            }
        }
        if self.top_k < -1 || self.top_k > i64::from(i32::MAX) {
            say.about("top_k", format!("{} is out of range: 1 or more, or -1 for off", self.top_k));
        }
        if self.max_tokens == 0 {
            say.about("max_tokens", "an answer needs at least 1 token");
        }
        if self.stop.iter().any(String::is_empty) {
            say.about("stop", "an empty text would stop every answer before it begins");
        }
    }

    /// Says which keys of `extra` have no place there.
    pub(super) fn check_extra(&self, say: &mut Complaints) {
        for key in self.extra.keys() {
            if let Some((_, why)) = NOT_EXTRA.iter().find(|(keys, _)| keys.contains(&key.as_str())) {
                say.about("extra", format!("`{key}` {why}"));
            }
        }
        match self.extra.get(TEMPLATE_VARIABLES) {
            None => {}
            Some(Value::Object(variables)) if self.thinking.is_some() && variables.contains_key(&self.thinking_key) => {
                say.about("extra", format!("`{}` is said twice: here and by `thinking`", self.thinking_key));
            }
            Some(Value::Object(variables)) if self.thinking.is_none() && variables.contains_key(&self.thinking_key) => {
                let switch = &self.thinking_key;
                say.about("extra", format!("`{switch}` has a setting of its own in this stage: write `thinking`"));
            }
            Some(Value::Object(_)) => {}
            Some(_) => say.about("extra", format!("`{TEMPLATE_VARIABLES}` must be a table of template variables")),
        }
    }

    /// The body without the conversation.
    ///
    /// `top_k`, `min_p` and `repetition_penalty` are no fields of OpenAI's API, but vLLM, SGLang and llama.cpp take
    /// them by these names; with -1, 0 and 1 all of them are off.
    pub(super) fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        let mut set = |key: &str, value: Value| body.insert(key.to_owned(), value);
        set("max_tokens", self.max_tokens.into());
        set("temperature", self.temperature.into());
        set("top_p", self.top_p.into());
        set("top_k", self.top_k.into());
        set("min_p", self.min_p.into());
        set("presence_penalty", self.presence_penalty.into());
        set("frequency_penalty", self.frequency_penalty.into());
        set("repetition_penalty", self.repetition_penalty.into());
        if !self.stop.is_empty() {
            set("stop", self.stop.as_slice().into());
        }
        match self.render {
            Render::Server => {
                let variables = self.template_variables();
                if !variables.is_empty() {
                    set(TEMPLATE_VARIABLES, variables.into());
                }
            }
            // The rendered text has the special tokens; vLLM would put its own in front once more.
            Render::Client => _ = set("add_special_tokens", false.into()),
        }
        let extra = self.extra.iter().filter(|(key, _)| *key != TEMPLATE_VARIABLES);
        body.extend(extra.map(|(key, value)| (key.clone(), value.clone())));
        body
    }

    /// Variables for the model's chat template: what `extra` has, and the switch for thinking.
    pub(super) fn template_variables(&self) -> Map<String, Value> {
        let mut variables = self.extra.get(TEMPLATE_VARIABLES).and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(thinking) = self.thinking {
            variables.insert(self.thinking_key.clone(), Value::Bool(thinking));
        }
        variables
    }
}
