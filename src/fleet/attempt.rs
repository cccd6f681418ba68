//! One request to one server, from the first byte out to a classified outcome.

use super::{
    classify::{self, Fault, Outcome},
    transport::{Call, Transport, TransportError},
    wire::{self, Collector, Ending},
};
use crate::record::Request;
use bytes::Bytes;
use futures::StreamExt;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// What is the same for every attempt of a `dispatch` stage.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The model's name, sent with each request.
    pub model: Arc<str>,
    /// Whether replies are streamed.
    pub stream: bool,
    /// How long a server may send nothing. Without streaming this covers the whole generation.
    pub stall: Duration,
}

/// How an attempt went.
#[derive(Debug)]
pub struct Landed {
    /// What it came to.
    pub outcome: Outcome,
    /// The reply as it came, cut to a bounded length.
    pub raw: Bytes,
    /// From sending to the end.
    pub took: Duration,
    /// From sending to the first piece of answer, where the reply was streamed.
    pub first_token: Option<Duration>,
    /// Whether the connection was lost in the middle of the reply.
    pub broke_off: bool,
}

/// A pooled connection that the server closes just as we write to it costs nobody anything: so often it is tried
/// again at once, on a fresh one.
const FRESH_CONNECTIONS: u32 = 2;

/// Sends `request` with `seed` to `server` and waits for the whole reply.
///
/// Dropping the future closes the connection, which ends the generation on the server.
pub async fn attempt(
    transport: &dyn Transport,
    server: &Arc<str>,
    request: &Request,
    seed: u64,
    terms: &Terms,
) -> Landed {
    let started = Instant::now();
    let body = wire::encode(request, &terms.model, seed, terms.stream);
    let call = Call { server: Arc::clone(server), path: request.path.into(), body: Some(body) };
    let mut fresh = 0;
    let reply = loop {
        match timeout(terms.stall, transport.send(call.clone())).await {
            Err(_) => return failed(stalled(terms), started),
            Ok(Err(TransportError::Lost(_))) if fresh < FRESH_CONNECTIONS => fresh += 1,
            Ok(Err(error)) => return failed(classify::classify_transport(&error), started),
            Ok(Ok(reply)) => break reply,
        }
    };
    let mut first_token = None;
    let mut collector = Collector::new(terms.stream, &reply.content_type);
    let mut pieces = reply.body;
    let ending = loop {
        match timeout(terms.stall, pieces.next()).await {
            Err(_) => break Ending::Stalled,
            Ok(None) => break Ending::Whole,
            Ok(Some(Ok(piece))) => {
                collector.push(&piece);
                if terms.stream && first_token.is_none() && collector.has_output() {
                    first_token = Some(started.elapsed());
                }
            }
            Ok(Some(Err(TransportError::Local(text)))) => {
                return failed(classify::classify_transport(&TransportError::Local(text)), started);
            }
            Ok(Some(Err(TransportError::Connect(text) | TransportError::Lost(text)))) => break Ending::Lost(text),
        }
    };
    let broke_off = matches!(ending, Ending::Lost(_));
    let collected = collector.finish(ending);
    let outcome =
        classify::classify(reply.status, &reply.content_type, reply.retry_after.as_deref(), &collected, request);
    Landed { outcome, raw: collected.raw, took: started.elapsed(), first_token, broke_off }
}

fn failed(fault: Fault, started: Instant) -> Landed {
    Landed {
        outcome: Outcome::Fault(fault),
        raw: Bytes::new(),
        took: started.elapsed(),
        first_token: None,
        broke_off: false,
    }
}

fn stalled(terms: &Terms) -> Fault {
    let detail = format!("nothing came for {}", humantime::format_duration(terms.stall));
    Fault { reason: crate::record::Reason::Stalled, detail, retry_after: None }
}
