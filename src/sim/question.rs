//! [`Question`]: a request as a simulated server reads it, and what a real one would object to.

use super::{bodies::Fail, settings::Dialect};
use serde::Deserialize;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

/// A chat or text completion request; keys that make no difference here are ignored.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Question {
    /// The model that is asked for.
    pub model: Option<String>,
    messages: Option<Vec<Turn>>,
    prompt: Option<Value>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    temperature: Option<f64>,
    /// The seed of the sampling.
    pub seed: Option<i64>,
    stop: Option<Value>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    chat_template_kwargs: Option<Switches>,
}

#[derive(Debug, Clone, Deserialize)]
struct Turn {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// The names that chat templates have for the switch of thinking.
#[derive(Debug, Clone, Default, Deserialize)]
struct Switches {
    enable_thinking: Option<bool>,
    thinking: Option<bool>,
}

/// Tokens that a chat template adds to each turn.
const TOKENS_PER_TURN: u32 = 5;
/// Bytes of a word that make a token of their own.
const BYTES_PER_TOKEN: usize = 8;

impl Question {
    /// Reads a request body for a chat completion (or else a text completion).
    ///
    /// # Errors
    /// What `dialect` says of a body that is no JSON, has a value of a wrong type, or lacks what it needs.
    pub fn read(body: &[u8], chat: bool, dialect: Dialect) -> Result<Self, Fail> {
        let question: Question = serde_json::from_slice(body).map_err(|error| invalid(&error, dialect))?;
        let (missing, key) =
            if chat { (question.messages.is_none(), "messages") } else { (question.prompt.is_none(), "prompt") };
        if missing {
            let (place, param) = match dialect {
                Dialect::Sglang => (format!("('body', '{key}')"), None),
                Dialect::Vllm => (format!("'body.{key}'"), Some(if chat { "body.messages" } else { "body.prompt" })),
            };
            let message =
                format!("1 validation error:\n  {{'type': 'missing', 'loc': {place}, 'msg': 'Field required'}}");
            return Err(Fail { status: 400, kind: "Bad Request", message, param });
        }
        if chat && question.messages.as_ref().is_some_and(Vec::is_empty) {
            return Err(bad(match dialect {
                Dialect::Sglang => "Messages cannot be empty.",
                Dialect::Vllm => "Cannot apply chat template to an empty conversation. Provide at least one message.",
            }));
        }
        if let Some(temperature) = question.temperature.filter(|temperature| *temperature < 0.0) {
            return Err(match dialect {
                Dialect::Sglang => {
                    bad(format!("temperature must be a non-negative finite number, got {temperature:?}."))
                }
                Dialect::Vllm => bad(format!(
                    "temperature must be non-negative, got {temperature:?}. (parameter=temperature, \
                     value={temperature:?})"
                ))
                .about("temperature"),
            });
        }
        Ok(question)
    }

    /// How many tokens the answer may have, for a model whose context is `context` tokens.
    ///
    /// # Errors
    /// What `dialect` says of a prompt, a limit, or both together that do not fit.
    pub fn limit(&self, context: u32, prompt_tokens: u32, dialect: Dialect) -> Result<u32, Fail> {
        let asked = self.max_completion_tokens.or(self.max_tokens);
        let room = context.saturating_sub(prompt_tokens);
        match dialect {
            Dialect::Sglang => {
                if let Some(asked) = asked.filter(|asked| *asked > i64::from(context)) {
                    return Err(bad(format!(
                        "max_completion_tokens is too large: {asked}.This model supports at most {context} completion \
                         tokens."
                    )));
                }
                if prompt_tokens >= context {
                    return Err(bad(format!(
                        "The input ({prompt_tokens} tokens) is longer than the model's context length ({context} \
                         tokens)."
                    )));
                }
                let Some(asked) = asked else { return Ok(room) };
                let total = asked + i64::from(prompt_tokens);
                if total > i64::from(context) {
                    return Err(bad(format!(
                        "Requested token count exceeds the model's maximum context length of {context} tokens. You \
                         requested a total of {total} tokens: {prompt_tokens} tokens from the input messages and \
                         {asked} tokens for the completion. Please reduce the number of tokens in the input messages \
                         or the completion to fit within the limit."
                    )));
                }
                Ok(u32::try_from(asked).unwrap_or(0))
            }
            Dialect::Vllm => {
                if let Some(asked) = asked.filter(|asked| *asked < 1) {
                    return Err(bad(format!(
                        "max_tokens must be at least 1, got {asked}. (parameter=max_tokens, value={asked})"
                    ))
                    .about("max_tokens"));
                }
                if let Some(asked) = asked.filter(|asked| *asked > i64::from(context)) {
                    return Err(bad(format!(
                        "max_tokens={asked} cannot be greater than max_model_len={context}. Please request fewer \
                         output tokens. (parameter=max_tokens, value={asked})"
                    ))
                    .about("max_tokens"));
                }
                if prompt_tokens >= context {
                    let least = context.saturating_add(1);
                    return Err(bad(format!(
                        "This model's maximum context length is {context} tokens. However, your prompt contains at \
                         least {least} input tokens, which exceeds this limit even without any output tokens. Please \
                         reduce the length of the input prompt. (parameter=input_tokens, value={least})"
                    ))
                    .about("input_tokens"));
                }
                // What does not fit is silently cut off.
                Ok(asked.and_then(|asked| u32::try_from(asked).ok()).unwrap_or(room).min(room))
            }
        }
    }

    /// How many tokens the prompt is.
    pub fn prompt_tokens(&self) -> u32 {
        let count =
            |text: &str| text.split_whitespace().map(|word| word.len().div_ceil(BYTES_PER_TOKEN)).sum::<usize>();
        let mut tokens = 0;
        let mut turns = 0;
        self.each_text(|_, text| {
            tokens += count(text);
            turns += 1;
        });
        u32::try_from(tokens).unwrap_or(u32::MAX).saturating_add(TOKENS_PER_TURN.saturating_mul(turns))
    }

    /// What is asked, as a hash: of the roles and texts, and of nothing else.
    pub fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        self.each_text(|role, text| add_turn(&mut hash, role, text));
        hash.digest()
    }

    /// The last thing the user said, or the prompt of a text completion.
    pub fn last_words(&self) -> String {
        let mut last = String::new();
        self.each_text(|role, text| {
            if role == "user" || role.is_empty() {
                text.clone_into(&mut last);
            }
        });
        last
    }

    /// Whether the model is to think, as far as the request says.
    pub fn thinking(&self) -> bool {
        let switches = self.chat_template_kwargs.as_ref();
        self.messages.is_some()
            && switches.is_none_or(|said| said.enable_thinking != Some(false) && said.thinking != Some(false))
    }

    /// Whether the model always takes the likeliest token, so that the seed changes nothing.
    pub fn greedy(&self) -> bool {
        self.temperature == Some(0.0)
    }

    /// The stop strings.
    pub fn stops(&self) -> Vec<String> {
        match &self.stop {
            Some(Value::String(stop)) => vec![stop.clone()],
            Some(Value::Array(stops)) => stops.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the reply is to come as events.
    pub fn stream(&self) -> bool {
        self.stream.unwrap_or(false)
    }

    /// Whether the events are to end with one that holds the usage.
    pub fn include_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or(false)
    }

    /// Calls `with` for the role and text of each turn, or with an empty role for each text of a prompt.
    fn each_text(&self, mut with: impl FnMut(&str, &str)) {
        for turn in self.messages.iter().flatten() {
            match &turn.content {
                Value::String(text) => with(&turn.role, text),
                Value::Null => with(&turn.role, ""),
                Value::Array(parts) => {
                    let texts: Vec<_> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
                    with(&turn.role, &texts.join("\n"));
                }
                other => with(&turn.role, &other.to_string()),
            }
        }
        match &self.prompt {
            Some(Value::String(text)) => with("", text),
            Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).for_each(|text| with("", text)),
            _ => {}
        }
    }
}

/// The hash by which simulated servers know a prompt, made of the (role, text) of its turns.
pub fn prompt_hash<'a>(turns: impl IntoIterator<Item = (&'a str, &'a str)>) -> u64 {
    let mut hash = Xxh3::new();
    turns.into_iter().for_each(|(role, text)| add_turn(&mut hash, role, text));
    hash.digest()
}

fn add_turn(hash: &mut Xxh3, role: &str, text: &str) {
    for part in [role, text] {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
}

/// An ordinary complaint about a request.
fn bad(message: impl Into<String>) -> Fail {
    Fail { status: 400, kind: "BadRequestError", message: message.into(), param: None }
}

impl Fail {
    /// The same, with the parameter that is to blame.
    fn about(mut self, param: &'static str) -> Self {
        self.param = Some(param);
        self
    }
}

/// What is said of a body that cannot be read.
fn invalid(error: &serde_json::Error, dialect: Dialect) -> Fail {
    let column = error.column();
    let (place, what) = match (error.is_data(), dialect) {
        (false, Dialect::Sglang) => (format!("('body', {column})"), "'json_invalid'"),
        (false, Dialect::Vllm) => (format!("'body.{column}'"), "'json_invalid'"),
        (true, _) => ("'body'".into(), "'value_error'"),
    };
    let message = format!(
        "1 validation error:\n  {{'type': {what}, 'loc': {place}, 'ctx': {{'error': {:?}}}}}",
        error.to_string()
    );
    Fail { status: 400, kind: "Bad Request", message, param: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Question {
        Question::read(body.as_bytes(), true, Dialect::Sglang).expect("it is a good request")
    }

    #[test]
    fn the_hash_is_of_what_is_asked_and_of_nothing_else() {
        let plain = read(r#"{"messages":[{"role":"user","content":"hi"}],"seed":1}"#);
        let parts = read(r#"{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"temperature":1}"#);
        let other = read(r#"{"messages":[{"role":"system","content":"hi"}]}"#);
        assert_eq!(plain.hash(), parts.hash());
        assert_eq!(plain.hash(), prompt_hash([("user", "hi")]));
        assert_ne!(plain.hash(), other.hash());
        assert_eq!((plain.last_words().as_str(), other.last_words().as_str()), ("hi", ""));
    }

    #[test]
    fn either_switch_turns_thinking_off() {
        for switch in ["enable_thinking", "thinking"] {
            let off = format!(r#"{{"messages":[{{"role":"user"}}],"chat_template_kwargs":{{"{switch}":false}}}}"#);
            assert!(!read(&off).thinking());
        }
        assert!(read(r#"{"messages":[{"role":"user","content":null}]}"#).thinking());
    }

    #[test]
    fn each_dialect_has_its_own_answer_to_more_than_fits() {
        let asks = |limit: i64| read(&format!(r#"{{"messages":[{{"role":"user"}}],"max_tokens":{limit}}}"#));
        let message = |limit, prompt, dialect| asks(limit).limit(512, prompt, dialect).map_err(|fail| fail.message);
        assert_eq!(message(400, 410, Dialect::Vllm), Ok(102));
        assert!(
            message(400, 410, Dialect::Sglang).is_err_and(|said| said.contains("You requested a total of 810 tokens"))
        );
        assert!(
            message(5, 610, Dialect::Sglang).is_err_and(|said| said.starts_with("The input (610 tokens) is longer"))
        );
        assert!(message(5, 610, Dialect::Vllm).is_err_and(|said| said.contains("at least 513 input tokens")));
        assert!(message(100_000, 5, Dialect::Vllm).is_err_and(|said| said.contains("max_model_len=512")));
        assert_eq!(message(0, 5, Dialect::Sglang), Ok(0));
        assert!(message(0, 5, Dialect::Vllm).is_err());
    }

    #[test]
    fn bodies_that_cannot_be_read_are_refused() {
        for body in
            [&b"{\"messages\": ["[..], b"[]", b"{}", b"{\"messages\":[],\"x\":\"\xff\"}", br#"{"messages":"hi"}"#]
        {
            let fail = Question::read(body, true, Dialect::Vllm).expect_err("it is bad");
            assert_eq!(fail.status, 400);
        }
    }
}
