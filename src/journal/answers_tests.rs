//! The whole journal: written by one session, read by the next.

use super::*;
use crate::{journal::entry::tests::entry, record::End};
use std::{fs, path::PathBuf, time::Duration};
use tempfile::TempDir;
use tokio::{task::JoinSet, time::sleep};

async fn open(folder: &TempDir) -> Result<(Answers, Log), Error> {
    let place = Place::parse(folder.path().to_str().expect("utf-8")).expect("a place");
    Answers::open(&RunDir::open(place).await.expect("opens")).await
}

/// A session that keeps the entries of these positions and ends.
async fn session(folder: &TempDir, positions: &[u64], answer: &str) {
    let (answers, log) = open(folder).await.expect("opens");
    let give = async move {
        for position in positions {
            answers.keep(entry(*position, answer)).await.expect("the log runs");
        }
    };
    let ((), written) = tokio::join!(give, log.run());
    written.expect("writes");
}

/// The record an entry is of.
fn record(position: u64) -> Record {
    let entry = entry(position, "");
    Record { id: entry.id, ..Record::unbound(entry.row) }
}

async fn answer(answers: &Answers, position: u64) -> Option<String> {
    let found = answers.find(&record(position), u64::MAX).await.expect("reads");
    found.map(|entry| entry.attempts[1].completion.as_ref().expect("a completion").content.clone())
}

fn file(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join("journal").join(name)
}

#[tokio::test]
async fn an_answer_is_found_by_the_next_session_and_the_last_one_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    session(&folder, &[1, 2], "first").await;
    session(&folder, &[2, 3], "second").await;
    let (answers, _log) = open(&folder).await.expect("opens");
    assert_eq!(answers.recovered(), 3);
    assert_eq!(answer(&answers, 1).await.as_deref(), Some("first"));
    assert_eq!(answer(&answers, 2).await.as_deref(), Some("second"));
    assert_eq!(answer(&answers, 3).await.as_deref(), Some("second"));
    assert_eq!(answer(&answers, 4).await, None);
    assert!(file(&folder, "000001.idx").exists() && !file(&folder, "000002.seg").exists());
}

#[tokio::test]
async fn an_answer_to_another_request_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    session(&folder, &[1], "x").await;
    let (answers, _log) = open(&folder).await.expect("opens");
    assert_eq!(answers.find(&record(1), 5).await.expect("reads"), None);
}

#[tokio::test]
async fn committed_records_are_not_held_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    session(&folder, &[1, 2, 3], "x").await;
    let place = Place::parse(folder.path().to_str().expect("utf-8")).expect("a place");
    let run = RunDir::open(place).await.expect("opens");
    let ids = [record(1).id, record(3).id];
    run.commit("part", ids.iter().map(|id| (id, End::Accepted))).await.expect("commits");
    drop(run);
    let (answers, _log) = open(&folder).await.expect("opens");
    assert_eq!(answers.recovered(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_durable_within_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let (answers, log) = open(&folder).await.expect("opens");
    let mut tasks = JoinSet::new();
    tasks.spawn(log.run());
    answers.keep(entry(1, "kept")).await.expect("the log runs");
    sleep(Duration::from_secs(1)).await;
    // Killed: nothing is finished, no index is written.
    tasks.shutdown().await;
    assert!(!file(&folder, "000000.idx").exists());
    let (answers, _log) = open(&folder).await.expect("opens");
    assert_eq!(answer(&answers, 1).await.as_deref(), Some("kept"));
}

#[tokio::test(start_paused = true)]
async fn in_an_object_store_answers_go_out_in_small_whole_segments() {
    let place = Place::parse("memory:///run").expect("a place");
    let again = async || Answers::open(&RunDir::open(place.clone()).await.expect("opens")).await.expect("opens");
    let (answers, log) = again().await;
    let mut tasks = JoinSet::new();
    tasks.spawn(log.run());
    for position in 1..=15 {
        answers.keep(entry(position, "kept")).await.expect("the log runs");
        sleep(Duration::from_secs(1)).await;
    }
    tasks.shutdown().await;
    let (answers, _log) = again().await;
    assert!((10..15).contains(&answers.recovered()), "{}", answers.recovered());
    assert_eq!(answer(&answers, 10).await.as_deref(), Some("kept"));
}

#[tokio::test]
async fn a_torn_tail_is_forgotten_for_good_and_what_is_whole_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    session(&folder, &[1], "whole").await;
    fs::remove_file(file(&folder, "000000.idx")).expect("there");
    let torn = [fs::read(file(&folder, "000000.seg")).expect("there"), b"fbj1\x01\0\0".to_vec()].concat();
    fs::write(file(&folder, "000000.seg"), torn).expect("writes");
    // Also when the segment is not the last one any more.
    session(&folder, &[2], "later").await;
    let (answers, _log) = open(&folder).await.expect("opens");
    assert_eq!(answer(&answers, 1).await.as_deref(), Some("whole"));
    assert_eq!(answer(&answers, 2).await.as_deref(), Some("later"));
}

#[tokio::test]
async fn damage_is_shown_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    session(&folder, &[1], "x").await;
    session(&folder, &[2], "x").await;
    let mut bytes = fs::read(file(&folder, "000000.seg")).expect("there");
    *bytes.last_mut().expect("some") ^= 1;
    fs::write(file(&folder, "000000.seg"), bytes).expect("writes");
    // With its index, the damage is met when the answer is read; without, at the start.
    let (answers, _log) = open(&folder).await.expect("opens");
    let late = answers.find(&record(1), u64::MAX).await.expect_err("damaged");
    fs::remove_file(file(&folder, "000000.idx")).expect("there");
    let early = open(&folder).await.err().expect("damaged");
    for error in [late, early] {
        assert_eq!(error.kind(), ErrorKind::FixStore);
        assert!(error.to_string().contains("000000.seg is damaged at byte 0"), "{error}");
    }
}

#[tokio::test]
async fn a_number_is_never_used_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    session(&folder, &[1], "x").await;
    fs::remove_file(file(&folder, "000000.seg")).expect("there");
    session(&folder, &[2], "x").await;
    assert!(file(&folder, "000001.seg").exists());
    let (answers, _log) = open(&folder).await.expect("opens");
    assert_eq!(answers.recovered(), 1);
}

#[tokio::test]
async fn a_log_that_cannot_write_ends_and_takes_nothing_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let (answers, log) = open(&folder).await.expect("opens");
    fs::write(folder.path().join("journal"), "a file in the way").expect("writes");
    let give = async {
        while answers.keep(entry(1, "x")).await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let ((), ended) = tokio::join!(give, log.run());
    assert_eq!(ended.expect_err("it cannot write").kind(), ErrorKind::FixStore);
}
