//! The thoughts of earlier turns, taken out of a conversation.
//!
//! The chat templates of Qwen, DeepSeek and most other thinking models drop them too, where they can find them: a thought
//! that stands in the text, or under a name the template does not know, would be shown to the model as an answer.

use crate::record::{Chat, Role, thought};
use serde_json::Value;

/// The names under which datasets and servers keep a thought beside the text.
const NAMES: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Takes the thoughts out of the model's turns before the last user turn. What follows that turn, calls of tools and
/// their results, belongs to the answer that is being made, and keeps its thoughts.
pub(super) fn without_thoughts(chat: &mut Chat) {
    let last = chat.messages.iter().rposition(|turn| turn.role == Role::User).unwrap_or(0);
    for turn in chat.messages.iter_mut().take(last).filter(|turn| turn.role == Role::Assistant) {
        for name in NAMES {
            turn.rest.shift_remove(name);
        }
        if let Value::String(text) = &mut turn.content {
            let split = thought::split(text, true);
            if split.thought.is_some() && !split.unclosed {
                *text = split.answer;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sent(turns: Value) -> Value {
        let mut chat = Chat { messages: serde_json::from_value(turns).expect("turns"), tools: None };
        without_thoughts(&mut chat);
        serde_json::to_value(chat.messages).expect("JSON")
    }

    #[test]
    fn earlier_turns_lose_their_thoughts_wherever_they_stand() {
        let before = json!({ "role": "user", "content": "5 + 7?" });
        let after = json!({ "role": "user", "content": "Times two?" });
        let bare = json!({ "role": "assistant", "content": "12." });
        for turn in [
            json!({ "role": "assistant", "content": "12.", "reasoning_content": "I add." }),
            json!({ "role": "assistant", "content": "12.", "reasoning": "I add." }),
            json!({ "role": "assistant", "content": "<think>\nI add.\n</think>\n\n12." }),
            json!({ "role": "assistant", "content": "I add.\n</think>\n\n12." }),
        ] {
            assert_eq!(sent(json!([before, turn, after])), json!([before, bare, after]), "{turn}");
        }
    }

    #[test]
    fn all_else_is_sent_as_it_is() {
        let turns = json!([
            { "role": "user", "content": "Is `</think>` a tag?" },
            { "role": "assistant", "content": "Yes, `</think>` is.", "name": "bot" },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "1" }] },
            { "role": "assistant", "content": "<think>cut" },
            { "role": "user", "content": "<think>mine</think>" },
            { "role": "assistant", "content": null, "reasoning_content": "I call.", "tool_calls": [{ "id": "2" }] },
            { "role": "tool", "content": "12" },
        ]);
        assert_eq!(sent(turns.clone()), turns);
    }
}
