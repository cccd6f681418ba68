//! [`Reason`]: the closed list of words for "why not".

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt};

/// Why a row was set aside, with what a person needs to know about this very one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The word: what is counted.
    pub reason: Reason,
    /// What is particular to this row; bounded in length, free of secrets.
    pub detail: String,
}

impl Rejection {
    /// A rejection with its particulars; a long `detail` is cut.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > DETAIL_BYTES {
            let end = (0..=DETAIL_BYTES).rev().find(|&at| detail.is_char_boundary(at)).unwrap_or(0);
            detail.truncate(end);
            detail.push('…');
        }
        Rejection { reason, detail }
    }
}

/// Longer details are cut.
const DETAIL_BYTES: usize = 300;

impl From<Reason> for Rejection {
    fn from(reason: Reason) -> Self {
        Rejection::new(reason, "")
    }
}

/// Where a reason comes from, which decides under what heading it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// An input line that could not be read.
    Input,
    /// A row that cannot be asked about.
    Row,
    /// An answer that is not good enough.
    Answer,
    /// A reply that is not an answer.
    Reply,
}

/// Declares the words once: variant, word, family and sentence.
macro_rules! reasons {
    ($($variant:ident $word:literal $family:ident $sentence:literal)*) => {
        /// Why not: one stable word each, the same in files, counts, tests and docs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $(#[doc = $sentence] $variant,)*
        }

        impl Reason {
            /// Every reason there is, in the order of the reference.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),*];

            /// The stable word.
            pub fn word(self) -> &'static str {
                match self { $(Reason::$variant => $word,)* }
            }

            /// The reason that has this word.
            pub fn from_word(word: &str) -> Option<Reason> {
                match word { $($word => Some(Reason::$variant),)* _ => None }
            }

            /// One sentence for people.
            pub fn sentence(self) -> &'static str {
                match self { $(Reason::$variant => $sentence,)* }
            }

            /// Where it comes from.
            pub fn family(self) -> Family {
                match self { $(Reason::$variant => Family::$family,)* }
            }
        }
    };
}

reasons! {
    InvalidUtf8 "invalid_utf8" Input "The line is not UTF-8."
    InvalidJson "invalid_json" Input "The line is not JSON."
    NotAnObject "not_an_object" Input "The line is JSON, but not an object."
    LoneSurrogate "lone_surrogate" Input "The line holds half a surrogate pair, which no UTF-8 text can hold."
    NulBlock "nul_block" Input "The line holds a run of zero bytes, as a crash leaves them."
    LineTooLong "line_too_long" Input "The line is longer than `max_line_bytes`."
    TooDeep "too_deep" Input "The JSON is nested too deeply."
    CutInput "cut_input" Input "The compressed input breaks off in the middle of this row."

    FilteredOut "filtered_out" Row "The filter did not keep the row, and `others` is \"drop\"."
    NoPrompt "no_prompt" Row "There is nothing to ask: no user turn, or an empty prompt."
    UnknownShape "unknown_shape" Row "The row has none of the known chat shapes."
    BadTurns "bad_turns" Row "The turns cannot be read: an unknown role, or a turn that is not an object."
    BadExpression "bad_expression" Row "The pipeline's expression could not be worked out for this row."
    NoReference "no_reference" Row "The row has no value under the field that its answer is to match."
    TemplateError "template_error" Row "The chat template refuses this conversation."
    ContextOverflow "context_overflow" Row "Prompt and `max_tokens` together exceed the model's context."
    BadRequest "bad_request" Row "The server refuses the request and would refuse it again."

    Empty "empty_answer" Answer "The answer is empty, or only white space."
    Truncated "truncated" Answer "The answer was cut off at `max_tokens`."
    TruncatedThinking "truncated_thinking" Answer "The thought was cut off at `max_tokens`; there is no answer."
    UnclosedThinking "unclosed_thinking" Answer "The thought was opened and never closed, though the model says it was done."
    MisroutedReasoning "misrouted_reasoning" Answer "Thinking was off, yet the whole answer stands in the reasoning field."
    ThinkingMismatch "thinking_mode_mismatch" Answer "The model thought although thinking was off."
    MissingThinking "missing_thinking" Answer "Thinking was on and required, yet there is no thought."
    AmbiguousReasoning "ambiguous_reasoning" Answer "The reply gives two different thoughts under two names."
    StrayMarkers "stray_markers" Answer "Markers of a thought or a tool call are left in the answer."
    UnwantedToolCall "unwanted_tool_call" Answer "The model called a tool although none was offered."
    BadToolCall "bad_tool_call" Answer "A tool call is not whole: no name, a tool that was not offered, or arguments that are no JSON."
    UnknownFinish "unknown_finish" Answer "The finish reason is a word Forebay does not know."
    Degenerate "degenerate" Answer "The text repeats itself without end."
    TooShort "too_short" Answer "The answer is shorter than the rule allows."
    TooLong "too_long" Answer "The answer is longer than the rule allows."
    LongThinking "long_thinking" Answer "The thought is longer, beside its answer, than the rule allows."
    Refusal "refusal" Answer "The answer begins as refusals do."
    Echo "echo" Answer "The answer is the prompt again."
    NoMatch "no_match" Answer "The answer or the thought does not match the rule's pattern."
    NotJson "not_json" Answer "The answer is not JSON."
    SchemaMismatch "schema_mismatch" Answer "The answer is JSON, but does not fit the rule's schema."
    WrongLanguage "wrong_language" Answer "The answer is in another language than the rule allows."
    WrongAnswer "wrong_answer" Answer "The final answer is not the one the row names."
    ExpressionFalse "expression_false" Answer "The rule's expression is false for this answer."

    Aborted "aborted" Reply "The server ended the request before the answer was whole."
    CutReply "cut_reply" Reply "The reply broke off before it was whole."
    ErrorInReply "error_in_reply" Reply "The reply is an error under a status of success."
    BadReply "bad_reply" Reply "The reply is not what the API promises."
    GarbledReply "garbled_reply" Reply "The reply holds half a surrogate pair, which no UTF-8 text can hold."
    ServerError "server_error" Reply "The server failed (HTTP 5xx)."
    Overloaded "overloaded" Reply "The server takes no more requests for now."
    Loading "loading" Reply "The server is still loading its model."
    Unauthorized "unauthorized" Reply "The server does not accept the key."
    UnknownModel "unknown_model" Reply "The server does not serve the model that was asked for."
    Unreachable "unreachable" Reply "No connection could be made."
    ConnectionLost "connection_lost" Reply "The connection was lost before the reply began."
    Stalled "stalled" Reply "The server sent nothing for longer than the stall limit."
    LocalTrouble "local_trouble" Reply "This machine is out of descriptors, ports or name service."
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        Reason::from_word(&word).ok_or_else(|| de::Error::custom(format!("unknown reason `{word}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinct_snake_case() {
        let mut words: Vec<_> = Reason::ALL.iter().map(|reason| reason.word()).collect();
        assert!(words.iter().all(|w| w.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())));
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Reason::ALL.len());
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let rejection = Rejection::new(Reason::BadReply, "é".repeat(1_000));
        assert!(rejection.detail.len() < 310 && rejection.detail.ends_with('…'));
    }
}
