//! Values as people write them: `"5m"`, `"64MiB"`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{borrow::Cow, fmt, str::FromStr};

/// A length of time, written as a number and a unit: `"500ms"`, `"5s"`, `"10m"`, `"1h 30m"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub std::time::Duration);

/// A number of bytes, written with a unit: `"64MiB"`, `"1GB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// No length of time is longer.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(10 * 366 * 24 * 60 * 60);

impl Duration {
    /// A length of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Duration(std::time::Duration::from_secs(seconds))
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = humantime::parse_duration(text.trim()).map_err(|_| {
            format!("`{text}` is not a length of time; write a number and a unit, such as \"5s\" or \"10m\"")
        })?;
        // Beyond any run, and well within what can be added to a point in time.
        let within = parsed <= LONGEST;
        within.then_some(Duration(parsed)).ok_or_else(|| format!("`{text}` is longer than ten years"))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.trim().parse::<bytesize::ByteSize>().map(|size| Size(size.as_u64()));
        parsed.map_err(|_| format!("`{text}` is not a size; write a number and a unit, such as \"64MiB\" or \"1GB\""))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-expects": "a length of time such as \"5s\" or \"10m\"" })
    }

    fn inline_schema() -> bool {
        true
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-expects": "a size such as \"64MiB\"" })
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_the_same() {
        assert!("500000000000y".parse::<Duration>().is_err());
        for text in ["500ms", "5s", "10m", "1h 30m"] {
            assert_eq!(text.parse::<Duration>().expect("a duration").to_string(), text);
        }
        for text in ["64MiB", "3GiB", "1025B", "0B"] {
            assert_eq!(text.parse::<Size>().expect("a size").to_string(), text);
        }
        assert_eq!("1 GB".parse(), Ok(Size(1_000_000_000)));
    }

    #[test]
    fn a_number_without_a_unit_is_no_length_of_time() {
        let error = "5".parse::<Duration>().expect_err("no unit");
        assert!(error.contains("`5` is not a length of time") && error.contains("\"5s\""), "{error}");
        assert!("many".parse::<Size>().is_err());
    }
}
