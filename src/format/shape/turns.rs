//! The turns of a conversation, and the many words for who speaks.

use super::{Fields, parsed};
use crate::format::edit;
use crate::record::{Layout, Message, Reason, Rejection, Role, Shape};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, ops::Range};

/// The words for roles that datasets use, in lower case.
const ROLES: [(&str, Role); 15] = [
    ("system", Role::System),
    ("developer", Role::Developer),
    ("user", Role::User),
    ("human", Role::User),
    ("assistant", Role::Assistant),
    ("gpt", Role::Assistant),
    ("chatgpt", Role::Assistant),
    ("bing", Role::Assistant),
    ("bard", Role::Assistant),
    ("model", Role::Assistant),
    ("bot", Role::Assistant),
    ("tool", Role::Tool),
    ("observation", Role::Tool),
    ("function", Role::Tool),
    ("ipython", Role::Tool),
];

/// The role a word stands for, whatever its case: first by `more`, then by the table of known words.
pub fn role(word: &str, more: &BTreeMap<String, Role>) -> Option<Role> {
    let word = word.trim();
    let added = more.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, role)| *role);
    added.or_else(|| ROLES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, role)| *role))
}

/// The key that holds the turns.
pub fn turns_key(shape: Shape) -> &'static str {
    if shape == Shape::Conversations { "conversations" } else { "messages" }
}

/// The places of the turns in the row.
pub fn turn_spans(fields: &Fields<'_>, shape: Shape) -> Result<Vec<Range<usize>>, Rejection> {
    let key = turns_key(shape);
    let list = fields.span(key).and_then(|span| edit::elements(fields.row, span));
    list.ok_or_else(|| Rejection::new(Reason::UnknownShape, format!("there is no list under `{key}`")))
}

/// All turns of the row, the answer with them.
pub fn turns(fields: &Fields<'_>, layout: &Layout) -> Result<Vec<Message>, Rejection> {
    let spans = turn_spans(fields, fields.shape(layout)?)?;
    (1..)
        .zip(spans)
        .map(|(number, span)| turn(fields.row.get(span).unwrap_or_default(), number, &layout.roles))
        .collect()
}

/// One turn, the `number`-th from 1.
pub fn turn(json: &[u8], number: usize, roles: &BTreeMap<String, Role>) -> Result<Message, Rejection> {
    let bad = |why: String| Rejection::new(Reason::BadTurns, format!("turn {number} {why}"));
    let Value::Object(mut rest) = parsed(json, "turn")? else {
        return Err(bad("is not an object".to_owned()));
    };
    let word = match take(&mut rest, ["role", "from"]) {
        Some(Value::String(word)) => word,
        _ => return Err(bad("does not say who speaks: `role` or `from` is missing".to_owned())),
    };
    let role = role(&word, roles)
        .ok_or_else(|| bad(format!("has the unknown role \"{word}\": name it in `roles` of the `read` stage")))?;
    let content = take(&mut rest, ["content", "value"]).unwrap_or(Value::Null);
    match content {
        Value::String(_) | Value::Array(_) | Value::Null => Ok(Message { role, content, rest }),
        _ => Err(bad("has a content that is neither a text nor a list of parts".to_owned())),
    }
}

/// Takes the value under the first of two names; the order of the others stays.
fn take(map: &mut Map<String, Value>, names: [&str; 2]) -> Option<Value> {
    names.iter().find_map(|name| map.shift_remove(*name))
}
