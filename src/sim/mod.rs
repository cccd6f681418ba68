//! Inference servers that are not there: one model of a continuous-batching engine with two faces.
//!
//! | face | for |
//! |---|---|
//! | [`HttpServers`] | sockets on loopback: the command line, tests of HTTP, benches |
//! | [`InProcess`] | a [`Transport`](crate::fleet::Transport) on tokio's clock: hours of a fleet in seconds of a test |
//!
//! A request goes through pure parts first and last: a `question` is read, a `persona` says something, `faults`
//! may spoil it, a `draft` counts its tokens, and `bodies` writes it as SGLang or vLLM would. In between, `live`
//! lets the [`engine`]'s time pass. Nothing here uses the fleet's code but the trait `Transport`: what is written by the
//! code that reads it would hide its mistakes.

mod bodies;
mod draft;
pub mod engine;
mod faults;
mod http;
mod in_process;
mod live;
mod persona;
mod play;
mod question;
mod server;
mod settings;
mod sglang;
mod vllm;

pub use faults::{Fault, FaultKind};
pub use http::HttpServers;
pub use in_process::InProcess;
pub use live::{Body, Live, Lost, Played, Servers};
pub use persona::{LABEL, short_hash};
pub use question::prompt_hash;
pub use server::Ledger;
pub use settings::{Dialect, ReasoningField, SimSettings};
