//! What to change when most rows end for one reason.

use crate::{
    error::ErrorKind::{self, FixFleet, FixPipeline},
    record::{Family, Reason},
};

/// Who has to change something, and what, when `reason` is what most rows end with.
pub(super) fn advice(reason: Reason) -> (ErrorKind, &'static str) {
    match reason {
        Reason::Truncated => (FixPipeline, "raise `max_tokens` of `template`, or ask for shorter answers"),
        Reason::TruncatedThinking => (
            FixPipeline,
            "the thoughts alone are longer than `max_tokens`: raise it in `template`, or set `thinking = false`",
        ),
        Reason::UnclosedThinking | Reason::StrayMarkers | Reason::AmbiguousReasoning => (
            FixFleet,
            "start the servers with the reasoning parser (and tool parser) of this model, `--reasoning-parser` for \
             SGLang and vLLM",
        ),
        Reason::MisroutedReasoning => (
            FixFleet,
            "the servers' reasoning parser takes the answer for a thought: start them with the parser of this model, or \
             with none",
        ),
        Reason::ThinkingMismatch => (
            FixPipeline,
            "the switch does not reach the model: set `thinking_key` of `template` to the name that the model's chat \
             template has for it",
        ),
        Reason::MissingThinking => (
            FixPipeline,
            "look whether the model thinks at all, whether `thinking_key` of `template` is the name its chat template \
             has, and whether the servers run a reasoning parser that drops thoughts",
        ),
        Reason::Empty => {
            (FixFleet, "look at the raw replies in `aside/`: a wrong chat template or model makes empty answers")
        }
        Reason::UnwantedToolCall => {
            (FixPipeline, "the prompts speak of tools that are not offered: carry them in `tools`")
        }
        Reason::UnknownFinish => {
            (FixPipeline, "look at the word, and leave \"finished\" out of `require` if it is a good one")
        }
        Reason::Degenerate => (
            FixFleet,
            "look at the answers in `aside/`: broken kernels and quantisations loop on some servers; else change \
             `temperature` or `repetition_penalty` of `template`",
        ),
        Reason::TooShort | Reason::TooLong | Reason::LongThinking | Reason::NoMatch | Reason::NotJson => {
            (FixPipeline, "look at the answers in `aside/`, and change the prompt or the rule of `validate`")
        }
        Reason::Refusal => {
            (FixPipeline, "look at the answers in `aside/`, and change `system` of `template` or the model")
        }
        Reason::Echo => (FixFleet, "a model that says its prompt again is a base model or has the wrong chat template"),
        Reason::WrongAnswer => {
            (FixPipeline, "look at the answers in `aside/`: is `matches` of `validate` set as the data are?")
        }
        Reason::ExpressionFalse | Reason::BadExpression => {
            (FixPipeline, "try the `expression` of `validate` in a `[[test]]`")
        }
        Reason::NoReference => (FixPipeline, "`matches.field` of `validate` names a field that these rows do not have"),
        Reason::ContextOverflow => (
            FixPipeline,
            "prompts and `max_tokens` together are longer than the model's context: lower `max_tokens` of `template`, \
             filter by `prompt_chars`, or start the servers with a longer context",
        ),
        Reason::BadRequest => (FixPipeline, "the servers refuse what `template` sends: take out what they do not know"),
        Reason::Unauthorized => (FixPipeline, "set `api_key` of `[fleet]`"),
        Reason::UnknownModel => (FixPipeline, "set `model` of `[fleet]` to the name the servers serve"),
        Reason::LocalTrouble => (ErrorKind::FixMachine, "raise `ulimit -n`, or lower `concurrency` of `[fleet]`"),
        other => match other.family() {
            Family::Reply => (FixFleet, "look at the servers' logs"),
            Family::Input | Family::Row | Family::Answer => (FixPipeline, "look at what was set aside in `aside/`"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_advice_that_an_error_can_carry() {
        for reason in Reason::ALL {
            let (kind, advice) = advice(*reason);
            assert_ne!(kind, ErrorKind::Bug);
            assert!(!advice.ends_with('.') && !advice.is_empty(), "{reason}");
        }
    }
}
