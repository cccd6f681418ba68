//! What settings are made of: values as people write them, secrets, and a way to complain about a value.

mod human;
mod secret;

pub use human::{Duration, Size};
pub use secret::{Secret, SecretText};

/// What is wrong with the values of one table, said key by key.
#[derive(Debug, Default)]
pub struct Complaints(Vec<(String, String)>);

impl Complaints {
    /// Says that the value of `key` is wrong, and why: lowercase, without a full stop.
    ///
    /// `key` may be a path: `on_reject.retry` is a key of a table, `servers.2` the third element of a list.
    pub fn about(&mut self, key: &str, message: impl Into<String>) {
        self.0.push((key.to_owned(), message.into()));
    }

    /// True if there is nothing to complain about.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Key and message of each complaint, in the order they were made.
impl IntoIterator for Complaints {
    type Item = (String, String);
    type IntoIter = std::vec::IntoIter<(String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
