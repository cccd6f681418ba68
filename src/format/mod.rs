//! Rows in and out of files; where a dataset has its chats.
