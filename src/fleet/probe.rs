//! Looks before anything is sent: is this server there, does it serve the model, does it make a token?

use super::{
    Fleet,
    classify::{self, Fault, Outcome},
    transport::{Call, Transport},
    wire::{Collector, Ending},
};
use crate::record::{Reason, Request, Thinking};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// A server that takes longer than this to say what it serves, or to make one token, is not up yet.
const PATIENCE: Duration = Duration::from_secs(120);

/// Larger answers to a probe are cut.
const LARGEST: usize = 1 << 20;

/// Asks the server at `url` what it serves, and has it make one token.
///
/// `/health` is not asked: it is green on servers whose engine is dead. The reply's own `model` field is not believed
/// either: SGLang and llama.cpp echo whatever was asked for.
///
/// # Errors
/// Why the server cannot be used now.
pub async fn probe(transport: &dyn Transport, url: &Arc<str>, fleet: &Fleet) -> Result<(), Fault> {
    let settings = fleet.settings();
    let served = served_models(transport, url).await?;
    let wanted = |name: &String| *name == settings.model || settings.accept_models.contains(name);
    if !served.is_empty() && !served.iter().any(wanted) {
        let detail = format!(
            "it serves `{}`, not `{}`: correct `model`, or add the name to `accept_models`",
            served.join("`, `"),
            settings.model
        );
        return Err(Fault { reason: Reason::UnknownModel, detail, retry_after: None });
    }
    one_token(transport, url, &settings.model).await
}

/// The names the server lists; empty if it cannot tell (a router says `unknown`).
async fn served_models(transport: &dyn Transport, url: &Arc<str>) -> Result<Vec<String>, Fault> {
    let (status, content_type, body) = exchange(transport, url, "/v1/models", None).await?;
    if status != 200 {
        // A server without the route may still answer; one that is loading or refuses the key says so here.
        return match classified(status, &content_type, &body) {
            Some(fault) if !matches!(status, 404 | 405) => Err(fault),
            _ => Ok(Vec::new()),
        };
    }
    let listed: Value = serde_json::from_slice(&body).unwrap_or_default();
    let ids = listed.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names = ids.iter().filter_map(|entry| entry.get("id").and_then(Value::as_str));
    Ok(names.filter(|name| *name != "unknown").map(str::to_owned).collect())
}

async fn one_token(transport: &dyn Transport, url: &Arc<str>, model: &str) -> Result<(), Fault> {
    let body = json!({ "model": model, "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 1 });
    let body = Bytes::from(body.to_string());
    let (status, content_type, body) = exchange(transport, url, "/v1/chat/completions", Some(body)).await?;
    classified(status, &content_type, &body).map_or(Ok(()), Err)
}

/// What is wrong with a reply to a probe. Any answer will do, also an empty or a cut one: it took a token to make it.
fn classified(status: u16, content_type: &str, body: &[u8]) -> Option<Fault> {
    let request = Request {
        path: "/v1/chat/completions",
        body: Map::new(),
        thinking: Thinking::Unset,
        max_tokens: 1,
        run_seed: 0,
    };
    let mut collector = Collector::new(false, content_type);
    collector.push(body);
    match classify::classify(status, content_type, None, &collector.finish(Ending::Whole), &request) {
        Outcome::Answer(_) => None,
        Outcome::Fault(fault) => Some(fault),
    }
}

async fn exchange(
    transport: &dyn Transport,
    url: &Arc<str>,
    path: &str,
    body: Option<Bytes>,
) -> Result<(u16, String, Vec<u8>), Fault> {
    let call = Call { server: Arc::clone(url), path: path.into(), body };
    let talk = async {
        let mut reply = transport.send(call).await?;
        let mut body = Vec::new();
        while let Some(piece) = reply.body.next().await {
            let piece = piece?;
            let room = LARGEST - body.len();
            body.extend(piece.iter().take(room));
        }
        Ok((reply.status, reply.content_type, body))
    };
    match timeout(PATIENCE, talk).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => Err(classify::classify_transport(&error)),
        Err(_) => {
            let detail = format!("{path} gave nothing for {}", humantime::format_duration(PATIENCE));
            Err(Fault { reason: Reason::Stalled, detail, retry_after: None })
        }
    }
}
