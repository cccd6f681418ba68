//! [`HttpServers`]: simulated servers on loopback sockets.
//!
//! A server that dies takes its listener and all its connections with it, and comes back on the same port. A reply that
//! is cut by a fault is a body that fails: hyper then closes the connection without the chunk that ends a body.

use super::{
    live::{Body, Live, Lost, Played, Servers},
    settings::SimSettings,
};
use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    http::header::CONTENT_TYPE,
    response::Response,
    serve::Listener,
};
use futures::stream::{self, StreamExt};
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The largest request body that is read, in bytes.
const BODY_LIMIT: usize = 64 << 20;
/// How long a server that comes back waits before it tries a port again that something else has taken.
const PORT_RETRY: Duration = Duration::from_millis(50);

/// Simulated servers on sockets. Dropping them closes everything.
pub struct HttpServers {
    servers: Servers,
    addresses: Vec<SocketAddr>,
    listening: Vec<watch::Receiver<bool>>,
    stopping: CancellationToken,
    supervisors: JoinSet<()>,
}

impl HttpServers {
    /// Starts the servers that `settings` describe: the first at `first`, the others at the ports after it; port 0 lets
    /// the system choose for each. All of them listen when this returns, but for those a fault has down from the start.
    ///
    /// # Errors
    /// What the system says of an address that cannot be had.
    pub async fn start(settings: SimSettings, first: SocketAddr) -> io::Result<Self> {
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for index in 0..settings.servers {
            let listener = TcpListener::bind(nth(first, index)?).await?;
            addresses.push(listener.local_addr()?);
            listeners.push(listener);
        }
        let servers = Servers::start(settings);
        let stopping = CancellationToken::new();
        let mut supervisors = JoinSet::new();
        let mut listening = Vec::new();
        for ((live, listener), address) in servers.all().iter().zip(listeners).zip(&addresses) {
            let up = *live.up().borrow();
            let (tell, listens) = watch::channel(up);
            listening.push(listens);
            let first = up.then_some(listener);
            supervisors.spawn(supervise(Arc::clone(live), first, *address, tell, stopping.clone()));
        }
        Ok(HttpServers { servers, addresses, listening, stopping, supervisors })
    }

    /// The servers' base URLs.
    pub fn urls(&self) -> Vec<String> {
        self.addresses.iter().map(|address| format!("http://{address}")).collect()
    }

    /// The servers, to count.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Kills server `index`: its port refuses, its connections are lost. Returns when that is so.
    pub async fn kill(&self, index: usize) {
        self.set_up(index, false).await;
    }

    /// Starts server `index` again on the same port. Returns when it listens.
    pub async fn revive(&self, index: usize) {
        self.set_up(index, true).await;
    }

    async fn set_up(&self, index: usize, up: bool) {
        let (Some(live), Some(listening)) = (self.servers.all().get(index), self.listening.get(index)) else { return };
        if up {
            live.revive()
        } else {
            live.kill()
        }
        // The supervisor that tells ends only when all of this does.
        let _ = listening.clone().wait_for(|listens| *listens == up).await;
    }

    /// Takes no more connections, lets open replies go on for at most `grace`, and ends.
    pub async fn stop(mut self, grace: Duration) {
        self.stopping.cancel();
        let ended = timeout(grace, async { while self.supervisors.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            self.servers.all().iter().for_each(|live| live.kill());
            while self.supervisors.join_next().await.is_some() {}
        }
    }
}

impl Drop for HttpServers {
    fn drop(&mut self) {
        // Connections are tasks of axum's own; this is what ends them.
        self.servers.all().iter().for_each(|live| live.kill());
    }
}

/// The address of server `index`, if the first is at `first`.
fn nth(first: SocketAddr, index: usize) -> io::Result<SocketAddr> {
    if first.port() == 0 {
        return Ok(first);
    }
    let port = u16::try_from(index).ok().and_then(|index| first.port().checked_add(index));
    let port = port.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "there is no port above 65535"))?;
    Ok(SocketAddr::new(first.ip(), port))
}

/// Keeps one server listening whenever it is up.
async fn supervise(
    live: Arc<Live>,
    mut first: Option<TcpListener>,
    address: SocketAddr,
    tell: watch::Sender<bool>,
    stopping: CancellationToken,
) {
    let mut up = live.up();
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            up = up.wait_for(|up| *up) => if up.is_err() { return },
        }
        let life = live.life();
        let listener = match first.take() {
            Some(listener) => Ok(listener),
            None => TcpListener::bind(address).await,
        };
        let Ok(listener) = listener else {
            tracing::warn!(%address, "a simulated server cannot have its port back yet");
            sleep(PORT_RETRY).await;
            continue;
        };
        tell.send_replace(true);
        let listener = MortalListener { listener, life: life.clone() };
        let router = Router::new().fallback(answer).with_state(Arc::clone(&live));
        let serve = axum::serve(listener, router).with_graceful_shutdown(stopping.clone().cancelled_owned());
        tokio::select! {
            () = life.cancelled() => {}
            // Serving ends on its own only by the shutdown.
            _ = serve.into_future() => return,
        }
        tell.send_replace(false);
    }
}

async fn answer(State(live): State<Arc<Live>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_LIMIT).await else { return response(413, "", axum::body::Body::empty()) };
    match live.handle(parts.method.as_str(), parts.uri.path(), &body).await {
        Ok(Played { status, content_type, body: Body::Whole(bytes) }) => response(status, content_type, bytes.into()),
        Ok(Played { status, content_type, body: Body::Pieces(pieces) }) => {
            response(status, content_type, axum::body::Body::from_stream(pieces.map(|piece| piece.map_err(lost))))
        }
        // The connection is dead already: nothing of this reaches the client.
        Err(gone) => response(503, "", axum::body::Body::from_stream(stream::iter([Err::<Vec<u8>, _>(lost(gone))]))),
    }
}

fn response(status: u16, content_type: &'static str, body: axum::body::Body) -> Response {
    let mut response = Response::builder().status(status).header("server", "simulated");
    if !content_type.is_empty() {
        response = response.header(CONTENT_TYPE, content_type);
    }
    // A status that is none (a fault's, say) is answered as a plain failure.
    response.body(body).unwrap_or_else(|_| Response::default())
}

fn lost(_: Lost) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the simulated server is gone")
}

/// A listener whose connections die with the server.
struct MortalListener {
    listener: TcpListener,
    life: CancellationToken,
}

impl Listener for MortalListener {
    type Io = Mortal;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Mortal, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "small packets may wait");
        }
        let death = Box::pin(self.life.clone().cancelled_owned());
        (Mortal { stream, life: self.life.clone(), death }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails as soon as its server is dead.
struct Mortal {
    stream: TcpStream,
    life: CancellationToken,
    /// Wakes the connection, which always waits for something to read.
    death: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl AsyncRead for Mortal {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.death.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(lost(Lost)));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Mortal {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.life.is_cancelled() {
            return Poll::Ready(Err(lost(Lost)));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.life.is_cancelled() {
            return Poll::Ready(Err(lost(Lost)));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
