//! [`Diagnostic`]: what is wrong with a text someone wrote, where, and what to do about it.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, renderer::DecorStyle};
use std::{fmt, ops::Range};

/// One mistake in a text: what is wrong, where it stands, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong: lowercase, without a full stop.
    pub message: String,
    /// The places it is about; the first primary one is where it is sorted to.
    pub labels: Vec<Label>,
    /// What to do about it.
    pub help: Option<String>,
}

/// A place in the [`Sources`], and what there is to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Bytes, counted through all sources.
    pub span: Range<usize>,
    /// What is said beside the caret; may be empty.
    pub text: String,
    /// True for the place of the mistake, false for a place that explains it.
    pub primary: bool,
}

impl Diagnostic {
    /// A mistake at `span`.
    pub fn new(message: impl Into<String>, span: Range<usize>, label: impl Into<String>) -> Self {
        let labels = vec![Label { span, text: label.into(), primary: true }];
        Diagnostic { message: message.into(), labels, help: None }
    }

    /// The same with a second place, one that explains it.
    #[must_use]
    pub fn see(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: label.into(), primary: false });
        self
    }

    /// The same with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same with advice, if there is any.
    #[must_use]
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// Where it begins, in bytes through all sources.
    fn position(&self) -> usize {
        self.labels.iter().find(|label| label.primary).map_or(0, |label| label.span.start)
    }
}

/// The texts diagnostics point into: the file, and each argument that changes it. Their bytes are counted through,
/// one after the other, so that a span alone says in which text it lies.
#[derive(Debug, Clone, Default)]
pub struct Sources(Vec<Source>);

#[derive(Debug, Clone)]
struct Source {
    name: String,
    text: String,
    start: usize,
}

impl Source {
    /// One byte more than the text has, so that the place behind its last byte is a place in it.
    fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len() + 1
    }
}

impl Sources {
    /// Adds a text; returns what must be added to a position in it to make a position in all of them. Users and
    /// passwords in URLs are covered.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> usize {
        let text = text.into();
        let start = self.0.last().map_or(0, |last| last.span().end);
        let credentials = credentials(&text);
        self.0.push(Source { name: name.into(), text, start });
        credentials.into_iter().for_each(|span| self.hide(start + span.start..start + span.end));
        start
    }

    /// The text at `span`; empty if it lies in none.
    pub fn text(&self, span: Range<usize>) -> &str {
        let source = self.0.iter().find(|source| source.span().contains(&span.start));
        source.and_then(|s| s.text.get(span.start - s.start..span.end.saturating_sub(s.start))).unwrap_or("")
    }

    /// Covers what stands at `span` with asterisks: for secrets that are where they should not be.
    pub fn hide(&mut self, span: Range<usize>) {
        let covered: String =
            self.text(span.clone()).bytes().map(|byte| if byte == b'\n' { '\n' } else { '*' }).collect();
        if let Some(source) = self.0.iter_mut().find(|source| source.span().contains(&span.start)) {
            let at = span.start - source.start;
            if !covered.is_empty() {
                source.text.replace_range(at..at + covered.len(), &covered);
            }
        }
    }
}

/// Where URLs in `text` have a user or password: what stands between `://` and the last `@` before the host's end.
fn credentials(text: &str) -> Vec<Range<usize>> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '?' | '#');
    let authority = |(at, mark): (usize, &str)| {
        let from = at + mark.len();
        let rest = text.get(from..)?;
        let host = rest.find(ends).map_or(rest, |end| rest.get(..end).unwrap_or(rest));
        host.rfind('@').map(|length| from..from + length)
    };
    text.match_indices("://").filter_map(authority).collect()
}

/// Everything that is wrong with a text, in the order of the text.
#[derive(Debug, Clone)]
pub struct Diagnostics {
    sources: Sources,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Puts `list` into the order of `sources`; what is said twice of one place is said once.
    pub fn new(sources: Sources, mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(Diagnostic::position);
        list.dedup();
        Diagnostics { sources, list }
    }

    /// The mistakes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True if nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them for people, with the lines they are about and carets; `colour` adds ANSI colours.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let renderer = renderer.decor_style(DecorStyle::Ascii);
        let mut text: String = self.list.iter().map(|one| renderer.render(&[self.group(one)]) + "\n\n").collect();
        let count = match self.list.len() {
            1 => "one error".to_owned(),
            n => format!("{n} errors"),
        };
        let place = self.sources.0.first().map_or("", |source| source.name.as_str());
        text.push_str(
            &renderer.render(&[Group::with_title(Level::ERROR.primary_title(format!("{place} has {count}")))]),
        );
        text.push('\n');
        text
    }

    fn group<'a>(&'a self, one: &'a Diagnostic) -> Group<'a> {
        let mut group = Level::ERROR.primary_title(one.message.as_str()).elements(self.snippets(one));
        if let Some(help) = &one.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        group
    }

    fn snippets<'a>(
        &'a self,
        one: &'a Diagnostic,
    ) -> impl Iterator<Item = Snippet<'a, annotate_snippets::Annotation<'a>>> {
        self.sources.0.iter().filter_map(|source| {
            let here: Vec<_> = one.labels.iter().filter(|label| source.span().contains(&label.span.start)).collect();
            let annotations = here.iter().map(|label| {
                let kind = if label.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
                let start = label.span.start - source.start;
                let end = label.span.end.saturating_sub(source.start).clamp(start, source.text.len().max(start));
                let text = Some(label.text.as_str()).filter(|text| !text.is_empty());
                kind.span(start..end).label(text)
            });
            let snippet = Snippet::source(&source.text).path(&source.name).annotations(annotations);
            (!here.is_empty()).then_some(snippet)
        })
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// The candidate that `word` was most likely meant to be, if one is near enough to suggest.
///
/// Near is a Jaro-Winkler similarity of at least 0.8 (it favours a common beginning, as typos do), or one word being
/// part of the other.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    let likeness = |candidate: &str| {
        let part = word.len() > 2 && (candidate.contains(&word) || word.contains(candidate));
        strsim::jaro_winkler(&word, candidate).max(if part { 0.8 } else { 0.0 })
    };
    let scored = candidates.into_iter().map(|candidate| (likeness(candidate), candidate));
    scored.filter(|(score, _)| *score >= 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, candidate)| candidate)
}

/// Advice that names the nearest candidate, or else all of them if they are few.
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if let Some(near) = nearest(word, candidates.iter().copied()) {
        return Some(format!("did you mean `{near}`?"));
    }
    let listed = candidates.iter().map(|candidate| format!("`{candidate}`")).collect::<Vec<_>>().join(", ");
    (!candidates.is_empty()).then(|| format!("known are {listed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_recognised_and_a_stranger_is_not() {
        let keys = ["max_tokens", "temperature", "top_p"];
        assert_eq!(nearest("max_token", keys), Some("max_tokens"));
        assert_eq!(nearest("tempreature", keys), Some("temperature"));
        assert_eq!(nearest("max-tokens", keys), Some("max_tokens"));
        assert_eq!(nearest("colour", keys), None);
    }

    #[test]
    fn diagnostics_come_in_the_order_of_the_text_whatever_text_they_are_in() {
        let mut sources = Sources::default();
        sources.add("a.toml", "one = 1\ntwo = 2\n");
        let second = sources.add("--set", "three=3");
        let list = vec![
            Diagnostic::new("third", second..second + 5, "here"),
            Diagnostic::new("second", 8..11, "").help("write 2"),
            Diagnostic::new("first", 0..3, ""),
        ];
        let all = Diagnostics::new(sources, list);
        assert_eq!(all.iter().map(|one| one.message.as_str()).collect::<Vec<_>>(), ["first", "second", "third"]);
        insta::assert_snapshot!(all, @r#"
        error: first
         --> a.toml:1:1
          |
        1 | one = 1
          | ^^^

        error: second
         --> a.toml:2:1
          |
        2 | two = 2
          | ^^^
          |
          = help: write 2

        error: third
         --> --set:1:1
          |
        1 | three=3
          | ^^^^^ here

        error: a.toml has 3 errors
        "#);
    }

    #[test]
    fn what_is_hidden_is_not_rendered() {
        let mut sources = Sources::default();
        sources.add("a.toml", "api_key = \"sk-é\" # x");
        sources.hide(10..17);
        let text = Diagnostics::new(sources, vec![Diagnostic::new("no", 10..17, "")]).render(true);
        assert!(!text.contains("sk-") && text.contains("*******") && text.contains("# x"), "{text}");
    }
}
