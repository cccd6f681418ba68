//! [`Chat`]: what a model sees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A conversation, in the shape the OpenAI chat API takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Chat {
    /// The turns, oldest first.
    pub messages: Vec<Message>,
    /// Tool definitions, carried exactly as the row has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Value>,
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said: a text, a list of content parts, or null.
    #[serde(default)]
    pub content: Value,
    /// Everything else the turn has (`tool_calls`, `tool_call_id`, `name`, …), carried exactly.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Who speaks, in the words of the OpenAI API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions that stand above the conversation.
    System,
    /// As `system`, in the newer name.
    Developer,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

/// How a dataset writes its conversations: what was said about it, where it cannot be told from the row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where rows have their conversation; found for each row by itself unless given.
    pub shape: Option<Shape>,
    /// What role words mean, besides the usual ones.
    pub roles: BTreeMap<String, Role>,
}

/// Where a row has its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// `messages`: a list of turns with `role` and `content`, as the OpenAI API has them.
    Messages,
    /// `conversations`: a list of turns with `from` and `value`, as ShareGPT has them.
    Conversations,
    /// `instruction`, `input` and `output`, as Alpaca has them.
    Alpaca,
    /// A prompt and a response, each under one of its usual names.
    PromptResponse,
}

impl Message {
    /// A turn that is a plain text.
    pub fn text(role: Role, content: impl Into<String>) -> Self {
        Message { role, content: Value::String(content.into()), rest: Map::new() }
    }
}
