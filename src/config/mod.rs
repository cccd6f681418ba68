//! How a pipeline file becomes a plan, or a list of complaints.

/// What is wrong with the values of one table, said key by key.
#[derive(Debug, Default)]
pub struct Complaints(Vec<(String, String)>);

impl Complaints {
    /// Says that the value of `key` is wrong, and why: lowercase, without a full stop.
    pub fn about(&mut self, key: &str, message: impl Into<String>) {
        self.0.push((key.to_owned(), message.into()));
    }
}
