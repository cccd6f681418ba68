//! The rules, one after the other: the first that objects names the reason.

use super::{Requirement, Settings, repetition::degenerate};
use crate::record::{Completion, Finish, Reason, Rejection, Request, Thinking};
use regex::Regex;

/// What an answer is held against.
pub struct Rules {
    /// As the pipeline file has them.
    pub settings: Settings,
    /// `settings.regex`, compiled.
    pub pattern: Option<Regex>,
}

/// The requirements a flaw breaks; any of them, if required, is enough to reject.
fn broken_by(flaw: Reason) -> &'static [Requirement] {
    use Requirement::{Answer, ClosedThinking, Finished, NotDegenerate, Thinking};
    match flaw {
        Reason::Truncated | Reason::UnknownFinish => &[Finished],
        Reason::TruncatedThinking => &[Finished, ClosedThinking],
        Reason::UnclosedThinking => &[ClosedThinking],
        Reason::MissingThinking => &[Thinking],
        Reason::Degenerate => &[NotDegenerate],
        // Empty, misfiled, markers left, unasked thoughts and calls, and whatever a later version finds.
        _ => &[Answer],
    }
}

impl Rules {
    /// Why `completion`, the reply to `request`, is not good enough, if it is not.
    pub fn objection(&self, completion: &Completion, request: Option<&Request>) -> Option<Rejection> {
        // An answer that repeats itself until max_tokens is cut too, but the loop is what is wrong with it.
        self.repetition(completion)
            .or_else(|| self.flaw(completion))
            .or_else(|| missing_answer(completion))
            .or_else(|| self.finish(completion))
            .or_else(|| self.missing_thought(completion, request))
            .or_else(|| self.length(completion))
            .or_else(|| self.form(completion))
    }

    fn requires(&self, requirement: Requirement) -> bool {
        requirement == Requirement::Answer || self.settings.require.contains(&requirement)
    }

    /// The flaw the reply has in itself, if a required rule minds it.
    fn flaw(&self, completion: &Completion) -> Option<Rejection> {
        let flaw = completion.flaw.filter(|&flaw| flaw != Reason::UnknownFinish || !self.is_done(completion))?;
        let minded = broken_by(flaw).iter().any(|&requirement| self.requires(requirement));
        minded.then(|| Rejection::new(flaw, completion.detail.as_str()))
    }

    /// How the reply ended, for where another flaw, which no rule minds, hides that it was cut.
    fn finish(&self, completion: &Completion) -> Option<Rejection> {
        let (reason, detail) = match &completion.finish {
            _ if !self.requires(Requirement::Finished) || self.is_done(completion) => return None,
            Finish::Stop | Finish::ToolCalls => return None,
            Finish::Length => (Reason::Truncated, "the answer ends where `max_tokens` or the context did".to_owned()),
            Finish::Other(word) => (Reason::UnknownFinish, format!("the finish reason is {word:?}")),
        };
        Some(Rejection::new(reason, detail))
    }

    /// Whether the model was done in a word that the pipeline file names.
    fn is_done(&self, completion: &Completion) -> bool {
        matches!(&completion.finish, Finish::Other(word) if self.settings.finish_words.contains(word))
    }

    fn missing_thought(&self, completion: &Completion, request: Option<&Request>) -> Option<Rejection> {
        let asked = request.is_some_and(|request| request.thinking == Thinking::On);
        let thought = completion.reasoning.as_deref().is_some_and(|thought| !thought.trim().is_empty());
        let missing = self.requires(Requirement::Thinking) && asked && !thought;
        missing.then(|| Rejection::new(Reason::MissingThinking, "thinking was asked for and the reply has no thought"))
    }

    fn repetition(&self, completion: &Completion) -> Option<Rejection> {
        if !self.requires(Requirement::NotDegenerate) {
            return None;
        }
        let thought = completion.reasoning.as_deref().unwrap_or_default();
        [("answer", completion.content.as_str()), ("thought", thought)].into_iter().find_map(|(what, text)| {
            degenerate(text).map(|found| Rejection::new(Reason::Degenerate, format!("in the {what}: {found}")))
        })
    }

    fn length(&self, completion: &Completion) -> Option<Rejection> {
        if let Some(least) = self.settings.min_answer_chars {
            let chars = completion.content.trim().chars().count() as u64;
            if chars < least {
                return Some(Rejection::new(Reason::TooShort, format!("{chars} characters, at least {least} wanted")));
            }
        }
        let most = self.settings.max_answer_tokens?;
        let thought = completion.usage.reasoning_tokens.unwrap_or(0);
        let tokens = completion.usage.completion_tokens?.saturating_sub(thought);
        (tokens > most).then(|| Rejection::new(Reason::TooLong, format!("{tokens} tokens, at most {most} wanted")))
    }

    fn form(&self, completion: &Completion) -> Option<Rejection> {
        if let Some(pattern) = &self.pattern
            && !pattern.is_match(&completion.content)
        {
            return Some(Rejection::new(Reason::NoMatch, format!("no match for {pattern}")));
        }
        if !self.settings.json {
            return None;
        }
        let error = serde_json::from_str::<serde::de::IgnoredAny>(&completion.content).err()?;
        Some(Rejection::new(Reason::NotJson, error.to_string()))
    }
}

/// A blank answer that calls no tool is never accepted, whatever the reply's flaw was or was not.
fn missing_answer(completion: &Completion) -> Option<Rejection> {
    let calls = completion.tool_calls.as_ref().is_some_and(|calls| match calls {
        serde_json::Value::Array(calls) => !calls.is_empty(),
        other => !other.is_null(),
    });
    if calls || !completion.content.trim().is_empty() {
        return None;
    }
    let detail = match (completion.flaw, completion.content.chars().count()) {
        (Some(_), _) => completion.detail.clone(),
        (None, 0) => "the answer has no characters".to_owned(),
        (None, blanks) => format!("the answer is {blanks} characters of white space"),
    };
    Some(Rejection::new(completion.flaw.unwrap_or(Reason::Empty), detail))
}
