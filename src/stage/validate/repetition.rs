//! Texts that repeat themselves without end: what broken kernels, bad quantisation and lost models produce.
//!
//! Five looks, each linear in the length of the text, each with room for what is repeated on purpose: tables of zeros,
//! refrains, long lists, code. Where a text has no letters, or only those of hexadecimal numbers, the limits are far
//! wider, for that is how tables and matrices look. A prompt that asks for one sentence a hundred times cannot be told
//! from a loop; such rows need a `validate` without `not_degenerate`.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

/// A run of one character: beyond this it is no emphasis any more.
const RUN: usize = 300;
/// The same for characters of which people make rules, blanks, leaders and big numbers.
const RULE_RUN: usize = 1_024;
/// The longest short unit that is looked for everywhere in the text, in characters.
const UNIT: usize = 8;
/// What short units without a pause may cover, in characters.
const UNIT_RUN: usize = 600;
/// A loop at the end of a text: at least so many turns…
const LOOP_TURNS: usize = 10;
/// …that cover at least so many characters.
const LOOP_CHARS: usize = 600;
/// What a short unit without letters may cover, in characters: a list of zeros.
const LETTERLESS_UNIT: usize = 6_000;
/// What a loop without letters may cover, in characters: a table of zeros.
const LETTERLESS_LOOP: usize = 20_000;
/// A sentence said this often…
const SAID: usize = 25;
/// …which makes up this share of the text, is all the text has to say.
const SAID_SHARE: f64 = 0.6;
/// A sentence has at least so many letters; anything shorter is a refrain, a bracket or a table cell.
const SENTENCE_LETTERS: usize = 10;
/// Words in a row that are compared: the length Gopher's filter (Rae et al. 2021, table A1) ends at.
const GRAM: usize = 10;
/// Shorter texts are not judged by their n-grams.
const GRAM_WORDS: usize = 300;
/// The share of words that stand in an n-gram said before.
const GRAM_SHARE: f64 = 0.92;
/// Shorter texts are not judged by how well they compress, in bytes.
const PACK_BYTES: usize = 4_000;
/// Prose packs 2 to 4 times, code and tables 4 to 15 times.
const PACK_RATIO: usize = 25;

/// Says what makes `text` a degenerate one, for people; `None` if it is not.
pub fn degenerate(text: &str) -> Option<String> {
    let chars: Vec<char> = text.trim_end().chars().collect();
    long_run(&chars).or_else(|| loop_at_end(&chars)).or_else(|| {
        // What the other looks find makes up most of a text, so that it packs well; most texts end here.
        let ratio = pack_ratio(text);
        if ratio < REPETITIVE {
            return None;
        }
        one_sentence(text, chars.len()).or_else(|| said_before(text)).or_else(|| packs_too_well(text, ratio))
    })
}

/// Texts that pack less than this say nothing most of the time: a text of which 60 % is one sentence said 25 times packs
/// about 2.4 times better than the rest of it does.
const REPETITIVE: usize = 3;

/// How many times smaller the text becomes.
fn pack_ratio(text: &str) -> usize {
    thread_local! {
        // Setting up a compressor costs more than packing an answer with it.
        static PACKER: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    }
    PACKER.with_borrow_mut(|packer| {
        if packer.is_none() {
            *packer = zstd::bulk::Compressor::new(PACK_LEVEL).ok();
        }
        let packed = packer.as_mut().and_then(|packer| packer.compress(text.as_bytes()).ok());
        packed.map_or(1, |packed| text.len() / packed.len().max(1))
    })
}

/// As [`PACK_RATIO`] was found with.
const PACK_LEVEL: i32 = 3;

/// Whether `c` is a letter that hexadecimal numbers do not have: tables of `0x00` are tables of zeros too.
fn is_wordy(c: char) -> bool {
    c.is_alphabetic() && !c.is_ascii_hexdigit() && !matches!(c, 'x' | 'X')
}

/// A run of one character or one short unit, anywhere.
///
/// No limit is below [`RUN`], so that a run that is too long covers at least one of the places looked at.
fn long_run(chars: &[char]) -> Option<String> {
    for period in 1..=UNIT {
        let repeats = |at: usize| chars.get(at).is_some_and(|now| chars.get(at + period) == Some(now));
        let mut from = 0;
        while from + period < chars.len() {
            if !repeats(from) {
                from += RUN / 2;
                continue;
            }
            let start = (0..from).rev().take_while(|at| repeats(*at)).last().unwrap_or(from);
            let end = (from..).find(|at| !repeats(*at)).unwrap_or(chars.len());
            let unit = chars.get(start..start + period).unwrap_or_default();
            if end - start + period > limit(unit) {
                return Some(format!("{} repeated for over {} characters", quoted(unit), limit(unit)));
            }
            from = end + 1;
        }
    }
    None
}

/// How many characters a run of `unit` may have.
fn limit(unit: &[char]) -> usize {
    match unit {
        [one] if one.is_ascii_digit() || one.is_whitespace() || "-=_*#~.+/\\─━═│┃█░▒▓·…—".contains(*one) => {
            RULE_RUN
        }
        [_] => RUN,
        _ if unit.iter().any(|&c| is_wordy(c)) => UNIT_RUN,
        _ => LETTERLESS_UNIT,
    }
}

/// A unit of any length, repeated until the text ends, wherever in the unit it ends.
///
/// The failure function of Knuth, Morris and Pratt over the text from its end gives the period of every suffix.
fn loop_at_end(chars: &[char]) -> Option<String> {
    let end: Vec<char> = chars.iter().rev().copied().collect();
    let mut border = vec![0_usize; end.len()];
    let mut found = None;
    for at in 1..end.len() {
        let mut length = border[at - 1];
        while length > 0 && end[at] != end[length] {
            length = border[length - 1];
        }
        if end[at] == end[length] {
            length += 1;
        }
        border[at] = length;
        let (covered, period) = (at + 1, at + 1 - length);
        if covered >= LOOP_CHARS && covered / period >= LOOP_TURNS {
            found = Some((covered, period));
        }
    }
    let (covered, period) = found?;
    let start = chars.len() - covered;
    let unit = chars.get(start..start + period)?;
    let enough = if unit.iter().any(|&c| is_wordy(c)) { LOOP_CHARS } else { LETTERLESS_LOOP };
    (covered >= enough).then(|| format!("{} said {} times in a row up to the end", quoted(unit), covered / period))
}

/// One sentence or line that makes up most of the text.
fn one_sentence(text: &str, chars: usize) -> Option<String> {
    let mut said: HashMap<&str, usize> = HashMap::new();
    for sentence in text.split(['.', '!', '?', '\n', '。', '！', '？']).map(str::trim) {
        if sentence.chars().filter(|&c| is_wordy(c)).nth(SENTENCE_LETTERS - 1).is_some() {
            *said.entry(sentence).or_default() += 1;
        }
    }
    let share =
        |sentence: &str, times: usize| (sentence.chars().count() + 1) as f64 * times as f64 / chars.max(1) as f64;
    let (sentence, times) = said
        .into_iter()
        .filter(|&(sentence, times)| times >= SAID && share(sentence, times) >= SAID_SHARE)
        .max_by_key(|&(sentence, times)| (times, sentence))?;
    let unit: Vec<char> = sentence.chars().take(QUOTED + 1).collect();
    Some(format!("{} said {times} times, which is most of the text", quoted(&unit)))
}

/// Nearly every ten words have been said before.
fn said_before(text: &str) -> Option<String> {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty()).collect();
    let lettered = words.iter().filter(|word| word.chars().any(is_wordy)).count();
    if words.len() < GRAM_WORDS || lettered * 2 < words.len() {
        return None;
    }
    let mut seen = HashSet::new();
    let (mut again, mut counted_to) = (0, 0);
    for (at, gram) in words.windows(GRAM).enumerate() {
        if !seen.insert(gram) {
            again += at + GRAM - counted_to.max(at);
            counted_to = at + GRAM;
        }
    }
    let share = again as f64 / words.len() as f64;
    (share >= GRAM_SHARE)
        .then(|| format!("{:.0} % of the words stand in sequences of {GRAM} said before", share * 100.0))
}

/// The text packs as no writing does.
fn packs_too_well(text: &str, ratio: usize) -> Option<String> {
    let letters = text.chars().filter(|&c| is_wordy(c)).count();
    let visible = text.chars().filter(|c| !c.is_whitespace()).count();
    if text.len() < PACK_BYTES || letters * 3 < visible {
        return None;
    }
    (ratio >= PACK_RATIO).then(|| format!("compresses {ratio} to 1, where code and tables stay below {PACK_RATIO}"))
}

/// Longer units are shown cut.
const QUOTED: usize = 40;

/// A unit as it is shown to people.
fn quoted(unit: &[char]) -> String {
    let shown: String = unit.iter().take(QUOTED).collect();
    let more = if unit.len() > QUOTED { "…" } else { "" };
    format!("{:?}{more}", shown.trim())
}

#[cfg(test)]
mod tests;
