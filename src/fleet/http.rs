//! The [`Transport`] over HTTP; the only file that knows reqwest.

use super::{
    mask::Mask,
    transport::{Call, Reply, Transport, TransportError},
};
use crate::{
    error::{Error, ErrorKind},
    setting::SecretText,
};
use futures::{FutureExt, StreamExt, future::BoxFuture};
use reqwest::{
    Client,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
};
use std::{error::Error as StdError, io, time::Duration};

/// One pooled HTTP/1.1 client for all servers.
#[derive(Debug, Clone)]
pub struct HttpTransport {
    client: Client,
    /// What no reply may show.
    key: Option<SecretText>,
}

impl HttpTransport {
    /// A client that gives up connecting after `connect_timeout`, and closes a connection that was idle for
    /// `idle_timeout` (which must be less than the servers' own limit, 5 s for uvicorn).
    ///
    /// `api_key` is sent as a bearer token and shown nowhere: a reply that quotes it says `***` instead.
    ///
    /// # Errors
    /// `FixPipeline` if the key cannot stand in a header; `FixMachine` if TLS cannot be set up.
    pub fn new(
        connect_timeout: Duration,
        idle_timeout: Duration,
        api_key: Option<&SecretText>,
    ) -> Result<HttpTransport, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = api_key {
            // The error is not kept as a source: it might quote the key.
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose())).map_err(|_| {
                Error::new(ErrorKind::FixPipeline, "the api_key holds a character that cannot stand in a header")
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = Client::builder()
            .default_headers(headers)
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(idle_timeout)
            .pool_max_idle_per_host(usize::MAX)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .http1_only()
            // A redirect would send prompts to a place nobody named; a silent retry would spoil our count of attempts;
            // a proxy from the environment would catch the fleet on this machine.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .build()
            .map_err(|error| Error::new(ErrorKind::FixMachine, "cannot set up the HTTP client").because(error))?;
        Ok(HttpTransport { client, key: api_key.cloned() })
    }
}

impl Transport for HttpTransport {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, TransportError>> {
        let url = format!("{}{}", call.server, call.path);
        let request = match call.body {
            Some(body) => self.client.post(url).body(body),
            None => self.client.get(url),
        };
        let key = self.key.clone();
        async move {
            let response = request.send().await.map_err(|error| why(&error))?;
            let header = |name: HeaderName| {
                response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
            };
            let (status, content_type) = (response.status(), header(CONTENT_TYPE).unwrap_or_default());
            let retry_after = header(RETRY_AFTER);
            let mask = key.and_then(|key| Mask::new(&key, !status.is_success()));
            let pieces = response.bytes_stream().map(|piece| piece.map_err(|error| why(&error)));
            let body = match mask {
                Some(mask) => mask.over(pieces).boxed(),
                None => pieces.boxed(),
            };
            Ok(Reply { status: status.as_u16(), content_type, retry_after, body })
        }
        .boxed()
    }
}

/// Whose trouble an error is. Its text is the chain of causes, without the URL.
fn why(error: &reqwest::Error) -> TransportError {
    let mut causes = Vec::new();
    let mut local = error.is_dns();
    let mut next: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(cause) = next {
        local |= cause.downcast_ref::<io::Error>().is_some_and(is_local);
        causes.push(cause.to_string());
        next = cause.source();
    }
    let text = causes.pop().unwrap_or_else(|| "the connection failed".to_owned());
    if local {
        TransportError::Local(text)
    } else if error.is_connect() {
        TransportError::Connect(text)
    } else {
        TransportError::Lost(text)
    }
}

/// Out of descriptors or ports: nothing a server could help.
fn is_local(error: &io::Error) -> bool {
    let out_of_files = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error().is_some_and(|code| out_of_files.iter().any(|errno| errno.raw_os_error() == code))
}
