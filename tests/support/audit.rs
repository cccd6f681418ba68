//! Reads what a run left as a stranger would, from its files alone, and checks that nothing was lost or doubled.

use super::Bench;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Rows of the output by their `id`, as text.
    pub output: BTreeMap<u64, String>,
    /// Entries of what was set aside, by the row's `id`.
    pub aside: BTreeMap<u64, Value>,
}

impl Found {
    /// How many rows were set aside for each reason.
    pub fn reasons(&self) -> BTreeMap<String, usize> {
        let mut reasons = BTreeMap::new();
        for entry in self.aside.values() {
            *reasons.entry(entry["reason"].as_str().expect("a reason").to_owned()).or_default() += 1;
        }
        reasons
    }

    /// What stands in the row of the output about where its answer came from, if it has a new one.
    pub fn provenance(&self, id: u64) -> Option<Value> {
        let row: Value = serde_json::from_str(self.output.get(&id)?).expect("a row");
        row.get("forebay").cloned()
    }
}

/// How many attempts an entry of the aside file tells of.
pub fn attempts(entry: &Value) -> usize {
    entry["attempts"].as_array().expect("attempts").len()
}

/// Every input row is in the output once, or aside once, or (in a run that was stopped) nowhere; no line is torn; the
/// sums of `summary.json` agree with the files; rows that needed no answer are byte for byte as they were.
pub fn audit(bench: &Bench) -> Found {
    let input = fs::read_to_string(bench.path("input.jsonl")).expect("the input");
    let input: Vec<&str> = input.lines().collect();
    let summary: Value =
        serde_json::from_slice(&fs::read(bench.path("run/summary.json")).expect("a summary")).expect("JSON");

    let mut found = Found::default();
    for line in lines(Path::new(&bench.path("out"))) {
        let row: Value = serde_json::from_str(&line).expect("a whole line");
        let id = row["id"].as_u64().expect("an id");
        let position = usize::try_from(id).expect("small");
        if row.get("forebay").is_none() {
            assert_eq!(line, input[position], "a row that needed no answer is as it was");
        } else {
            let answer = row["messages"][1]["content"].as_str().expect("an answer");
            assert!(!answer.trim().is_empty(), "row {id} has an empty answer");
            assert!(line.contains("\"big\": 9007199254740993"), "untouched fields keep their digits: {line}");
        }
        assert!(found.output.insert(id, line).is_none(), "row {id} is doubled");
    }
    for line in lines(Path::new(&bench.path("run/aside"))) {
        let entry: Value = serde_json::from_str(&line).expect("a whole line");
        // Positions are counted from 1, ids of the test's rows from 0.
        let id = entry["row"].as_u64().expect("a position") - 1;
        assert!(found.aside.insert(id, entry).is_none(), "row {id} is aside twice");
    }

    let output: BTreeSet<u64> = found.output.keys().copied().collect();
    let aside: BTreeSet<u64> = found.aside.keys().copied().collect();
    assert!(output.is_disjoint(&aside), "rows both in the output and aside: {:?}", output.intersection(&aside));
    let number = |key: &str| summary[key].as_u64().expect("a number");
    let sum = |key: &str| summary[key].as_object().expect("reasons").values().filter_map(Value::as_u64).sum::<u64>();
    let (rejected, failed, remaining) = (sum("rejected"), sum("failed"), number("remaining"));
    assert_eq!(number("accepted") + number("forwarded"), output.len() as u64, "the output has what the summary says");
    assert_eq!(rejected + failed + sum("bad_input"), aside.len() as u64, "aside has what the summary says");
    assert_eq!(
        number("rows_in"),
        number("accepted") + number("forwarded") + rejected + failed + remaining,
        "the sums agree"
    );
    if summary["complete"] == true {
        let all: BTreeSet<u64> = (0..input.len() as u64).collect();
        let done: BTreeSet<u64> = output.union(&aside).copied().collect();
        assert_eq!(done, all, "every row has its end");
    }
    found
}

/// All lines of all parts in a folder; every file must be a part.
pub fn lines(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let shown = |entry: &fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    let mut paths: Vec<_> = entries.flatten().filter(shown).map(|entry| entry.path()).collect();
    paths.sort();
    let mut lines = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("text");
        assert!(text.ends_with('\n'), "{} ends in a torn line", path.display());
        lines.extend(text.lines().map(str::to_owned));
    }
    lines
}
