//! [`InProcess`]: simulated servers as a [`Transport`], without sockets.
//!
//! Sockets and a paused clock do not mix: while a reply is still in the kernel, tokio jumps to the next timer. Here
//! nothing waits but for timers, so that hours of a fleet pass in seconds of a test.

use super::{
    live::{Body, Live, Lost, Servers},
    settings::SimSettings,
};
use crate::fleet::{Call, Reply, Transport, TransportError};
use futures::{
    future::BoxFuture,
    stream::{self, StreamExt},
};
use std::{collections::HashMap, sync::Arc};

/// Simulated servers that are asked by function call. Copies are the same servers.
#[derive(Clone)]
pub struct InProcess {
    servers: Arc<Servers>,
    places: HashMap<String, usize>,
}

impl InProcess {
    /// Starts the servers that `settings` describe; must be called in a tokio runtime, whose clock they take.
    pub fn start(settings: SimSettings) -> Self {
        let servers = Arc::new(Servers::start(settings));
        let places = (0..servers.all().len()).map(|index| (url(index), index)).collect();
        InProcess { servers, places }
    }

    /// The servers' base URLs, by which calls name them.
    pub fn urls(&self) -> Vec<String> {
        (0..self.servers.all().len()).map(url).collect()
    }

    /// The servers, to kill, revive and count.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }
}

/// The base URL of a server: the names are reserved, so that none of them is ever a real one.
fn url(index: usize) -> String {
    format!("http://sim-{index}.invalid")
}

impl Transport for InProcess {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, TransportError>> {
        let live = self.places.get(&*call.server).and_then(|place| self.servers.all().get(*place)).cloned();
        Box::pin(async move {
            let Some(live) = live else {
                return Err(TransportError::Connect(format!("no simulated server is called {}", call.server)));
            };
            let life = live.life();
            if life.is_cancelled() {
                return Err(TransportError::Connect("connection refused".into()));
            }
            // A server that dies takes the reply's head with it.
            tokio::select! {
                biased;
                () = life.cancelled() => Err(lost()),
                reply = answer(&live, &call) => reply,
            }
        })
    }
}

async fn answer(live: &Arc<Live>, call: &Call) -> Result<Reply, TransportError> {
    let method = if call.body.is_some() { "POST" } else { "GET" };
    let body = call.body.clone().unwrap_or_default();
    let played = live.handle(method, &call.path, &body).await.map_err(|Lost| lost())?;
    let body = match played.body {
        Body::Whole(bytes) => stream::iter((!bytes.is_empty()).then_some(Ok(bytes))).boxed(),
        Body::Pieces(pieces) => pieces.map(|piece| piece.map_err(|Lost| lost())).boxed(),
    };
    Ok(Reply { status: played.status, content_type: played.content_type.to_owned(), retry_after: None, body })
}

fn lost() -> TransportError {
    TransportError::Lost("connection reset by the simulated server".into())
}

#[cfg(test)]
mod tests;
