//! [`Persona`]: what the simulated model says: a thought and an answer of ordinary English words, clearly labelled.
//!
//! A token is one word with the white space before it. The text of a reply is a walk through a bank of sentences, so
//! that no sentence comes twice in a reply of ordinary length and making one costs little more than copying it.

use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use rand_distr::{Distribution, LogNormal};

/// What every simulated answer begins with.
pub const LABEL: &str = "[simulated]";

/// Sentences in the bank; a power of two, so that every odd stride visits all of them.
const SENTENCES: usize = 1 << 12;

/// Words of the question that an answer repeats.
const QUOTED_WORDS: usize = 8;

const ADJECTIVES: &[&str] = &[
    "quiet", "bright", "narrow", "early", "patient", "heavy", "golden", "distant", "careful", "simple", "broken",
    "gentle", "hollow", "restless", "sturdy", "wooden", "frozen", "curious", "faded", "humble", "rapid", "silent",
    "tidy", "vivid", "weary", "young", "ancient", "brisk", "clever", "damp", "eager", "formal", "grand", "honest",
];
const NOUNS: &[&str] = &[
    "river", "lantern", "teacher", "garden", "engine", "bridge", "letter", "harbour", "mountain", "market", "window",
    "pattern", "number", "circle", "village", "forest", "kitchen", "painter", "method", "question", "reason", "signal",
    "station", "theory", "valley", "weaver", "anchor", "basket", "compass", "doctor", "example", "farmer", "gallery",
    "hammer", "island", "journey", "ladder", "meadow", "notebook", "orchard", "pillar", "quarry", "sailor", "tunnel",
];
const VERBS: &[&str] = &[
    "carries",
    "follows",
    "measures",
    "explains",
    "repairs",
    "crosses",
    "gathers",
    "describes",
    "compares",
    "borrows",
    "divides",
    "extends",
    "finishes",
    "guards",
    "improves",
    "joins",
    "lifts",
    "matches",
    "notices",
    "opens",
    "paints",
    "reaches",
    "shelters",
    "teaches",
    "unfolds",
    "visits",
    "watches",
    "balances",
    "collects",
    "defends",
];
const LINKS: &[&str] =
    &["near", "behind", "beyond", "beside", "above", "under", "against", "without", "toward", "across"];

/// The model: a bank of sentences, and how long its answers are.
#[derive(Debug, Clone)]
pub struct Persona {
    sentences: Vec<Sentence>,
    seed: u64,
    lengths: Option<LogNormal<f64>>,
    mean_tokens: f64,
    thinking_share: f64,
}

/// Some words, each with a space before it.
#[derive(Debug, Clone)]
struct Sentence {
    text: String,
    words: u32,
}

/// A reply before any limit is put on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saying {
    /// The thought; `None` when the model does not think.
    pub thought: Option<Text>,
    /// The answer.
    pub answer: Text,
}

/// A text and its tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    /// The text.
    pub text: String,
    /// How many tokens it is.
    pub tokens: u32,
}

/// What a reply depends on.
#[derive(Debug, Clone, Copy)]
pub struct Cue<'a> {
    /// The prompt, as a hash.
    pub prompt: u64,
    /// The last thing the user said.
    pub question: &'a str,
    /// What makes one reply to a prompt differ from another; the same for all replies at temperature 0.
    pub variant: u64,
    /// Whether the model is to think.
    pub thinking: bool,
}

impl Persona {
    /// A model of `seed` whose replies have `mean_tokens` tokens on average, log-normal with `sigma`, of which
    /// `thinking_share` is thought.
    pub fn new(seed: u64, mean_tokens: f64, sigma: f64, thinking_share: f64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let sentences = (0..SENTENCES).map(|_| sentence(&mut random)).collect();
        // The mean of a log-normal is exp(mu + sigma^2 / 2).
        let lengths = LogNormal::new(mean_tokens.ln() - sigma * sigma / 2.0, sigma).ok();
        Persona { sentences, seed, lengths, mean_tokens, thinking_share }
    }

    /// What it says: the same for the same cue.
    pub fn say(&self, cue: Cue<'_>) -> Saying {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(mix(self.seed, cue.prompt, cue.variant));
        let length = self.lengths.map_or(self.mean_tokens, |lengths| lengths.sample(&mut random));
        let length = length.round().clamp(1.0, 1e6);
        let start = random.random_range(0..SENTENCES);
        let stride = random.random_range(0..SENTENCES / 2) * 2 + 1;
        let mut walk = (0..).map(|step: usize| start.wrapping_add(step.wrapping_mul(stride)) % SENTENCES);
        let thinks = cue.thinking && self.thinking_share > 0.0;
        let thought_tokens = if thinks { ((length * self.thinking_share) as u32).max(1) } else { 0 };
        let thought = thinks.then(|| {
            let mut thought = Text::default();
            self.fill(&mut thought, thought_tokens, &mut walk);
            thought
        });
        let mut answer = label(cue.prompt, cue.question);
        let answer_tokens = (length as u32).saturating_sub(thought_tokens).max(answer.tokens);
        self.fill(&mut answer, answer_tokens, &mut walk);
        Saying { thought, answer }
    }

    /// One phrase over and over: `tokens` tokens of what a model says that has lost its way.
    pub fn stutter(&self, cue: Cue<'_>, tokens: u32) -> Saying {
        let phrase = self
            .sentences
            .get((cue.prompt ^ cue.variant) as usize % SENTENCES)
            .cloned()
            .unwrap_or(Sentence { text: " again".into(), words: 1 });
        let mut answer = label(cue.prompt, cue.question);
        while answer.tokens < tokens {
            push(&mut answer, &phrase, tokens);
        }
        Saying { thought: None, answer }
    }

    /// Adds sentences until the text has `tokens` tokens.
    fn fill(&self, text: &mut Text, tokens: u32, walk: &mut impl Iterator<Item = usize>) {
        text.text.reserve(tokens.saturating_sub(text.tokens) as usize * 7);
        while text.tokens < tokens {
            let Some(sentence) = walk.next().and_then(|place| self.sentences.get(place)) else { break };
            push(text, sentence, tokens);
        }
    }
}

/// Adds a sentence, or as many of its words as there is room for.
fn push(text: &mut Text, sentence: &Sentence, most: u32) {
    let room = most.saturating_sub(text.tokens);
    let words = room.min(sentence.words);
    let end = if words == sentence.words { sentence.text.len() } else { after_tokens(&sentence.text, 0, words) };
    text.text.push_str(sentence.text.get(..end).unwrap_or_default());
    text.tokens += words;
}

/// The place in `text` where `tokens` tokens after the place `from` end; the end of the text if there are not so many.
///
/// `from` must be a place where a token ends, or 0.
pub fn after_tokens(text: &str, from: usize, tokens: u32) -> usize {
    let mut left = tokens;
    let mut in_word = false;
    for (place, letter) in text.get(from..).unwrap_or_default().char_indices() {
        if letter.is_whitespace() {
            if in_word {
                left -= 1;
            }
            if left == 0 {
                return from + place;
            }
            in_word = false;
        } else {
            if left == 0 {
                return from + place;
            }
            in_word = true;
        }
    }
    text.len()
}

/// The tokens of `text`: its words.
pub fn count_tokens(text: &str) -> u32 {
    u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX)
}

/// The hash by which tests know a prompt, as answers show it: eight hexadecimal digits.
pub fn short_hash(prompt: u64) -> String {
    format!("{:08x}", prompt >> 32)
}

/// What every answer begins with: the label, the prompt's hash, the first words of the question.
fn label(prompt: u64, question: &str) -> Text {
    let mut text = format!("{LABEL} {}", short_hash(prompt));
    for word in question.split_whitespace().take(QUOTED_WORDS) {
        text.push(' ');
        text.push_str(word);
    }
    let tokens = count_tokens(&text);
    Text { text, tokens }
}

fn sentence(random: &mut Xoshiro256PlusPlus) -> Sentence {
    let mut pick = |words: &[&'static str]| words.get(random.random_range(0..words.len())).copied().unwrap_or("word");
    let text = format!(
        " The {} {} {} each {} {} {} the {} {}.",
        pick(ADJECTIVES),
        pick(NOUNS),
        pick(VERBS),
        pick(ADJECTIVES),
        pick(NOUNS),
        pick(LINKS),
        pick(ADJECTIVES),
        pick(NOUNS)
    );
    let words = count_tokens(&text);
    Sentence { text, words }
}

/// One number of three, each of which matters.
fn mix(a: u64, b: u64, c: u64) -> u64 {
    let mut bytes = [0; 24];
    for (into, from) in bytes.chunks_exact_mut(8).zip([a, b, c]) {
        into.copy_from_slice(&from.to_le_bytes());
    }
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn cue(prompt: u64, variant: u64) -> Cue<'static> {
        Cue { prompt, question: "Why is the sky\nblue at noon and red in the evening", variant, thinking: true }
    }

    #[test]
    fn the_same_cue_gets_the_same_words_and_another_variant_others() {
        let persona = Persona::new(1, 300.0, 0.5, 0.5);
        assert_eq!(persona.say(cue(7, 0)), Persona::new(1, 300.0, 0.5, 0.5).say(cue(7, 0)));
        assert_ne!(persona.say(cue(7, 0)), persona.say(cue(7, 1)));
        assert_ne!(persona.say(cue(7, 0)).thought, persona.say(cue(8, 0)).thought);
    }

    #[test]
    fn an_answer_says_that_it_is_simulated_and_whose_it_is() {
        let said = Persona::new(1, 300.0, 0.5, 0.5).say(cue(0xabcd_ef01_2345_6789, 0));
        assert!(said.answer.text.starts_with("[simulated] abcdef01 Why is the sky blue at noon and "), "{said:?}");
    }

    #[test]
    fn lengths_have_the_mean_they_were_given_and_tokens_are_counted_exactly() {
        let persona = Persona::new(3, 400.0, 0.6, 0.5);
        let mut sum = 0;
        for prompt in 0..2000 {
            let said = persona.say(cue(prompt, 0));
            let thought = said.thought.expect("it thinks");
            assert_eq!(thought.tokens, count_tokens(&thought.text));
            assert_eq!(said.answer.tokens, count_tokens(&said.answer.text));
            sum += thought.tokens + said.answer.tokens;
        }
        assert!((380..420).contains(&(sum / 2000)), "{}", sum / 2000);
    }

    #[test]
    fn ordinary_answers_do_not_repeat_themselves_and_stuttered_ones_do() {
        let most_repeated = |text: &str| {
            let words: Vec<_> = text.split_whitespace().collect();
            let mut counts = HashMap::new();
            words.windows(8).for_each(|run| *counts.entry(run.to_vec()).or_insert(0) += 1);
            counts.into_values().max().unwrap_or(0)
        };
        let persona = Persona::new(1, 3000.0, 0.0, 0.0);
        assert_eq!(most_repeated(&persona.say(cue(5, 0)).answer.text), 1);
        assert!(most_repeated(&persona.stutter(cue(5, 0), 3000).answer.text) > 100);
    }

    #[test]
    fn a_text_is_cut_at_the_ends_of_its_tokens() {
        let text = "été  \u{2003}noir 😀 fin";
        let ends: Vec<_> =
            (0..=5).map(|tokens| text.get(..after_tokens(text, 0, tokens)).expect("a boundary")).collect();
        assert_eq!(ends, ["", "été", "été  \u{2003}noir", "été  \u{2003}noir 😀", text, text]);
        assert_eq!(after_tokens(text, after_tokens(text, 0, 1), 1), after_tokens(text, 0, 2));
    }
}
