//! Rows in and out of files; where a dataset has its chats.

mod compress;
pub mod edit;
mod rows;
pub mod shape;

pub use rows::{Framed, Limits, Rows, RowsError};
