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
//! | [`fleet`] | who is asked, how often, and what a reply means |
//! | [`format`] | rows in and out of files; where a dataset has its chats |
//! | [`store`] | where files are: this machine or an object store |
//! | [`watch`] | numbers from the accounts; prints nothing |
//! | [`sim`] | inference servers that are not there |
//! | [`cli`] | the commands; nothing else prints |

pub mod cli;
pub mod config;
pub mod diagnostic;
pub mod edge;
pub mod error;
pub mod fleet;
pub mod format;
pub mod pipeline;
pub mod record;
pub mod sim;
pub mod stage;
pub mod store;
pub mod watch;

pub use error::{Error, ErrorKind};
