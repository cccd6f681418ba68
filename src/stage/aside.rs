//! Built into every run: writes what was set aside, with its reason.

/// Writes rejected records.
pub struct AsideWriter;
