//! [`Transport`]: bytes to a server, status and bytes back. HTTP is one, the in-process simulator another.
//!
//! The seam is cut at bytes, so that the wire format and the classifier are the same code in both.

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use std::sync::Arc;

/// A way to reach servers.
pub trait Transport: Send + Sync + 'static {
    /// Sends one call. The reply comes as soon as its head is known; its body follows as it arrives.
    ///
    /// Dropping the future or the body ends the call: the server sees a closed connection.
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, TransportError>>;
}

/// What is sent. Keys and other secrets are not part of it: the transport adds them.
#[derive(Debug, Clone)]
pub struct Call {
    /// The server's base URL, without a trailing slash.
    pub server: Arc<str>,
    /// The route, such as `/v1/chat/completions`.
    pub path: Arc<str>,
    /// A JSON body to POST; `None` is a GET.
    pub body: Option<Bytes>,
}

/// What comes back.
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The value of `content-type`, or empty.
    pub content_type: String,
    /// The value of `retry-after` as it stands, if there is one.
    pub retry_after: Option<String>,
    /// The body, piece by piece; an error ends it.
    pub body: BoxStream<'static, Result<Bytes, TransportError>>,
}

/// Why there is no reply, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportError {
    /// No connection: refused, unroutable, timed out, or the certificate was not accepted.
    Connect(String),
    /// The connection was lost.
    Lost(String),
    /// Trouble on this machine: descriptors, ports, name service. No server is to blame.
    Local(String),
}
