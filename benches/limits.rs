//! What the pure parts cost, each beside the limit it cannot go below, in one run: `cargo bench --bench limits`.
//!
//! CPU seconds of this process, best of several turns, and the ratio to the limit. Only the ratios are worth comparing
//! between machines.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and its input is its own")]

use forebay::{
    fleet::wire::{Collector, Ending},
    format::{Limits, Rows, shape},
    record::{Layout, Record, thought},
    stage::validate_by_default,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{json, value::RawValue};
use std::{hint::black_box, io::Cursor};

fn main() {
    reading();
    answering();
    folding();
    judging();
}

/// CPU seconds that `work` takes, the best of five turns.
fn cost(mut work: impl FnMut()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let turn = |_| {
        let before = now();
        work();
        now() - before
    };
    (0..5).map(turn).fold(f64::INFINITY, f64::min)
}

fn line(name: &str, ours: f64, limit_name: &str, limit: f64, bytes: usize) {
    let speed = |seconds: f64| bytes as f64 / seconds / 1e6;
    println!(
        "{name:<34} {:>8.0} MB/s   {limit_name:<34} {:>8.0} MB/s   {:>5.2} x",
        speed(ours),
        speed(limit),
        ours / limit
    );
}

/// Words that do not repeat themselves, `count` of them.
fn prose(seed: u64, count: usize) -> String {
    let mut state = seed;
    let mut next = || {
        // Knuth's MMIX constants.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..count).map(|_| format!("{:x} ", next() % 0xff_ffff)).collect()
}

fn rows() -> Vec<String> {
    (0..4_000)
        .map(|number| {
            let turns = json!([{ "role": "user", "content": prose(number, 200) }, { "role": "assistant", "content": prose(!number, 1_500) }]);
            json!({ "id": number, "messages": turns, "meta": { "source": "bench", "n": [1, 2, 3] } }).to_string()
        })
        .collect()
}

fn reading() {
    let text = rows().join("\n").into_bytes();
    let limit = cost(|| {
        for row in text.split(|byte| *byte == b'\n') {
            let row = std::str::from_utf8(row).expect("text");
            black_box(serde_json::from_str::<&RawValue>(row).expect("JSON"));
        }
    });
    let ours = cost(|| {
        let rows = Rows::open(Box::new(Cursor::new(text.clone())), Limits::default()).expect("opens");
        black_box(rows.filter(|row| row.problem.is_none()).count());
    });
    line("read: frame and check rows", ours, "split, UTF-8 and serde_json raw", limit, text.len());
}

fn answering() {
    let (rows, layout) = (rows(), Layout::default());
    let bytes: usize = rows.iter().map(String::len).sum();
    let limit = cost(|| {
        for row in &rows {
            black_box(serde_json::from_str::<&RawValue>(row).expect("JSON"));
        }
    });
    let ours = cost(|| {
        for row in &rows {
            black_box(shape::answer(row.as_bytes(), &layout).expect("a shape"));
        }
    });
    line("filter: has the row an answer", ours, "serde_json raw", limit, bytes);
    let provenance = json!({ "server": "http://a", "seed": 1 });
    let ours = cost(|| {
        for row in &rows {
            black_box(
                shape::with_answer(row.as_bytes(), &layout, "An answer.", Some("A thought."), None, &provenance)
                    .expect("a row"),
            );
        }
    });
    line("sink: put an answer into the row", ours, "serde_json raw", limit, bytes);
}

fn folding() {
    let event = |text: &str| {
        format!(
            "data: {}\n\n",
            json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": null }] })
        )
    };
    let prose = prose(7, 2_306);
    let mut stream: String = prose.split_inclusive(' ').map(event).collect();
    stream.push_str("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    let limit = cost(|| {
        for line in stream.lines().filter_map(|line| line.strip_prefix("data: {")) {
            black_box(serde_json::from_str::<&RawValue>(&format!("{{{line}")).expect("JSON"));
        }
    });
    let ours = cost(|| {
        let mut collector = Collector::new(true, "text/event-stream");
        stream.as_bytes().chunks(1_400).for_each(|piece| collector.push(piece));
        black_box(collector.finish(Ending::Whole));
    });
    line("dispatch: fold a streamed answer", ours, "serde_json raw, event by event", limit, stream.len());
}

fn judging() {
    let texts: Vec<String> = (0..200).map(|seed| prose(seed, 2_306)).collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    let limit = cost(|| {
        texts.iter().for_each(|text| {
            black_box(zstd::bulk::compress(text.as_bytes(), 3).expect("packs"));
        })
    });
    let judge = validate_by_default();
    let records = |text: &String| {
        let mut record = Record::unbound("{}");
        record.attempts.push(forebay::record::Attempt {
            number: 0,
            server: "http://a".into(),
            seed: 0,
            started_ms: 0,
            seconds: 0.0,
            first_token_seconds: None,
            completion: Some(forebay::record::Completion { content: text.clone(), ..Default::default() }),
            fault: None,
            detail: String::new(),
            raw: bytes::Bytes::new(),
        });
        record
    };
    let ours = cost(|| {
        texts.iter().map(records).for_each(|record| {
            black_box(judge.apply(record));
        })
    });
    line("validate: judge an answer", ours, "zstd, level 3", limit, bytes);
    let ours = cost(|| {
        texts.iter().for_each(|text| {
            black_box(thought::split(text, true));
        })
    });
    line("classify: look for a thought", ours, "zstd, level 3", limit, bytes);
}
