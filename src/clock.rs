//! The wall clock, read in one place.

/// The wall clock, in milliseconds since 1970: for names and provenance, never for measuring.
pub fn unix_ms() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the one place where the wall clock is read")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
