//! Whole servers on a paused clock: how long things take, and what arrives.

use super::*;
use crate::sim::{
    faults::{Fault, FaultKind},
    persona::short_hash,
    settings::Dialect,
};
use bytes::Bytes;
use futures::future::join_all;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// What came back: status, body as far as it came, and whether it was lost then.
#[derive(Debug, Clone, PartialEq)]
struct Got {
    status: u16,
    text: String,
    lost: bool,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

fn ask(prompt: &str) -> Value {
    json!({"messages": [{"role": "user", "content": prompt}]})
}

async fn call(sim: &InProcess, server: usize, path: &str, body: Option<Value>) -> Result<Got, TransportError> {
    let body = body.map(|body| Bytes::from(body.to_string()));
    let call = Call { server: url(server).into(), path: path.into(), body };
    let mut reply = sim.send(call).await?;
    let mut got = Got { status: reply.status, text: String::new(), lost: false };
    while let Some(piece) = reply.body.next().await {
        match piece {
            Ok(bytes) => got.text.push_str(std::str::from_utf8(&bytes).expect("text")),
            Err(_) => got.lost = true,
        }
    }
    Ok(got)
}

async fn chat(sim: &InProcess, body: Value) -> Got {
    call(sim, 0, "/v1/chat/completions", Some(body)).await.expect("the server is there")
}

/// One server whose answers have 1000 tokens and an end of sequence, and take no prefill worth the name.
fn even() -> SimSettings {
    SimSettings {
        mean_tokens: 1000.0,
        sigma: 0.0,
        thinking_share: 0.0,
        prefill_tokens_per_second: 1e9,
        tokens_per_second: 4000.0,
        half_batch: 24.0,
        max_running: 8,
        ..SimSettings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_as_long_as_the_formula_says() {
    let sim = InProcess::start(even());
    let start = Instant::now();
    let replies = join_all((0..32).map(|n| chat(&sim, ask(&format!("question {n}"))))).await;
    // Four batches of 8, each 8 · 1001 tokens at 4000 · 8 / (8 + 24) = 1000 tokens/s.
    let expected = 4.0 * 8.008;
    let took = start.elapsed().as_secs_f64();
    assert!((took - expected).abs() < 0.02, "{took} s, not {expected} s");
    assert!(replies.iter().all(|got| got.json()["usage"]["completion_tokens"] == 1001));
    assert_eq!(sim.servers().all()[0].completed(), 32);
}

#[tokio::test(start_paused = true)]
async fn a_faster_clock_and_a_faster_server_take_less_time() {
    let took = async |settings: SimSettings, server: usize| {
        let sim = InProcess::start(settings);
        let start = Instant::now();
        call(&sim, server, "/v1/chat/completions", Some(ask("hello"))).await.expect("an answer");
        start.elapsed().as_secs_f64()
    };
    // One request alone makes 4000 / 25 = 160 tokens/s.
    let alone = took(even(), 0).await;
    assert!((alone - 1001.0 / 160.0).abs() < 0.01, "{alone}");
    let scaled = took(SimSettings { time_scale: 100.0, ..even() }, 0).await;
    assert!((scaled - alone / 100.0).abs() < 0.01, "{scaled}");
    let slow = took(SimSettings { servers: 2, speeds: vec![1.0, 0.5], ..even() }, 1).await;
    assert!((slow - alone * 2.0).abs() < 0.01, "{slow}");
    assert_eq!(took(SimSettings { instant: true, ..even() }, 0).await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_says_the_same_and_another_does_not() {
    let settings = SimSettings { faults: vec![Fault::always(FaultKind::Empty).share(0.3)], ..SimSettings::default() };
    let said = async |seed: u64| {
        let sim = InProcess::start(SimSettings { seed, ..settings.clone() });
        join_all((0..40).map(|n| chat(&sim, ask(&format!("question {n}"))))).await
    };
    let (one, again, other) = (said(1).await, said(1).await, said(2).await);
    assert_eq!(one, again);
    assert_ne!(one, other);
    let empty = one.iter().filter(|got| got.json()["choices"][0]["message"]["content"] == "").count();
    assert!((4..20).contains(&empty), "{empty}");
}

#[tokio::test(start_paused = true)]
async fn greedy_answers_depend_on_the_messages_alone() {
    let sim = InProcess::start(SimSettings::default());
    let content = async |temperature: f64, seed: u64| {
        let mut body = ask("tell me");
        body["temperature"] = temperature.into();
        body["seed"] = seed.into();
        chat(&sim, body).await.json()["choices"][0]["message"]["content"].clone()
    };
    assert_eq!(content(0.0, 1).await, content(0.0, 2).await);
    assert_ne!(content(0.6, 1).await, content(0.6, 2).await);
    assert_eq!(content(0.6, 1).await, content(0.6, 1).await);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_answer_is_the_same_as_a_whole_one_and_comes_bit_by_bit() {
    for dialect in [Dialect::Sglang, Dialect::Vllm] {
        let sim = InProcess::start(SimSettings { dialect, mean_tokens: 800.0, ..SimSettings::default() });
        let mut body = ask("tell me");
        body["temperature"] = 0.into();
        let whole = chat(&sim, body.clone()).await.json();
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
        let events = chat(&sim, body).await.text;
        assert!(events.ends_with("data: [DONE]\n\n"), "{events}");
        let field = if dialect == Dialect::Sglang { "reasoning_content" } else { "reasoning" };
        let (mut content, mut thought, mut finish, mut usage, mut count) =
            (String::new(), String::new(), Value::Null, Value::Null, 0);
        for line in events.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|line| *line != "[DONE]") {
            let event: Value = serde_json::from_str(line).expect("an event is JSON");
            content += event["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
            thought += event["choices"][0]["delta"][field].as_str().unwrap_or_default();
            count += 1;
            if event["choices"][0]["finish_reason"].is_string() {
                finish = event["choices"][0]["finish_reason"].clone();
            }
            if event["usage"].is_object() {
                usage = event["usage"].clone();
            }
        }
        let choice = &whole["choices"][0];
        assert_eq!(
            (Value::from(content), Value::from(thought)),
            (choice["message"]["content"].clone(), choice["message"][field].clone())
        );
        assert_eq!(finish, choice["finish_reason"]);
        assert_eq!(usage["completion_tokens"], whole["usage"]["completion_tokens"]);
        assert!(count > 10, "{count} events");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_whose_it_is_and_attempts_are_counted() {
    let sim = InProcess::start(SimSettings { instant: true, thinking_share: 0.0, ..SimSettings::default() });
    for _ in 0..2 {
        chat(&sim, ask("once more")).await;
    }
    let got = chat(&sim, ask("why is it so")).await.json();
    let attempts = sim.servers().ledger().attempts();
    let mut counts: Vec<_> = attempts.values().copied().collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2]);
    let (prompt, _) = attempts.iter().find(|(_, count)| **count == 1).expect("one prompt came once");
    let content = got["choices"][0]["message"]["content"].as_str().expect("an answer").to_owned();
    assert!(content.starts_with(&format!("[simulated] {} why is it so", short_hash(*prompt))), "{content}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_frees_its_slot() {
    let sim = InProcess::start(SimSettings { max_running: 1, ..even() });
    for stream in [false, true] {
        let mut body = ask("gone soon");
        body["stream"] = stream.into();
        assert!(timeout(Duration::from_millis(1003), chat(&sim, body)).await.is_err(), "it takes 6 s");
        let gauges = sim.servers().all()[0].gauges();
        assert_eq!((gauges.running, gauges.cancelled), (0, 1 + u64::from(stream)));
        // A little more than one second alone, at 160 tokens/s.
        assert_eq!(gauges.generation_tokens, 160 * (1 + u64::from(stream)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_as_the_dialect_does() {
    let sim = InProcess::start(SimSettings { max_running: 1, max_queued: Some(1), ..even() });
    let mut streamed = ask("c");
    streamed["stream"] = true.into();
    let (_, _, whole, stream) =
        tokio::join!(chat(&sim, ask("a")), chat(&sim, ask("b")), chat(&sim, ask("c")), chat(&sim, streamed));
    assert_eq!(whole.status, 503);
    assert_eq!(stream.status, 200);
    assert!(stream.text.contains("queue is full") && stream.text.ends_with("[DONE]\n\n"));
}

#[tokio::test(start_paused = true)]
async fn each_fault_looks_as_it_should() {
    let got = async |kind: FaultKind, stream: bool| {
        let faults = vec![Fault::always(kind)];
        let sim = InProcess::start(SimSettings { faults, mean_tokens: 200.0, ..SimSettings::default() });
        let mut body = ask("what");
        body["stream"] = stream.into();
        body["max_tokens"] = 1000.into();
        chat(&sim, body).await
    };
    let message = |got: &Got| got.json()["choices"][0]["message"].clone();
    let finish = |got: &Got| got.json()["choices"][0]["finish_reason"].clone();

    let empty = got(FaultKind::Empty, false).await;
    assert_eq!((&message(&empty)["content"], finish(&empty)), (&json!(""), json!("stop")));
    let thought = got(FaultKind::OnlyThinking, false).await;
    assert_eq!((&message(&thought)["content"], finish(&thought)), (&json!(""), json!("stop")));
    assert!(message(&thought)["reasoning_content"].as_str().is_some_and(|thought| thought.len() > 100));
    let garbage = got(FaultKind::Garbage, false).await;
    assert_eq!((finish(&garbage), &garbage.json()["usage"]["completion_tokens"]), (json!("length"), &json!(1000)));
    assert_eq!(finish(&got(FaultKind::Truncated, false).await), "length");
    let aborted = got(FaultKind::Aborted, false).await;
    assert_eq!((aborted.status, finish(&aborted)), (200, json!("abort")));
    let inside = got(FaultKind::ErrorInside200, false).await;
    assert_eq!((inside.status, &inside.json()["code"]), (200, &json!(500)));
    assert_eq!(got(FaultKind::HttpError, false).await.status, 500);
    let page = got(FaultKind::HtmlError, false).await;
    assert!(page.status == 502 && page.text.starts_with("<html>"));
    assert_eq!(got(FaultKind::WrongModel, false).await.json()["model"], "another-model");
    assert_eq!(got(FaultKind::SseError, false).await.status, 500);
    let cut = got(FaultKind::Cut, false).await;
    assert!(!cut.lost && serde_json::from_str::<Value>(&cut.text).is_err(), "half a document");
    assert!(got(FaultKind::Reset, false).await.lost);

    let error = got(FaultKind::SseError, true).await;
    assert!(error.text.contains("\"error\"") && error.text.ends_with("data: [DONE]\n\n") && !error.lost);
    let cut = got(FaultKind::Cut, true).await;
    assert!(cut.text.contains("reasoning_content") && !cut.text.contains("[DONE]") && !cut.lost);
    assert!(!cut.text.contains("\"finish_reason\":\""));
    let reset = got(FaultKind::Reset, true).await;
    assert!(reset.lost && !reset.text.contains("[DONE]"));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_server_looks_healthy_and_sends_nothing() {
    let sim = InProcess::start(SimSettings { faults: vec![Fault::always(FaultKind::Stall)], ..SimSettings::default() });
    let hour = Duration::from_secs(3600);
    assert!(timeout(hour, chat(&sim, ask("hello"))).await.is_err());
    assert_eq!(call(&sim, 0, "/health", None).await.expect("it answers").status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_takes_its_factor_longer() {
    let took = async |faults: Vec<Fault>| {
        let sim = InProcess::start(SimSettings { faults, ..even() });
        let start = Instant::now();
        chat(&sim, ask("hello")).await;
        start.elapsed().as_secs_f64()
    };
    let slow = Fault { factor: 3.0, ..Fault::always(FaultKind::Slow) };
    assert!((took(vec![slow]).await / took(vec![]).await - 3.0).abs() < 0.01);
}

#[tokio::test(start_paused = true)]
async fn a_server_loads_then_answers_goes_down_and_comes_back() {
    let second = Duration::from_secs;
    let faults = vec![
        Fault::always(FaultKind::Loading).between(second(0), second(10)),
        Fault::always(FaultKind::Down).between(second(20), second(30)),
    ];
    let sim = InProcess::start(SimSettings { faults, ..even() });
    let health = async || call(&sim, 0, "/health", None).await.map(|got| got.status);
    assert_eq!(health().await, Ok(503));
    sleep(second(19)).await;
    assert_eq!(health().await, Ok(200));
    // It dies with this request in flight.
    let flying = call(&sim, 0, "/v1/chat/completions", Some(ask("hello"))).await;
    assert!(matches!(flying, Err(TransportError::Lost(_))), "{flying:?}");
    assert!(matches!(health().await, Err(TransportError::Connect(_))));
    sleep(second(11)).await;
    assert_eq!(health().await, Ok(200));
    assert_eq!(chat(&sim, ask("hello")).await.status, 200);
    let live = &sim.servers().all()[0];
    assert_eq!((live.started(), live.completed(), live.gauges().finished), (2, 1, 1));
}
