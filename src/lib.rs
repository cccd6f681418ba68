//! Forebay regenerates LLM training datasets on your own inference servers and cleans them: a dataflow of streaming
//! stages, declared in TOML, joined by bounded channels, so that the servers set the pace of everything.
//!
//! | module | what it answers |
//! |---|---|
//! | [`record`] | what flows: a row, and what the stages have learnt about it |
//! | [`edge`] | how stages are joined, and what they waited for |
//! | [`stage`] | what a step is, and which kinds there are |
//! | [`pipeline`] | how a plan becomes a run, and what a run says at its end |
//! | [`config`] | how a pipeline file becomes a plan, or a list of complaints |
//! | [`setting`] | what settings are made of: lengths of time, sizes, secrets, complaints |
//! | [`fleet`] | who is asked, how often, and what a reply means |
//! | [`journal`] | what is done in a run, told so that a fresh start can believe it |
//! | [`mod@format`] | rows in and out of files; where a dataset has its chats |
//! | [`store`] | where files are: this machine or an object store |
//! | [`stop`] | who stops first |
//! | [`watch`] | numbers from the accounts; prints nothing |
//! | [`sim`] | inference servers that are not there |
//! | [`audit`] | what is in a dataset |
//! | [`cli`] | the commands; nothing else prints |

#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests wait for what they spawn"))]

pub mod audit;
pub mod cli;
mod clock;
pub mod config;
pub mod diagnostic;
pub mod edge;
pub mod error;
pub mod fleet;
pub mod format;
pub mod journal;
pub mod pipeline;
pub mod progress;
pub mod record;
pub mod setting;
pub mod sim;
pub mod stage;
pub mod stop;
pub mod store;
pub mod watch;

pub use error::{Error, ErrorKind};
