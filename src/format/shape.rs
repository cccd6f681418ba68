//! Where a row has its conversation and its answer, in the shapes datasets come in.

use super::edit::{self, Step};
use crate::record::{Chat, Message, Reason, Rejection, Role, Shape, thought};
use serde_json::{Map, Value, value::RawValue};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

/// The fields of a row, unparsed; of a doubled key the last one.
type Fields<'a> = HashMap<Cow<'a, str>, &'a RawValue>;

/// Names under which a prompt is found, in the order they are looked for.
const PROMPTS: &[&str] = &["prompt", "question", "query", "input"];

/// Names under which a response is found, in the order they are looked for.
const RESPONSES: &[&str] = &["response", "answer", "completion", "output"];

/// Whether a row has an answer, and if not, how it lacks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The conversation ends with the question, or the response has no field.
    Missing,
    /// It is null.
    Null,
    /// It is the empty text.
    Empty,
    /// It is white space, or characters without width.
    Blank,
    /// It is a thought without anything after it.
    ThoughtOnly,
    /// It is a thought that was cut off.
    ThoughtCut,
    /// There is one.
    Present {
        /// Its length in characters, thoughts left out.
        chars: usize,
        /// Whether a thought comes with it.
        thought: bool,
    },
}

impl Answer {
    /// Whether an answer has to be made.
    pub fn is_needed(self) -> bool {
        !matches!(self, Answer::Present { .. })
    }

    /// Its length in characters.
    pub fn chars(self) -> usize {
        match self {
            Answer::Present { chars, .. } => chars,
            _ => 0,
        }
    }
}

/// The shape of a row, told by its fields.
pub fn detect(row: &[u8]) -> Option<Shape> {
    fields(row).ok().and_then(|fields| shape_of(&fields))
}

/// What the model is to see: the conversation without the answer that is to be made.
///
/// # Errors
/// `unknown_shape`, `bad_turns`, `no_prompt`.
pub fn chat(row: &[u8], shape: Option<Shape>, roles: &BTreeMap<String, Role>) -> Result<Chat, Rejection> {
    let fields = fields(row)?;
    let mut messages = match resolve(&fields, shape)? {
        Shape::Messages => turns(&fields, "messages", "role", "content", roles)?,
        Shape::Conversations => turns(&fields, "conversations", "from", "value", roles)?,
        Shape::Alpaca => alpaca(&fields)?,
        Shape::PromptResponse => {
            let prompt = string(&fields, PROMPTS).unwrap_or_default();
            let system = string(&fields, &["system"]).filter(|system| !system.is_empty());
            let system = system.map(|system| Message::text(Role::System, system));
            system.into_iter().chain([Message::text(Role::User, prompt)]).collect()
        }
    };
    // The turn that is to be made (or made again) is not shown to the model: servers would take it for a prefill.
    if messages.last().is_some_and(|last| last.role == Role::Assistant) {
        messages.pop();
    }
    let asks = messages.last().is_some_and(|last| match last.role {
        Role::User => !is_nothing(&last.content),
        Role::Tool => true,
        Role::System | Role::Developer | Role::Assistant => false,
    });
    if !asks {
        return Err(Rejection::new(Reason::NoPrompt, "the conversation does not end with a question"));
    }
    let tools = fields
        .get("tools")
        .and_then(|tools| serde_json::from_str(tools.get()).ok())
        .filter(|tools: &Value| !tools.is_null());
    Ok(Chat { messages, tools })
}

/// Whether the row has an answer.
///
/// # Errors
/// `unknown_shape`, `bad_turns`.
pub fn answer(row: &[u8], shape: Option<Shape>) -> Result<Answer, Rejection> {
    let fields = fields(row)?;
    let (role_key, text_key, list) = match resolve(&fields, shape)? {
        Shape::Messages => ("role", "content", "messages"),
        Shape::Conversations => ("from", "value", "conversations"),
        Shape::Alpaca => return Ok(one_field(&fields, &["output"])),
        Shape::PromptResponse => return Ok(one_field(&fields, responses(&fields))),
    };
    let turns: Vec<&RawValue> = list_of(&fields, list)?;
    let Some(last) = turns.last() else { return Ok(Answer::Missing) };
    let last: Map<String, Value> =
        serde_json::from_str(last.get()).map_err(|_| bad_turns("a turn is not an object"))?;
    if role(&last, role_key, &BTreeMap::new()) != Ok(Role::Assistant) {
        return Ok(Answer::Missing);
    }
    let calls = last.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
    let thought = ["reasoning_content", "reasoning"]
        .iter()
        .any(|key| last.get(*key).and_then(Value::as_str).is_some_and(|thought| !thought::is_blank(thought)));
    Ok(judge(last.get(text_key), thought, calls))
}

/// How many characters the model would be shown.
pub fn prompt_chars(row: &[u8], shape: Option<Shape>) -> Result<usize, Rejection> {
    let chat = chat(row, shape, &BTreeMap::new())?;
    Ok(chat.messages.iter().map(|message| plain(&message.content).chars().count()).sum())
}

/// The row with an answer where its shape has it: in place of the turn it ends with, if that is the assistant's, else
/// behind it. All other bytes stay as they are.
///
/// # Errors
/// As [`answer`].
pub fn with_answer(
    row: &[u8],
    shape: Option<Shape>,
    content: &str,
    reasoning: Option<&str>,
    tool_calls: Option<&Value>,
    provenance: &Value,
) -> Result<Vec<u8>, Rejection> {
    let fields = fields(row)?;
    let content = match tool_calls {
        Some(_) if content.is_empty() => Value::Null,
        _ => Value::from(content),
    };
    let reasoning = reasoning.map(Value::from);
    let edited = match resolve(&fields, shape)? {
        Shape::Messages => {
            with_turn(row, &fields, ("messages", "role", "content"), &content, reasoning.as_ref(), tool_calls)
        }
        Shape::Conversations => {
            with_turn(row, &fields, ("conversations", "from", "value"), &content, reasoning.as_ref(), tool_calls)
        }
        Shape::Alpaca => with_fields(row, &[], "output", &content, reasoning.as_ref(), tool_calls),
        Shape::PromptResponse => {
            let key = responses(&fields).first().copied().unwrap_or("response");
            with_fields(row, &[], key, &content, reasoning.as_ref(), tool_calls)
        }
    };
    let edited = edited.and_then(|row| edit::set(&row, &[], "forebay", &provenance.to_string()));
    edited.ok_or_else(|| Rejection::new(Reason::BadTurns, "the answer could not be put into the row"))
}

/// The row on one line: an element of a pretty-printed array has line ends between its tokens.
pub fn one_line(row: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'\n', b'\r', row).is_none() {
        return Cow::Borrowed(row);
    }
    // Inside a JSON string a line end is always escaped, so that every raw one stands between tokens.
    Cow::Owned(row.iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect())
}

fn fields(row: &[u8]) -> Result<Fields<'_>, Rejection> {
    serde_json::from_slice(row).map_err(|error| Rejection::new(Reason::InvalidJson, error.to_string()))
}

fn resolve(fields: &Fields<'_>, shape: Option<Shape>) -> Result<Shape, Rejection> {
    shape.or_else(|| shape_of(fields)).ok_or_else(|| {
        let mut names: Vec<_> = fields.keys().map(AsRef::as_ref).take(8).collect();
        names.sort_unstable();
        Rejection::new(Reason::UnknownShape, format!("the row has the fields {}", names.join(", ")))
    })
}

fn shape_of(fields: &Fields<'_>) -> Option<Shape> {
    let has = |name: &str| fields.contains_key(name);
    let has_list = |name: &str| fields.get(name).is_some_and(|value| value.get().starts_with('['));
    if has_list("messages") {
        Some(Shape::Messages)
    } else if has_list("conversations") {
        Some(Shape::Conversations)
    } else if has("instruction") {
        Some(Shape::Alpaca)
    } else {
        let prompt = PROMPTS.iter().find_map(|name| fields.get(*name));
        prompt.is_some_and(|prompt| prompt.get().starts_with('"')).then_some(Shape::PromptResponse)
    }
}

/// The name of the response field a row has, or the name it gets.
fn responses(fields: &Fields<'_>) -> &'static [&'static str] {
    let found = RESPONSES.iter().position(|name| fields.contains_key(*name)).unwrap_or(0);
    RESPONSES.get(found..=found).unwrap_or(RESPONSES)
}

fn list_of<'a>(fields: &Fields<'a>, name: &str) -> Result<Vec<&'a RawValue>, Rejection> {
    let list = fields.get(name).ok_or_else(|| bad_turns(&format!("there is no `{name}`")))?;
    serde_json::from_str(list.get()).map_err(|_| bad_turns(&format!("`{name}` is not a list")))
}

fn turns(
    fields: &Fields<'_>,
    list: &str,
    role_key: &str,
    text_key: &str,
    roles: &BTreeMap<String, Role>,
) -> Result<Vec<Message>, Rejection> {
    list_of(fields, list)?
        .into_iter()
        .map(|turn| {
            let mut rest: Map<String, Value> =
                serde_json::from_str(turn.get()).map_err(|_| bad_turns("a turn is not an object"))?;
            let role = role(&rest, role_key, roles)?;
            rest.shift_remove(role_key);
            let content = rest.shift_remove(text_key).unwrap_or_default();
            Ok(Message { role, content, rest })
        })
        .collect()
}

fn role(turn: &Map<String, Value>, key: &str, roles: &BTreeMap<String, Role>) -> Result<Role, Rejection> {
    let word = turn.get(key).and_then(Value::as_str).ok_or_else(|| bad_turns(&format!("a turn has no `{key}`")))?;
    if let Some(role) = roles.get(word) {
        return Ok(*role);
    }
    match word.to_ascii_lowercase().as_str() {
        "system" => Ok(Role::System),
        "developer" => Ok(Role::Developer),
        "user" | "human" => Ok(Role::User),
        "assistant" | "gpt" | "chatgpt" | "bing" | "bard" | "model" | "bot" => Ok(Role::Assistant),
        "tool" | "observation" | "function" | "ipython" => Ok(Role::Tool),
        _ => Err(bad_turns(&format!("the role `{word}` is not known: name it in `roles` of the `template` stage"))),
    }
}

fn alpaca(fields: &Fields<'_>) -> Result<Vec<Message>, Rejection> {
    let mut messages = Vec::new();
    if let Some(system) = string(fields, &["system"]).filter(|system| !system.is_empty()) {
        messages.push(Message::text(Role::System, system));
    }
    if let Some(history) = fields.get("history").filter(|history| history.get() != "null") {
        let pairs: Vec<(String, String)> =
            serde_json::from_str(history.get()).map_err(|_| bad_turns("`history` is not a list of pairs"))?;
        for (question, answer) in pairs {
            messages.extend([Message::text(Role::User, question), Message::text(Role::Assistant, answer)]);
        }
    }
    let instruction = string(fields, &["instruction"]).unwrap_or_default();
    let input = string(fields, &["input"]).filter(|input| !input.trim().is_empty());
    let question = input.map_or(instruction.clone(), |input| format!("{instruction}\n\n{input}"));
    messages.push(Message::text(Role::User, question));
    Ok(messages)
}

fn string(fields: &Fields<'_>, names: &[&str]) -> Option<String> {
    let value = names.iter().find_map(|name| fields.get(*name))?;
    serde_json::from_str(value.get()).ok()
}

fn one_field(fields: &Fields<'_>, names: &[&str]) -> Answer {
    let value: Option<Value> =
        names.iter().find_map(|name| fields.get(*name)).and_then(|value| serde_json::from_str(value.get()).ok());
    let thought = string(fields, &["reasoning_content"]).is_some_and(|thought| !thought::is_blank(&thought));
    judge(value.as_ref(), thought, false)
}

/// Whether this content is an answer.
fn judge(content: Option<&Value>, thought: bool, calls: bool) -> Answer {
    let text = match content {
        None if !calls => return Answer::Missing,
        Some(Value::Null) if !calls => return if thought { Answer::ThoughtOnly } else { Answer::Null },
        None => Cow::Borrowed(""),
        Some(content) => plain(content),
    };
    let split = thought::split(&text, false);
    let thought = thought || split.thought.as_ref().is_some_and(|thought| !thought::is_blank(thought));
    if calls || !thought::is_blank(&split.answer) {
        return Answer::Present { chars: split.answer.chars().count(), thought };
    }
    match (split.unclosed, split.thought.is_some() || thought, text.is_empty()) {
        (true, _, _) => Answer::ThoughtCut,
        (_, true, _) => Answer::ThoughtOnly,
        (_, _, true) => Answer::Empty,
        _ => Answer::Blank,
    }
}

/// The text of a content: itself, or its text parts together.
fn plain(content: &Value) -> Cow<'_, str> {
    match content {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str).or(part.as_str())).collect()
        }
        Value::Null => Cow::Borrowed(""),
        other => Cow::Owned(other.to_string()),
    }
}

fn is_nothing(content: &Value) -> bool {
    // A picture without a text is a question too.
    let pictures = content.as_array().is_some_and(|parts| parts.iter().any(|part| part.get("text").is_none()));
    !pictures && thought::is_blank(&plain(content))
}

fn with_turn(
    row: &[u8],
    fields: &Fields<'_>,
    (list, role_key, text_key): (&str, &str, &str),
    content: &Value,
    reasoning: Option<&Value>,
    tool_calls: Option<&Value>,
) -> Option<Vec<u8>> {
    let turns = list_of(fields, list).ok()?;
    let is_answer = |turn: &&RawValue| {
        serde_json::from_str::<Map<String, Value>>(turn.get())
            .is_ok_and(|turn| role(&turn, role_key, &BTreeMap::new()) == Ok(Role::Assistant))
    };
    if turns.last().is_some_and(is_answer) {
        return with_fields(row, &[Step::Key(list), Step::Last], text_key, content, reasoning, tool_calls);
    }
    // The role word that this conversation uses for the assistant, if it has one.
    let used = turns.iter().find(|turn| is_answer(turn)).and_then(|turn| {
        let turn: Map<String, Value> = serde_json::from_str(turn.get()).ok()?;
        turn.get(role_key)?.as_str().map(str::to_owned)
    });
    let word = used.unwrap_or_else(|| if role_key == "from" { "gpt" } else { "assistant" }.to_owned());
    let mut turn = Map::new();
    turn.insert(role_key.to_owned(), word.into());
    turn.insert(text_key.to_owned(), content.clone());
    for (key, value) in [("reasoning_content", reasoning), ("tool_calls", tool_calls)] {
        if let Some(value) = value {
            turn.insert(key.to_owned(), value.clone());
        }
    }
    edit::push(row, &[Step::Key(list)], &Value::Object(turn).to_string())
}

fn with_fields(
    row: &[u8],
    path: &[Step<'_>],
    text_key: &str,
    content: &Value,
    reasoning: Option<&Value>,
    tool_calls: Option<&Value>,
) -> Option<Vec<u8>> {
    let mut row = edit::set(row, path, text_key, &content.to_string())?;
    for (key, value) in [("reasoning_content", reasoning), ("tool_calls", tool_calls)] {
        if let Some(value) = value {
            row = edit::set(&row, path, key, &value.to_string())?;
        }
    }
    Some(row)
}

fn bad_turns(detail: &str) -> Rejection {
    Rejection::new(Reason::BadTurns, detail)
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
