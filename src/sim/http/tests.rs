//! Real sockets on the real clock: nothing here depends on how long anything takes.

use super::*;
use crate::sim::{
    faults::{Fault, FaultKind},
    settings::Dialect,
};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

async fn start(settings: SimSettings) -> HttpServers {
    HttpServers::start(settings, ANYWHERE).await.expect("there are ports")
}

/// Sends one request and reads all that comes, to the end of the connection or its loss: head and body.
async fn exchange(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<(String, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).await?;
    let mut bytes = Vec::new();
    // A lost connection ends the reading as well; what came before it counts.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).expect("replies are text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    Ok((head.to_owned(), body.to_owned()))
}

async fn post(address: SocketAddr, body: Value) -> (String, String) {
    exchange(address, "POST", "/v1/chat/completions", &body.to_string()).await.expect("the server is there")
}

fn ask() -> Value {
    json!({"messages": [{"role": "user", "content": "Tell me a long story."}], "stop": null})
}

fn keys(json: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let mut keys: Vec<_> = value.as_object().expect("an object").keys().cloned().collect();
    let choice = &value["choices"][0];
    for part in [choice, &choice["message"], &value["usage"], &value["usage"]["completion_tokens_details"]] {
        keys.extend(part.as_object().expect("an object").keys().cloned());
    }
    keys
}

#[tokio::test]
async fn a_round_trip_has_the_keys_of_a_recording() {
    for (dialect, recording) in [
        (Dialect::Sglang, include_str!("../recorded/sglang-chat.json")),
        (Dialect::Vllm, include_str!("../recorded/vllm-chat.json")),
    ] {
        let servers = start(SimSettings { dialect, instant: true, ..SimSettings::default() }).await;
        let (head, body) = post(servers.addresses[0], ask()).await;
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("content-type: application/json"), "{head}");
        assert_eq!(keys(&body), keys(recording));
        servers.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn a_stream_ends_as_a_chunked_body_should_and_a_reset_one_does_not() {
    for (faults, whole) in [(vec![], true), (vec![Fault::always(FaultKind::Reset)], false)] {
        let servers = start(SimSettings { time_scale: 100.0, faults, ..SimSettings::default() }).await;
        let mut body = ask();
        body["stream"] = true.into();
        let (head, body) = post(servers.addresses[0], body).await;
        assert!(head.contains("text/event-stream") && body.contains("data: {"), "{head}\n{body}");
        assert_eq!(body.ends_with("0\r\n\r\n"), whole, "{body}");
        assert_eq!(body.contains("[DONE]"), whole);
        assert_eq!(servers.servers().all()[0].completed(), u64::from(whole));
    }
}

#[tokio::test]
async fn a_killed_server_loses_its_connections_and_refuses_until_it_is_back() {
    let servers = start(SimSettings { servers: 2, time_scale: 0.001, ..SimSettings::default() }).await;
    let (one, other) = (servers.addresses[0], servers.addresses[1]);
    let mut streamed = ask();
    streamed["stream"] = true.into();
    let (streaming, waiting) = (tokio::spawn(post(one, streamed)), tokio::spawn(post(one, ask())));
    let live = &servers.servers().all()[0];
    while live.started() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    servers.kill(0).await;
    let (_, body) = streaming.await.expect("the task ends");
    assert!(!body.ends_with("0\r\n\r\n"), "{body}");
    assert_eq!(waiting.await.expect("the task ends"), (String::new(), String::new()));
    assert!(TcpStream::connect(one).await.is_err());
    assert!(exchange(other, "GET", "/health", "").await.is_ok());
    servers.revive(0).await;
    let (head, _) = exchange(one, "GET", "/health", "").await.expect("it listens again");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_slot() {
    let servers = start(SimSettings { time_scale: 0.001, ..SimSettings::default() }).await;
    let live = &servers.servers().all()[0];
    for stream in [false, true] {
        let mut body = ask();
        body["stream"] = stream.into();
        let asking = tokio::spawn(post(servers.addresses[0], body));
        while live.gauges().running == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        asking.abort();
        while live.gauges().running > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(live.gauges().cancelled, 1 + u64::from(stream));
    }
}

#[tokio::test]
async fn routes_and_bad_requests_are_answered() {
    let servers = start(SimSettings { dialect: Dialect::Vllm, ..SimSettings::default() }).await;
    let address = servers.addresses[0];
    let status = async |method: &str, path: &str, body: &str| {
        let (head, body) = exchange(address, method, path, body).await.expect("it answers");
        (head.split(' ').nth(1).unwrap_or_default().to_owned(), body)
    };
    assert_eq!(status("GET", "/health", "").await, ("200".into(), String::new()));
    assert_eq!(status("GET", "/version", "").await.1, r#"{"version":"0.32.0"}"#);
    assert_eq!(status("GET", "/nothing", "").await, ("404".into(), r#"{"detail":"Not Found"}"#.into()));
    assert_eq!(status("GET", "/v1/chat/completions", "").await.0, "405");
    assert_eq!(status("POST", "/v1/chat/completions", "{").await.0, "400");
    let unknown = r#"{"model":"no-such-model","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(status("POST", "/v1/chat/completions", unknown).await.0, "404");
    assert!(status("GET", "/metrics", "").await.1.contains("vllm:num_requests_running{"));
}
