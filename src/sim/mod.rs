//! Inference servers that are not there.
