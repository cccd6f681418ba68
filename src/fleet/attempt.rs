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
use tokio::time::{Instant, timeout, timeout_at};

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

/// How long a body may go on after its last word.
const LINGER: Duration = Duration::from_secs(1);

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
    // Only output counts as progress: a server that hangs may still send empty events to keep the connection open.
    let (mut output, mut heard) = (0, Instant::now());
    let ending = loop {
        match timeout_at(heard + terms.stall, pieces.next()).await {
            Err(_) => break Ending::Stalled,
            Ok(None) => break Ending::Whole,
            Ok(Some(Ok(piece))) => {
                collector.push(&piece);
                if collector.output() > output {
                    (output, heard) = (collector.output(), Instant::now());
                }
                if collector.is_done() {
                    // A connection is used again only when its body has been read to the end.
                    let _read = timeout(LINGER, async { while let Some(Ok(_)) = pieces.next().await {} }).await;
                    break Ending::Whole;
                }
                if terms.stream && first_token.is_none() && output > 0 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fleet::Reply,
        record::{Reason, Thinking},
    };
    use futures::{FutureExt, future::BoxFuture, stream};
    use tokio::time::sleep;

    /// A server that sends one of these pieces every 10 seconds: first those of `begins`, then `again` for ever.
    struct Trickle {
        begins: &'static [&'static str],
        again: &'static str,
    }

    impl Transport for Trickle {
        fn send(&self, _: Call) -> BoxFuture<'static, Result<Reply, TransportError>> {
            let pieces = self.begins.iter().copied().chain(std::iter::repeat(self.again));
            let body = stream::iter(pieces).then(|piece| async move {
                sleep(Duration::from_secs(10)).await;
                Ok(Bytes::from_static(piece.as_bytes()))
            });
            let reply =
                Reply { status: 200, content_type: "text/event-stream".into(), retry_after: None, body: body.boxed() };
            async move { Ok(reply) }.boxed()
        }
    }

    const EMPTY: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n";
    const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"}}]}\n\n";
    const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

    async fn ask(server: Trickle) -> Landed {
        let request = Request {
            path: "/v1/chat/completions",
            body: serde_json::Map::new(),
            thinking: Thinking::Unset,
            max_tokens: 9,
            run_seed: 0,
        };
        let terms = Terms { model: "m".into(), stream: true, stall: Duration::from_secs(60) };
        attempt(&server, &"http://a".into(), &request, 1, &terms).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_only_keeps_the_connection_open_has_stalled() {
        for again in [": ping\n\n", EMPTY, "\n"] {
            let landed = ask(Trickle { begins: &[TOKEN, TOKEN], again }).await;
            let Outcome::Fault(fault) = landed.outcome else { panic!("no fault with {again:?}") };
            assert_eq!((fault.reason, landed.took.as_secs()), (Reason::Stalled, 80), "{again:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_thought_that_goes_on_is_waited_for() {
        const LONG: [&str; 202] = {
            let mut pieces = [TOKEN; 202];
            pieces[200] = END;
            pieces[201] = "data: [DONE]\n\n";
            pieces
        };
        let landed = ask(Trickle { begins: &LONG, again: ": ping\n\n" }).await;
        // The stream never ends by itself, so that waiting for its end runs into the limit; the answer is whole.
        assert!(landed.took.as_secs() > 2_000, "{:?}", landed.took);
        assert!(matches!(landed.outcome, Outcome::Answer(_)), "{:?}", landed.outcome);
    }
}
