//! The key to the servers is in no file and in nothing that is printed, whatever the servers send back.

#![cfg(test)]
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod support;

use axum::{Router, extract::Request, http::StatusCode, routing::any};
use std::fs;
use support::{
    Bench,
    program::{Said, files, forebay, pipeline, said},
    rows,
};

const KEY: &str = "sk-forebay-0123456789-secret";

/// A server behind a gateway that quotes every request's headers, as some debug pages do: in errors, in answers, and
/// in the names of its models.
///
/// Probes are answered with `to_probes`, requests for rows with `to_rows`.
async fn quoting(to_probes: StatusCode, to_rows: StatusCode) -> String {
    let quote = move |request: Request| async move {
        let headers = format!("{:?} {}", request.headers(), header(&request));
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
        let is_row = String::from_utf8_lossy(&body).contains("Question");
        let status = if is_row { to_rows } else { to_probes };
        let body = match (status, parts.uri.path()) {
            (StatusCode::OK, "/v1/models") => r#"{"data": [{"id": "demo"}]}"#.to_owned(),
            (StatusCode::OK, _) => serde_json::json!({
                "choices": [{ "message": { "content": headers }, "finish_reason": "stop" }]
            })
            .to_string(),
            _ => serde_json::json!({ "error": { "message": headers } }).to_string(),
        };
        (status, [("content-type", "application/json")], body)
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    #[expect(clippy::disallowed_methods, reason = "it serves until the test ends")]
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(any(quote))).await });
    url
}

fn header(request: &Request) -> &str {
    let key = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    key.expect("every request carries the key")
}

/// Nothing in the run's folder or in the output holds the key, and nothing that was said.
fn nothing_shows_it(bench: &Bench, said: &Said) {
    let shown = |bytes: &[u8]| bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
    assert!(!shown(said.out.as_bytes()) && !shown(said.err.as_bytes()), "{}\n{}", said.out, said.err);
    for path in files(bench.path("run")).into_iter().chain(files(bench.path("out"))) {
        let bytes = fs::read(&path).expect("a file");
        let bytes = if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            zstd::bulk::decompress(&bytes, 64 << 20).expect("a frame")
        } else {
            bytes
        };
        assert!(!shown(&bytes), "{} shows the key", path.display());
    }
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.input(&rows(4, 50));
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_quotes_the_key_in_its_answers_gives_it_to_nobody() {
    let bench = bench();
    let url = quoting(StatusCode::OK, StatusCode::OK).await;
    let (in_env, in_file) = (r#"api_key = { env = "FOREBAY_TEST_KEY" }"#, bench.path("key"));
    fs::write(&in_file, format!("{KEY}\n")).expect("writes");
    for (number, api_key) in [in_env.to_owned(), format!("api_key = {{ file = {in_file:?} }}")].iter().enumerate() {
        let file = pipeline(&bench, std::slice::from_ref(&url), api_key);
        let run = bench.path(&format!("run/{number}"));
        let out = format!("stage.sink.path={}", bench.path(&format!("out/{number}")));
        // An answer is not streamed here.
        let set = ["--set", "stage.dispatch.stream=false", "--set", &out];
        let mut command = forebay([&["run", &file, "--run", &run][..], &set].concat());
        command.env("FOREBAY_TEST_KEY", KEY).env("FOREBAY_LOG", "trace");
        let ended = said(command).await;
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let written = files(bench.path(&format!("out/{number}")));
        let text = fs::read_to_string(written.first().expect("a part")).expect("text");
        assert!(text.contains("Bearer ***"), "it was quoted, and masked: {text}");
        nothing_shows_it(&bench, &ended);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_probe_that_quotes_the_key_reaches_no_log() {
    // Who refuses a key is not repeated at all; what others quote is masked.
    for (status, shown) in
        [(StatusCode::UNAUTHORIZED, "does not accept the key"), (StatusCode::BAD_GATEWAY, "Bearer ***")]
    {
        let bench = bench();
        let url = quoting(status, status).await;
        let file = pipeline(&bench, &[url], "api_key = { env = \"FOREBAY_TEST_KEY\" }");
        let mut command = forebay(["run", &file, "--set", "fleet.patience=1s"]);
        command.env("FOREBAY_TEST_KEY", KEY).env("FOREBAY_LOG", "trace");
        let ended = said(command).await;
        assert_eq!(ended.code, Some(1), "{status}: {}", ended.err);
        assert!(ended.err.contains(shown), "{status}: {}", ended.err);
        nothing_shows_it(&bench, &ended);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_page_that_quotes_the_key_reaches_neither_aside_files_nor_logs() {
    for status in [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::BAD_GATEWAY] {
        let bench = Bench::new();
        bench.input(&rows(1, 50));
        let url = quoting(StatusCode::OK, status).await;
        let file = pipeline(&bench, &[url], "api_key = { env = \"FOREBAY_TEST_KEY\" }");
        let mut command = forebay(["run", &file, "--set", "stage.dispatch.moves=1"]);
        command.env("FOREBAY_TEST_KEY", KEY).env("FOREBAY_LOG", "trace");
        let ended = said(command).await;
        assert_eq!(ended.code, Some(0), "{status}: {}", ended.err);
        let aside = fs::read_to_string(bench.path("run/aside/part-00000.jsonl")).expect("the row is set aside");
        assert!(aside.contains("Bearer ***"), "{status} was quoted, and masked: {aside}");
        nothing_shows_it(&bench, &ended);
    }
}

#[tokio::test]
async fn check_shows_where_the_key_is_and_never_what() {
    let bench = bench();
    let file = pipeline(&bench, &["http://127.0.0.1:9".to_owned()], "api_key = { env = \"FOREBAY_TEST_KEY\" }");
    let mut command = forebay(["check", &file]);
    command.env("FOREBAY_TEST_KEY", KEY);
    let checked = said(command).await;
    assert_eq!(checked.code, Some(0), "{}", checked.err);
    nothing_shows_it(&bench, &checked);

    let file = pipeline(&bench, &["http://127.0.0.1:9".to_owned()], &format!("api_key = {KEY:?}"));
    let refused = said(forebay(["check", &file])).await;
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    nothing_shows_it(&bench, &refused);
}
