//! What goes wrong in dataset files, one test per known case: no row is lost without a word.

#![cfg(test)]

use forebay::format::{
    Framed, Limits, Rows, RowsError,
    shape::{answer, chat, one_line, with_answer},
};
use forebay::record::{Layout, Reason, RecordId, Role};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{Cursor, Read, repeat};

fn file(name: &str) -> Box<dyn Read + Send> {
    let path = format!("{}/tests/fixtures/dataset/{name}", env!("CARGO_MANIFEST_DIR"));
    Box::new(File::open(path).expect("the fixture"))
}

/// All rows of a fixture that is read to its end.
fn rows(name: &str) -> Vec<Framed> {
    let mut rows = Rows::open(file(name), Limits::default()).expect("rows");
    let all = rows.by_ref().collect();
    rows.finish().expect("the end of the file");
    all
}

/// The positions of the good rows, and position and reason of the others.
fn told(rows: &[Framed]) -> (Vec<u64>, Vec<(u64, Reason)>) {
    let good = rows.iter().filter(|row| row.problem.is_none()).map(|row| row.position).collect();
    let bad = rows.iter().filter_map(|row| Some((row.position, row.problem.as_ref()?.reason))).collect();
    (good, bad)
}

fn parsed(row: &Framed) -> Value {
    serde_json::from_slice(&row.bytes).expect("json")
}

fn ids(rows: &[Framed]) -> Vec<Value> {
    rows.iter().filter(|row| row.problem.is_none()).map(|row| parsed(row)["id"].clone()).collect()
}

/// The row answered with "yes".
fn answered(row: &[u8]) -> Vec<u8> {
    with_answer(row, &Layout::default(), "yes", None, None, &json!({})).expect("a known shape")
}

#[test]
fn a_d01_lines_end_at_line_feeds_only() {
    let rows = rows("A-D01-line-framing.jsonl");
    assert_eq!(told(&rows), (vec![1, 4, 5], vec![]));
    assert_eq!(ids(&rows), ["f1", "f2", "f3"]);
    let text = parsed(&rows[1])["messages"][0]["content"].to_string();
    assert!(text.contains('\u{2028}') && text.contains('\u{85}') && text.contains('\u{2029}'));
}

#[test]
fn a_d02_a_line_of_bad_utf8_is_named_and_the_rest_is_read() {
    let rows = rows("A-D02-bad-utf8.jsonl");
    let bad = [2, 4, 5].map(|line| (line, Reason::InvalidUtf8)).to_vec();
    assert_eq!(told(&rows), (vec![1, 3, 6], bad));
    let offset = std::str::from_utf8(&rows[1].bytes).expect_err("bad").valid_up_to() + 1;
    let detail = rows[1].problem.as_ref().map(|problem| problem.detail.as_str()).expect("a problem");
    assert!(detail.contains(&offset.to_string()), "{detail}");
}

#[test]
fn a_d03_a_hole_of_zero_bytes_does_not_end_the_file() {
    let rows = rows("A-D03-nul-hole.jsonl");
    assert_eq!(told(&rows), (vec![1, 4, 5], vec![(2, Reason::NulBlock), (3, Reason::NulBlock)]));
    assert!(rows[3].bytes.windows(6).any(|bytes| bytes == b"\\u0000"));
}

#[test]
fn a_d04_half_a_surrogate_pair_is_named_in_texts_and_keys() {
    let rows = rows("A-D04-lone-surrogates.jsonl");
    assert_eq!(told(&rows), (vec![1, 4], vec![(2, Reason::LoneSurrogate), (3, Reason::LoneSurrogate)]));
    assert_eq!(parsed(&rows[0])["messages"][0]["content"], "valid pair 😀");
}

#[test]
fn a_d05_numbers_keep_their_digits() {
    let rows = rows("A-D05-big-numbers.jsonl");
    assert_eq!(told(&rows), ((1..=6).collect(), vec![]));
    let digits = [
        "9007199254740993",
        "18446744073709551615",
        "123456789012345678901234567890",
        "9007199254740991.0",
        "1e400",
        "1.10",
    ];
    for (row, digits) in rows.iter().zip(digits) {
        let text = String::from_utf8(answered(&row.bytes)).expect("utf-8");
        assert!(text.contains(&format!(":{digits},")), "{text}");
    }
}

#[test]
fn a_d06_an_array_is_read_element_by_element() {
    assert_eq!(ids(&rows("A-D06a-array.jsonl")), ["r1", "r2"]);
}

#[test]
fn a_d06_a_trailing_comma_is_named() {
    let rows = rows("A-D06b-trailing-commas.jsonl");
    assert_eq!(told(&rows), (vec![], vec![(1, Reason::InvalidJson), (2, Reason::InvalidJson)]));
    assert!(rows.iter().all(|row| row.problem.as_ref().is_some_and(|problem| problem.detail.contains("comma"))));
}

#[test]
fn a_d06_one_pretty_printed_object_is_refused_with_advice() {
    let error = Rows::open(file("A-D06c-pretty.jsonl"), Limits::default()).err().expect("an error");
    assert!(matches!(error, RowsError::OneObject));
    assert!(error.to_string().contains("pretty-printed"), "{error}");
}

#[test]
fn a_d07_all_members_of_a_gzip_file_are_read() {
    assert_eq!(ids(&rows("A-D07-two-members.jsonl.gz")), ["g1", "g2", "g3", "g4"]);
}

#[test]
fn a_d07_a_cut_member_is_told_after_its_whole_rows() {
    let mut rows = Rows::open(file("A-D07-cut-member.jsonl.gz"), Limits::default()).expect("rows");
    let all: Vec<_> = rows.by_ref().collect();
    assert!(ids(&all).starts_with(&[json!("g1"), json!("g2")]));
    let (good, bad) = told(&all);
    assert!(bad.iter().all(|(_, reason)| *reason == Reason::CutInput), "{bad:?}");
    let error = rows.finish().expect_err("the file is cut").to_string();
    let expected = format!("the compressed input breaks off after row {}: ", good.len());
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn a_d08_roles_are_known_by_their_many_names_and_no_turn_is_lost() {
    let mut seen = BTreeMap::new();
    for row in rows("A-D08-roles.jsonl") {
        let id = parsed(&row)["id"].as_str().expect("an id").to_owned();
        seen.insert(id, chat(&row.bytes, &Layout::default()).map_err(|rejection| rejection.reason));
    }
    let turns = |id: &str| -> Result<Vec<(Role, &str)>, Reason> {
        let chat = seen[id].as_ref().map_err(|reason| *reason)?;
        Ok(chat.messages.iter().map(|turn| (turn.role, turn.content.as_str().expect("a text"))).collect())
    };
    for id in ["l1", "l4", "l5", "l11"] {
        assert_eq!(turns(id), Ok(vec![(Role::User, "q")]), "{id}");
    }
    assert_eq!(turns("l2"), Ok(vec![(Role::Assistant, "Hello, ask me."), (Role::User, "q")]));
    assert_eq!(turns("l3"), Ok(vec![(Role::System, "Be short."), (Role::User, "q")]));
    assert_eq!(turns("l6"), Ok(vec![(Role::User, "first half"), (Role::User, "second half")]));
    assert_eq!(turns("l7"), Ok(vec![(Role::User, "q1"), (Role::Assistant, "a1"), (Role::User, "q2")]));
    assert_eq!(turns("l8"), Err(Reason::NoPrompt));
    assert_eq!(turns("l9"), Err(Reason::NoPrompt));
    assert_eq!(turns("l10"), Err(Reason::BadTurns));
}

#[test]
fn a_d09_identity_is_the_position_and_never_the_users_id() {
    let rows = rows("A-D09-ids.jsonl");
    assert_eq!(told(&rows), ((1..=10).collect(), vec![]));
    let identities: HashSet<_> = rows.iter().map(|row| RecordId::new("a", row.position, &row.bytes)).collect();
    assert_eq!(identities.len(), 10);
    for row in &rows {
        let new: Value = serde_json::from_slice(&answered(&row.bytes)).expect("json");
        assert_eq!(new.get("id"), parsed(row).get("id"));
    }
}

#[test]
fn a_d10_fields_of_mixed_types_are_copied_as_they_are() {
    let rows = rows("A-D10-mixed-types.jsonl");
    assert_eq!(told(&rows), ((1..=7).collect(), vec![]));
    for row in &rows {
        let new: Value = serde_json::from_slice(&answered(&row.bytes)).expect("json");
        for key in ["meta", "tags"] {
            assert_eq!(new.get(key), parsed(row).get(key));
        }
    }
}

#[test]
fn a_d11_nothing_has_many_spellings_and_is_never_sent() {
    for row in rows("A-D11-empty-replies.jsonl") {
        let id = parsed(&row)["id"].as_str().expect("an id").to_owned();
        let stands = answer(&row.bytes, &Layout::default()).expect("a known shape");
        assert_eq!(stands.is_needed(), id.starts_with('e'), "{id}: {stands:?}");
        let chat = chat(&row.bytes, &Layout::default()).expect("a chat");
        assert_eq!(json!(chat.messages), json!([{"role": "user", "content": "What is 5 plus 7?"}]));
        let new: Value = serde_json::from_slice(&answered(&row.bytes)).expect("json");
        assert_eq!(new["messages"].as_array().map(Vec::len), Some(2), "filled in at the same place");
        assert_eq!(new["messages"][1]["content"], "yes");
    }
}

#[test]
fn a_d12_a_huge_line_is_passed_over_and_the_next_row_is_found() {
    let huge = 20 << 20;
    for tail in ["\"}\n{\"id\":3}\n", ""] {
        let start = Cursor::new("{\"id\":1}\n{\"t\":\"").chain(repeat(b'x').take(huge));
        let input = start.chain(Cursor::new(tail));
        let all: Vec<_> = Rows::open(Box::new(input), Limits { max_line_bytes: 1 << 20 }).expect("rows").collect();
        let good = if tail.is_empty() { vec![1] } else { vec![1, 3] };
        assert_eq!(told(&all), (good, vec![(2, Reason::LineTooLong)]));
        assert!(all[1].bytes.len() < 1_000, "only the beginning is kept");
    }
}

#[test]
fn a_d12_deep_nesting_is_named() {
    assert_eq!(told(&rows("A-D12-deep-nest.jsonl")), (vec![1, 3], vec![(2, Reason::TooDeep)]));
}

#[test]
fn a_pretty_printed_element_is_written_as_one_line() {
    let input = Cursor::new("[\n{\n  \"prompt\": \"a\\nb\",\n  \"response\": \"\"\n}\n]");
    let all: Vec<_> = Rows::open(Box::new(input), Limits::default()).expect("rows").collect();
    let new = answered(&one_line(&all[0].bytes));
    assert!(!new.contains(&b'\n'));
    assert_eq!(serde_json::from_slice::<Value>(&new).expect("json")["prompt"], "a\nb");
}
