//! The commands; nothing else prints.
