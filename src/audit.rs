//! What is in a dataset, found by reading it once in bounded memory: before money is spent on it.

use crate::{
    format::{Framed, shape, shape::Answer},
    record::{Layout, Reason, Shape},
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write,
};
use xxhash_rust::xxh3::xxh3_64;

/// What has been seen of a dataset so far.
#[derive(Debug, Default, Serialize)]
pub struct Audit {
    /// Rows, unreadable lines left out.
    pub rows: u64,
    /// Rows by shape.
    pub shapes: BTreeMap<&'static str, u64>,
    /// Rows that have an answer.
    pub answered: u64,
    /// Rows that have none, by what stands in its place.
    pub empty: BTreeMap<&'static str, u64>,
    /// Rows whose answer comes with a thought.
    pub with_thought: u64,
    /// Rows whose prompt stood in an earlier row, exactly.
    pub duplicate_prompts: u64,
    /// True if there were more prompts than could be remembered: then there may be more duplicates.
    pub duplicate_prompts_at_least: bool,
    /// Rows that cannot be asked about, and lines that cannot be read.
    pub problems: BTreeMap<Reason, Problem>,
    /// Lengths of prompts in characters.
    pub prompt_chars: Lengths,
    /// Lengths of answers in characters, thoughts left out.
    pub answer_chars: Lengths,
    #[serde(skip)]
    prompts: HashSet<u64>,
}

/// How often something is wrong, and where it was first seen.
#[derive(Debug, Default, Serialize)]
pub struct Problem {
    /// How often.
    pub count: u64,
    /// The first few places, `file:row: detail`.
    pub first: Vec<String>,
}

/// A histogram with buckets that double: 0, 1, 2-3, 4-7, …
#[derive(Debug, Default, Serialize)]
pub struct Lengths {
    /// How many fall into each bucket; bucket n begins at 2^(n-1).
    pub buckets: Vec<u64>,
    /// All lengths together.
    pub total: u64,
    /// The largest.
    pub max: u64,
}

/// More prompts than this are not remembered (8 bytes each, and the table's own).
const PROMPTS_REMEMBERED: usize = 20_000_000;

/// Places named for each problem.
const FIRST: usize = 3;

impl Audit {
    /// Looks at one row of `file`.
    pub fn row(&mut self, file: &str, framed: &Framed) {
        let place = |detail: &str| format!("{file}:{}: {detail}", framed.position);
        if let Some(problem) = &framed.problem {
            self.problem(problem.reason, place(&problem.detail));
            return;
        }
        self.rows += 1;
        let found = shape::detect(&framed.bytes);
        let layout = Layout { shape: found, ..Layout::default() };
        *self.shapes.entry(found.map_or("unknown", word)).or_default() += 1;
        match shape::answer(&framed.bytes, &layout) {
            Ok(answer) => self.answer(answer),
            Err(rejection) => return self.problem(rejection.reason, place(&rejection.detail)),
        }
        match shape::chat(&framed.bytes, &layout) {
            Ok(chat) => {
                let text = serde_json::to_vec(&chat).unwrap_or_default();
                self.prompt(xxh3_64(&text));
                let chars = shape::prompt_chars(&framed.bytes, &layout).unwrap_or_default();
                self.prompt_chars.add(chars as u64);
            }
            Err(rejection) => self.problem(rejection.reason, place(&rejection.detail)),
        }
    }

    /// The input ended with an error.
    pub fn broke_off(&mut self, detail: String) {
        self.problem(Reason::CutInput, detail);
    }

    fn answer(&mut self, answer: Answer) {
        match answer {
            Answer::Present { chars, thought } => {
                self.answered += 1;
                self.with_thought += u64::from(thought);
                self.answer_chars.add(chars as u64);
            }
            needed => *self.empty.entry(kind(needed)).or_default() += 1,
        }
    }

    fn prompt(&mut self, hash: u64) {
        if self.prompts.contains(&hash) {
            self.duplicate_prompts += 1;
        } else if self.prompts.len() < PROMPTS_REMEMBERED {
            self.prompts.insert(hash);
        } else {
            self.duplicate_prompts_at_least = true;
        }
    }

    fn problem(&mut self, reason: Reason, place: String) {
        let problem = self.problems.entry(reason).or_default();
        problem.count += 1;
        if problem.first.len() < FIRST {
            problem.first.push(place);
        }
    }

    /// The findings in words.
    pub fn report(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _written = self.write_report(&mut text);
        text
    }

    fn write_report(&self, text: &mut String) -> std::fmt::Result {
        let empty: u64 = self.empty.values().sum();
        writeln!(text, "{} rows, {} % of the answers are empty", self.rows, percent(empty, self.rows))?;
        writeln!(text)?;
        for (shape, count) in &self.shapes {
            writeln!(text, "{count:>12}  shape: {shape}")?;
        }
        writeln!(text, "{:>12}  answered", self.answered)?;
        if self.with_thought > 0 {
            writeln!(text, "{:>12}    with a thought", self.with_thought)?;
        }
        writeln!(text, "{empty:>12}  empty")?;
        for (kind, count) in &self.empty {
            writeln!(text, "{count:>12}    {kind}")?;
        }
        let at_least = if self.duplicate_prompts_at_least { " (at least)" } else { "" };
        writeln!(text, "{:>12}  prompts that stood in an earlier row{at_least}", self.duplicate_prompts)?;
        for (reason, problem) in &self.problems {
            writeln!(text, "{:>12}  {reason}: {}", problem.count, reason.sentence())?;
            for place in &problem.first {
                writeln!(text, "                {place}")?;
            }
        }
        self.prompt_chars.write("prompt", text)?;
        self.answer_chars.write("answer", text)
    }
}

impl Lengths {
    fn add(&mut self, length: u64) {
        let bucket = (u64::BITS - length.leading_zeros()) as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.total = self.total.saturating_add(length);
        self.max = self.max.max(length);
    }

    fn write(&self, name: &str, text: &mut String) -> std::fmt::Result {
        const WIDTH: u64 = 40;
        let count: u64 = self.buckets.iter().sum();
        let Some(most) = self.buckets.iter().max().filter(|most| **most > 0) else { return Ok(()) };
        writeln!(text, "\n{name} length in characters: mean {}, longest {}", self.total / count, self.max)?;
        let first = self.buckets.iter().position(|count| *count > 0).unwrap_or(0);
        for (bucket, count) in self.buckets.iter().enumerate().skip(first) {
            let from = if bucket == 0 { 0 } else { 1_u64 << (bucket - 1) };
            let bar = "#".repeat(usize::try_from((count * WIDTH).div_ceil(*most)).unwrap_or(0));
            writeln!(text, "{from:>10}+ {count:>10}  {bar}")?;
        }
        Ok(())
    }
}

/// A share in percent, never rounded to all or to nothing.
fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    let rounded = share.round();
    match (rounded, part) {
        (0.0, 1..) => "less than 0.5".to_owned(),
        (100.0, part) if part < whole => "more than 99.5".to_owned(),
        _ => format!("{rounded}"),
    }
}

fn word(shape: Shape) -> &'static str {
    match shape {
        Shape::Messages => "messages",
        Shape::Conversations => "conversations",
        Shape::Alpaca => "alpaca",
        Shape::PromptResponse => "prompt_response",
    }
}

fn kind(answer: Answer) -> &'static str {
    match answer {
        Answer::Missing => "missing: the conversation ends with the question",
        Answer::Null => "null",
        Answer::Empty => "the empty text",
        Answer::Blank => "white space",
        Answer::Invisible => "characters that nobody can see",
        Answer::ThoughtShell => "the markers of a thought, and nothing in them",
        Answer::ThoughtOnly => "a thought with nothing after it",
        Answer::ThoughtCut => "a thought that was cut off",
        Answer::Present { .. } => "present",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit(rows: &[&str]) -> Audit {
        let mut audit = Audit::default();
        for (index, row) in rows.iter().enumerate() {
            let bytes = bytes::Bytes::copy_from_slice(row.as_bytes());
            audit.row("a.jsonl", &Framed { position: index as u64 + 1, bytes, problem: None });
        }
        audit
    }

    #[test]
    fn empty_answers_are_counted_by_what_stands_in_their_place() {
        let audit = audit(&[
            r#"{"prompt":"a","response":""}"#,
            r#"{"prompt":"b","response":"\u200b \n"}"#,
            r#"{"prompt":"c","response":null}"#,
            r#"{"prompt":"d","response":"<think>hm</think>\n"}"#,
            r#"{"prompt":"d","response":"<think>hm"}"#,
            r#"{"prompt":"e"}"#,
            r#"{"prompt":"f","response":"<think>hm</think>Yes."}"#,
            r#"{"something":"else"}"#,
        ]);
        assert_eq!((audit.rows, audit.answered, audit.with_thought, audit.duplicate_prompts), (8, 1, 1, 1));
        assert_eq!(audit.empty.values().sum::<u64>(), 6);
        assert_eq!(audit.empty.len(), 6);
        assert!(audit.problems[&Reason::UnknownShape].first[0].starts_with("a.jsonl:8:"));
        let report = audit.report();
        assert!(report.starts_with("8 rows, 75 % of the answers are empty"), "{report}");
    }

    #[test]
    fn a_share_is_never_rounded_to_all_or_to_nothing() {
        assert_eq!(percent(870, 1_000), "87");
        assert_eq!(percent(999_999, 1_000_000), "more than 99.5");
        assert_eq!(percent(1, 1_000_000), "less than 0.5");
        assert_eq!(percent(0, 0), "0");
    }
}
