//! [`Draft`]: a reply token by token, before it is written in anybody's dialect.
//!
//! The tokens are laid out as real thinking models make them: `<think>`, the thought, `</think>`, two line ends, the
//! answer, end of sequence. Limits and stop strings cut this layout, so that usage figures follow from it exactly.

use super::{
    persona::{Saying, after_tokens, count_tokens},
    settings::ReasoningField,
};

/// Where a text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// In the field for thoughts.
    Thought,
    /// In the content.
    Content,
    /// Nowhere: it is only counted.
    Hidden,
}

/// Why a reply ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The model made its end-of-sequence token.
    EndOfSequence,
    /// A stop string was met.
    StopString(String),
    /// A limit was reached.
    Length,
    /// The server gave up: the reply is not whole.
    Abort,
}

impl Finish {
    /// The word for `finish_reason`.
    pub fn reason(&self) -> &'static str {
        match self {
            Finish::EndOfSequence | Finish::StopString(_) => "stop",
            Finish::Length => "length",
            Finish::Abort => "abort",
        }
    }
}

/// A run of tokens that are shown in the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    channel: Channel,
    text: String,
    tokens: u32,
}

/// A reply, token by token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    segments: Vec<Segment>,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the reply, those that are not shown included.
    pub tokens: u32,
    /// Tokens of the thought in the layout; `None` when it is not told from the content.
    thought: Option<u32>,
    /// Why it ends.
    pub finish: Finish,
}

/// A place in a draft, for taking it piece by piece.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    segment: usize,
    byte: usize,
    /// Tokens of the segment before this place.
    inside: u32,
    /// Tokens of the draft before this place.
    pub tokens: u32,
}

impl Draft {
    /// Lays `said` out, with the thought shown as `field` says.
    pub fn new(said: Saying, field: ReasoningField, prompt_tokens: u32) -> Self {
        let (markers, thought_channel) = match field {
            ReasoningField::Inline => (Channel::Content, Channel::Content),
            ReasoningField::None => (Channel::Hidden, Channel::Hidden),
            ReasoningField::ReasoningContent | ReasoningField::Reasoning => (Channel::Hidden, Channel::Thought),
        };
        let mut segments = Vec::with_capacity(6);
        let mut lay = |channel, text: String, tokens| segments.push(Segment { channel, text, tokens });
        let mut thought = (field != ReasoningField::Inline).then_some(0);
        if let Some(thinking) = said.thought {
            thought = thought.map(|_| thinking.tokens);
            lay(markers, "<think>".into(), 1);
            lay(thought_channel, thinking.text, thinking.tokens);
            lay(markers, "</think>".into(), 1);
            lay(Channel::Content, "\n\n".into(), 1);
        }
        lay(Channel::Content, said.answer.text, said.answer.tokens);
        lay(Channel::Hidden, String::new(), 1);
        let tokens = segments.iter().map(|segment| segment.tokens).sum();
        Draft { segments, prompt_tokens, tokens, thought, finish: Finish::EndOfSequence }
    }

    /// Nothing but an end of sequence.
    pub fn empty(field: ReasoningField, prompt_tokens: u32) -> Self {
        let mut draft = Draft::new(Saying { thought: None, answer: Default::default() }, field, prompt_tokens);
        draft.segments.retain(|segment| segment.tokens > 0);
        draft
    }

    /// Only the thought of this draft, ended as if that were all.
    #[must_use]
    pub fn only_thought(mut self) -> Self {
        let end = self.segments.iter().position(|segment| segment.text == "</think>");
        self.segments.truncate(end.unwrap_or(0));
        self.segments.push(Segment { channel: Channel::Hidden, text: String::new(), tokens: 1 });
        self.tokens = self.segments.iter().map(|segment| segment.tokens).sum();
        self
    }

    /// Cuts the draft before the first of the stop strings, if one is there; they are looked for in thoughts too.
    #[must_use]
    pub fn stop_at(mut self, stops: &[String]) -> Self {
        let mut before = 0;
        for place in 0..self.segments.len() {
            let Some(segment) = self.segments.get_mut(place) else { break };
            let met = stops
                .iter()
                .filter(|stop| !stop.is_empty() && segment.channel != Channel::Hidden)
                .filter_map(|stop| segment.text.find(stop.as_str()).map(|at| (at, stop)))
                .min_by_key(|(at, _)| *at);
            if let Some((at, stop)) = met {
                // The token in which the stop string ends has been made.
                let until = segment.text.get(..at + stop.len()).map_or(0, count_tokens).clamp(1, segment.tokens);
                segment.text.truncate(at);
                segment.tokens = until;
                self.tokens = before + until;
                self.finish = Finish::StopString(stop.clone());
                self.segments.truncate(place + 1);
                break;
            }
            before += segment.tokens;
        }
        self
    }

    /// Cuts the draft after `most` tokens if it is longer, and says so with `finish`.
    #[must_use]
    pub fn limit(mut self, most: u32, finish: Finish) -> Self {
        if self.tokens <= most {
            return self;
        }
        let mut left = most;
        for segment in &mut self.segments {
            if segment.tokens > left {
                segment.text.truncate(after_tokens(&segment.text, 0, left));
                segment.tokens = left;
            }
            left -= segment.tokens;
        }
        self.segments.retain(|segment| segment.tokens > 0);
        self.tokens = most;
        self.finish = finish;
        self
    }

    /// Tokens of the thought as (with its two markers, without them); `None` when it is not told from the content.
    pub fn thought_tokens(&self) -> Option<(u32, u32)> {
        self.thought.map(|thought| match thought {
            0 => (0, 0),
            thought => (self.tokens.min(thought + 2), self.tokens.saturating_sub(1).min(thought)),
        })
    }

    /// All that is shown in `channel`; `None` if nothing is.
    pub fn text(&self, channel: Channel) -> Option<String> {
        let mut shown = self.segments.iter().filter(|segment| segment.channel == channel);
        let mut text = shown.next()?.text.clone();
        shown.for_each(|segment| text.push_str(&segment.text));
        (!text.is_empty()).then_some(text)
    }

    /// What is shown of the next `tokens` tokens, in order; moves `place` behind them.
    pub fn take(&self, place: &mut Place, tokens: u32) -> Vec<(Channel, &str)> {
        let mut pieces = Vec::new();
        let mut left = tokens;
        while let Some(segment) = self.segments.get(place.segment).filter(|_| left > 0) {
            let taken = left.min(segment.tokens - place.inside);
            let whole = place.inside + taken == segment.tokens;
            let end = if whole { segment.text.len() } else { after_tokens(&segment.text, place.byte, taken) };
            let piece = segment.text.get(place.byte..end).unwrap_or_default();
            if !piece.is_empty() && segment.channel != Channel::Hidden {
                pieces.push((segment.channel, piece));
            }
            left -= taken;
            place.tokens += taken;
            if whole {
                *place = Place { segment: place.segment + 1, byte: 0, inside: 0, tokens: place.tokens };
            } else {
                place.byte = end;
                place.inside += taken;
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::persona::Text;

    fn text(text: &str) -> Text {
        Text { text: text.into(), tokens: count_tokens(text) }
    }

    /// What the recorded servers' model says: 22 tokens of thought, 12 of answer, 38 in all.
    fn recorded(field: ReasoningField) -> Draft {
        let thought = " Okay the user wants three fruits so let me consider which ones are common everywhere and easy to \
                       name quickly before answering";
        let answer = "Apple banana cherry make good choices because they taste sweet 😀 today";
        Draft::new(Saying { thought: Some(text(thought)), answer: text(answer) }, field, 23)
    }

    #[test]
    fn tokens_are_counted_as_the_recorded_servers_count_them() {
        let whole = recorded(ReasoningField::Reasoning);
        assert_eq!((whole.tokens, whole.thought_tokens()), (38, Some((24, 22))));
        let cut = recorded(ReasoningField::Reasoning).limit(28, Finish::Length);
        assert_eq!((cut.tokens, cut.thought_tokens()), (28, Some((24, 22))));
        assert_eq!(cut.text(Channel::Content).as_deref(), Some("\n\nApple banana cherry"));
        let in_thought = recorded(ReasoningField::Reasoning).limit(5, Finish::Length);
        assert_eq!(in_thought.text(Channel::Thought).as_deref(), Some(" Okay the user wants"));
        assert_eq!((in_thought.text(Channel::Content), in_thought.thought_tokens()), (None, Some((5, 4))));
        let one = recorded(ReasoningField::Reasoning).limit(1, Finish::Length);
        assert_eq!((one.text(Channel::Thought), one.thought_tokens()), (None, Some((1, 0))));
    }

    #[test]
    fn a_stop_string_cuts_inside_the_thought_as_recorded() {
        let draft = recorded(ReasoningField::ReasoningContent).stop_at(&["zebra".into(), "e".into()]);
        assert_eq!(draft.text(Channel::Thought).as_deref(), Some(" Okay th"));
        assert_eq!((draft.tokens, draft.finish.clone()), (3, Finish::StopString("e".into())));
        assert_eq!(draft.clone().limit(3, Finish::Length), draft, "a limit that is not passed changes nothing");
    }

    #[test]
    fn without_a_parser_the_thought_stays_in_the_content() {
        let cut = recorded(ReasoningField::Inline).limit(6, Finish::Length);
        assert_eq!(cut.text(Channel::Content).as_deref(), Some("<think> Okay the user wants three"));
        assert_eq!((cut.text(Channel::Thought), cut.thought_tokens()), (None, None));
        let whole = recorded(ReasoningField::Inline).text(Channel::Content).expect("content");
        assert!(whole.contains("answering</think>\n\nApple"), "{whole}");
    }

    #[test]
    fn pieces_of_any_size_add_up_to_the_whole() {
        let draft = recorded(ReasoningField::ReasoningContent);
        for size in 1..40 {
            let (mut place, mut thought, mut content) = (Place::default(), String::new(), String::new());
            while place.tokens < draft.tokens {
                for (channel, piece) in draft.take(&mut place, size) {
                    if channel == Channel::Thought { &mut thought } else { &mut content }.push_str(piece);
                }
            }
            assert_eq!(Some(thought), draft.text(Channel::Thought));
            assert_eq!(Some(content), draft.text(Channel::Content));
        }
    }

    #[test]
    fn an_empty_reply_costs_one_token_and_a_thought_alone_has_no_content() {
        let empty = Draft::empty(ReasoningField::Reasoning, 5);
        assert_eq!((empty.tokens, empty.text(Channel::Content)), (1, None));
        let thought = recorded(ReasoningField::Reasoning).only_thought();
        assert_eq!((thought.tokens, thought.text(Channel::Content)), (24, None));
        assert!(thought.text(Channel::Thought).is_some());
    }
}
