//! Thoughts that a server left in the answer, taken out (pure).
//!
//! Models open a thought with one marker and close it with another; which ones is a property of the model. Templates
//! that open the thought in the prompt make the reply start inside it, so that only the closing marker arrives.

/// The markers of known model families: Qwen, DeepSeek and most others; Mistral; Seed; and names used by fine-tunes.
pub const MARKERS: &[(&str, &str)] = &[
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
];

/// Markers that stand around whole parts of a raw reply and belong to neither thought nor answer.
const WRAPPERS: &[&str] = &["<|end|>", "<|start|>assistant", "<|return|>", "<answer>", "</answer>"];

/// An answer, and the thought that stood before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// The thoughts, joined, without markers; `None` if there was no marker. Blank for an empty shell.
    pub thought: Option<String>,
    /// What follows the thought; empty if it was never closed.
    pub answer: String,
    /// Whether a thought was opened and not closed.
    pub unclosed: bool,
}

/// Takes the thoughts from the beginning of `text`.
///
/// Opening markers count only at the beginning: an answer may well speak of `<think>`. With `inside`, the reply may
/// have begun inside a thought, so that a closing marker without an opening one ends it.
pub fn split(text: &str, inside: bool) -> Split {
    let mut thought: Option<String> = None;
    let mut rest = text;
    loop {
        let begin = skip_wrappers(rest);
        let opened = MARKERS.iter().find_map(|(open, close)| Some((begin.strip_prefix(open)?, *close)));
        let Some((after, close)) = opened else { break };
        let Some((piece, next)) = after.split_once(close) else {
            join(&mut thought, after);
            return Split { thought, answer: String::new(), unclosed: true };
        };
        join(&mut thought, piece);
        rest = skip_closing(next);
    }
    if thought.is_none()
        && inside
        && let Some((before, after)) = at_lone_closing(rest)
    {
        join(&mut thought, before);
        rest = skip_closing(after);
    }
    let answer = match thought {
        Some(_) => unwrapped(rest).trim_start_matches(['\n', '\r']).to_owned(),
        None => rest.to_owned(),
    };
    Split { thought, answer, unclosed: false }
}

/// Whether there is nothing to see in the text: only white space, control characters, characters that take no room (soft
/// hyphen, zero-width space and joiners, direction marks, word joiner, byte order mark) or show nothing (blank braille,
/// Hangul fillers), and the mark that stands for what could not be decoded.
pub fn is_blank(text: &str) -> bool {
    let shows_nothing = |letter| {
        matches!(letter, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
            || matches!(letter, '\u{2800}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{fffd}')
    };
    text.chars().all(|letter: char| letter.is_whitespace() || letter.is_control() || shows_nothing(letter))
}

/// A marker of a thought, or a special token, that stands in the text outside of code, if there is one.
pub fn stray_marker(text: &str) -> Option<&'static str> {
    let mut markers = MARKERS.iter().flat_map(|(open, close)| [*open, *close]);
    // `<reasoning>` and its like are also plain XML; only those that no answer has by chance are looked for.
    markers
        .find(|marker| is_telling(marker) && outside_code(text, marker))
        .or_else(|| TOKENS.iter().find(|token| outside_code(text, token)).copied())
}

/// Special tokens of chat templates: one that stands in an answer was not taken for the end it is.
const TOKENS: &[&str] = &[
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|end|>",
    "<|return|>",
    "<｜end▁of▁sentence｜>",
];

/// A raw tool call that stands in the text although it should have been parsed, if there is one.
pub fn stray_tool_call(text: &str) -> Option<&'static str> {
    const CALLS: &[&str] =
        &["<tool_call>", "<|tool_call|>", "[TOOL_CALLS]", "<|tool_calls_section_begin|>", "<function_call>"];
    CALLS.iter().find(|call| outside_code(text, call)).copied()
}

fn is_telling(marker: &str) -> bool {
    marker.contains("think>") || marker.contains("THINK]") || marker.contains("<|")
}

/// Whether `marker` occurs in the text outside of back-quoted code.
fn outside_code(text: &str, marker: &str) -> bool {
    // Cheap for the many answers that have none.
    text.contains(marker) && text.split('`').step_by(2).any(|outside| outside.contains(marker))
}

/// The text of a thought without the markers that a server left at its two ends.
pub fn bare(text: &str) -> &str {
    let mut text = text.trim();
    while let Some(inner) =
        MARKERS.iter().find_map(|(open, close)| text.strip_prefix(open).or_else(|| text.strip_suffix(close)))
    {
        text = inner.trim();
    }
    text
}

/// What stands before and after the first closing marker that has no opening one before it, and is not shown in
/// quotes: an answer may speak of `</think>`.
fn at_lone_closing(text: &str) -> Option<(&str, &str)> {
    let parts = |(open, close): &(&str, &str)| {
        let mut closings = text.match_indices(close).filter_map(|(at, _)| {
            let (before, after) = (text.get(..at)?, text.get(at + close.len()..)?);
            let shown = ['`', '"', '\''].iter().any(|&quote| before.ends_with(quote) && after.starts_with(quote));
            (!shown).then_some((before, after))
        });
        closings.next().filter(|(before, _)| !before.contains(open))
    };
    MARKERS.iter().filter_map(parts).min_by_key(|(before, _)| before.len())
}

/// The text after the closing markers it begins with: a thought may be closed twice, by the model and by its template.
fn skip_closing(text: &str) -> &str {
    let mut text = text;
    while let Some(after) = MARKERS.iter().find_map(|(_, close)| text.trim_start().strip_prefix(close)) {
        text = after;
    }
    text
}

fn join(thought: &mut Option<String>, piece: &str) {
    let piece = bare(unwrapped(piece));
    match thought {
        Some(thought) if !thought.is_empty() && !piece.is_empty() => {
            thought.push_str("\n\n");
            thought.push_str(piece);
        }
        Some(thought) => thought.push_str(piece),
        None => *thought = Some(piece.to_owned()),
    }
}

fn skip_wrappers(text: &str) -> &str {
    let mut text = text.trim_start();
    while let Some(after) = WRAPPERS.iter().find_map(|wrapper| text.strip_prefix(wrapper)) {
        text = after.trim_start();
    }
    text
}

/// The text without the wrappers at its two ends; unchanged if there are none.
fn unwrapped(text: &str) -> &str {
    let begin = skip_wrappers(text);
    let text = if begin.len() == text.trim_start().len() { text } else { begin };
    let mut text = text;
    while let Some(before) = WRAPPERS.iter().find_map(|wrapper| text.trim_end().strip_suffix(wrapper)) {
        text = before.trim_end();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, inside: bool) -> (Option<String>, String, bool) {
        let Split { thought, answer, unclosed } = split(text, inside);
        (thought, answer, unclosed)
    }

    #[test]
    fn a_thought_before_the_answer_is_taken_out_in_every_family() {
        for (open, close) in MARKERS {
            let text = format!("\n{open}\nI add.\n{close}\n\nThe sum is 12.");
            assert_eq!(parts(&text, false), (Some("I add.".into()), "The sum is 12.".into(), false), "{open}");
        }
    }

    #[test]
    fn a_closing_marker_alone_counts_only_where_the_reply_may_begin_inside_a_thought() {
        let text = "I add.\n</think>\n\nThe sum is 12.";
        assert_eq!(parts(text, true), (Some("I add.".into()), "The sum is 12.".into(), false));
        assert_eq!(parts(text, false), (None, text.into(), false));
        assert_eq!(stray_marker(text), Some("</think>"));
    }

    #[test]
    fn an_unclosed_thought_leaves_no_answer() {
        assert_eq!(parts("<think>First I add", true), (Some("First I add".into()), String::new(), true));
    }

    #[test]
    fn shells_and_doubled_thoughts_are_taken_out_whole() {
        assert_eq!(parts("<think>\n\n</think>\n\nNo.", false), (Some(String::new()), "No.".into(), false));
        let doubled = "<think>a</think>\n<think>b</think>No.";
        assert_eq!(parts(doubled, false), (Some("a\n\nb".into()), "No.".into(), false));
    }

    #[test]
    fn doubled_markers_are_one() {
        for text in
            ["<think>\n<think>\na</think>\nNo.", "<think>a</think>\n</think>\n\nNo.", "a\n</think>\n</think>\nNo."]
        {
            assert_eq!(parts(text, true), (Some("a".into()), "No.".into(), false), "{text}");
        }
    }

    #[test]
    fn an_answer_that_shows_a_closing_marker_is_left_whole() {
        for text in [
            "Qwen writes `</think>` when it is done.",
            "Write \"</think>\" by hand.",
            "```\n<think>\na\n</think>\n```\nis how it looks.",
        ] {
            assert_eq!(parts(text, true), (None, text.into(), false), "{text}");
        }
        let odd = "The user's ` is odd.</think>No.";
        assert_eq!(parts(odd, true), (Some("The user's ` is odd.".into()), "No.".into(), false));
    }

    #[test]
    fn an_answer_may_speak_of_markers_in_code() {
        let text = "Qwen writes `<think>` before it thinks.";
        assert_eq!(parts(text, true).1, text);
        assert_eq!(stray_marker(text), None);
        assert_eq!(stray_marker("so </think> remains"), Some("</think>"));
        assert_eq!(stray_marker("<reasoning> is an XML element"), None);
    }

    #[test]
    fn the_channels_of_gpt_oss_are_told_apart() {
        let text =
            "<|channel|>analysis<|message|>I add.<|end|><|start|>assistant<|channel|>final<|message|>12.<|return|>";
        let Split { thought, answer, .. } = split(text, true);
        assert_eq!(answer, "12.");
        assert_eq!(thought.as_deref(), Some("I add."));
    }
}
