//! The rules, one after the other: the first that objects names the reason.

use super::{Requirement, Settings, content::Content, echo::is_echo, refusal, repetition::degenerate};
use crate::{
    error::Error,
    format::shape,
    record::{Completion, Family, Finish, Reason, Record, Rejection, Request, Thinking},
};
use std::sync::Arc;

/// What an answer is held against.
pub struct Rules {
    settings: Settings,
    content: Content,
}

/// The requirements a flaw breaks; any of them, if required, is enough to reject.
fn broken_by(flaw: Reason) -> &'static [Requirement] {
    use Requirement::{Answer, ClosedThinking, Finished, NotDegenerate, NotEcho, NotRefusal, Thinking};
    match flaw {
        Reason::Truncated | Reason::UnknownFinish => &[Finished],
        Reason::TruncatedThinking => &[Finished, ClosedThinking],
        Reason::UnclosedThinking => &[ClosedThinking],
        Reason::MissingThinking => &[Thinking],
        Reason::Degenerate => &[NotDegenerate],
        Reason::Refusal => &[NotRefusal],
        Reason::Echo => &[NotEcho],
        // Empty, misfiled, markers left, unasked thoughts and calls, and whatever a later version finds.
        _ => &[Answer],
    }
}

/// The settings of `validate` that look for `reason`, as a pipeline file writes them; empty for what is no trouble of an
/// answer.
pub fn rules_against(reason: Reason) -> Vec<String> {
    let keys: &[&str] = match reason {
        Reason::TooShort => &["min_answer_chars"],
        Reason::TooLong => &["max_answer_chars", "max_answer_tokens"],
        Reason::LongThinking => &["max_think_ratio"],
        Reason::NoMatch => &["regex", "reasoning_regex"],
        Reason::NotJson => &["json", "json_schema"],
        Reason::SchemaMismatch => &["json_schema"],
        Reason::WrongLanguage => &["language"],
        Reason::WrongAnswer | Reason::NoReference => &["matches"],
        Reason::ExpressionFalse => &["expression"],
        flaw if flaw.family() == Family::Answer => {
            let word = |requirement| serde_json::to_value(requirement).unwrap_or_default();
            return broken_by(flaw).iter().map(|requirement| format!("require = [{}]", word(requirement))).collect();
        }
        _ => &[],
    };
    keys.iter().map(|key| (*key).to_owned()).collect()
}

impl Rules {
    /// The rules of these settings; an error says which of them cannot be read.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        Ok(Rules { content: Content::new(&settings)?, settings })
    }

    /// The rules of a stage that says nothing of its own.
    pub fn by_default() -> Self {
        Rules { settings: Settings::default(), content: Content::default() }
    }

    /// Why `completion`, a reply to what `record` asks, is not good enough, if it is not.
    pub fn objection(&self, completion: &Completion, record: &Record) -> Option<Rejection> {
        let request = record.request.as_deref();
        // An answer that repeats itself until max_tokens is cut too, but the loop is what is wrong with it.
        self.repetition(completion)
            .or_else(|| self.flaw(completion))
            .or_else(|| missing_answer(completion))
            .or_else(|| self.finish(completion))
            .or_else(|| self.missing_thought(completion, request))
            .or_else(|| self.refusal(completion))
            .or_else(|| self.echo(completion, record))
            .or_else(|| self.length(completion))
            .or_else(|| self.content.objection(completion, record))
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

    fn refusal(&self, completion: &Completion) -> Option<Rejection> {
        if !self.requires(Requirement::NotRefusal) {
            return None;
        }
        let opening = refusal::opening(&completion.content, &self.settings.refusal_phrases)?;
        Some(Rejection::new(Reason::Refusal, format!("it begins with \"{opening}\"")))
    }

    fn echo(&self, completion: &Completion, record: &Record) -> Option<Rejection> {
        let echo = self.requires(Requirement::NotEcho) && is_echo(&completion.content, &prompt(record)?);
        echo.then(|| Rejection::new(Reason::Echo, "the answer is the last turn of the prompt"))
    }

    fn length(&self, completion: &Completion) -> Option<Rejection> {
        let chars = |text: &str| text.trim().chars().count() as u64;
        let answer = chars(&completion.content);
        if let Some(least) = self.settings.min_answer_chars.filter(|least| answer < *least) {
            return Some(Rejection::new(Reason::TooShort, format!("{answer} characters, at least {least} wanted")));
        }
        if let Some(most) = self.settings.max_answer_chars.filter(|most| answer > *most) {
            return Some(Rejection::new(Reason::TooLong, format!("{answer} characters, at most {most} wanted")));
        }
        let thought = completion.reasoning.as_deref().map_or(0, chars);
        if let Some(most) = self.settings.max_think_ratio.filter(|most| thought as f64 > *most * answer as f64) {
            let detail = format!("{thought} characters of thought for {answer} of answer, at most {most} times wanted");
            return Some(Rejection::new(Reason::LongThinking, detail));
        }
        let most = self.settings.max_answer_tokens?;
        let thought = completion.usage.reasoning_tokens.unwrap_or(0);
        let tokens = completion.usage.completion_tokens?.saturating_sub(thought);
        (tokens > most).then(|| Rejection::new(Reason::TooLong, format!("{tokens} tokens, at most {most} wanted")))
    }
}

/// What the last turn before the answer says, if that is a text.
pub fn prompt(record: &Record) -> Option<String> {
    let read = || shape::chat(&record.row, &record.layout).ok().map(Arc::new);
    let chat = record.chat.clone().or_else(read)?;
    chat.messages.last()?.content.as_str().map(str::to_owned)
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
