//! [`OnReject`]: what happens to a bad answer.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor},
    ser::SerializeMap,
};
use std::{borrow::Cow, fmt};

/// What happens to a bad answer: in the pipeline file `"aside"` or `{ retry = N }`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnReject {
    /// The record is set aside.
    #[default]
    Aside,
    /// It is asked again up to this many times, at least 1, then set aside.
    Retry(u32),
}

/// More attempts than this are a mistake: the answer is not going to come.
const MOST_RETRIES: u32 = 10;

impl OnReject {
    /// How often a bad answer is asked again.
    pub fn retries(self) -> u32 {
        match self {
            OnReject::Aside => 0,
            OnReject::Retry(times) => times,
        }
    }
}

impl Serialize for OnReject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            OnReject::Aside => serializer.serialize_str("aside"),
            OnReject::Retry(times) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("retry", times)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for OnReject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OnRejectVisitor)
    }
}

struct OnRejectVisitor;

impl<'de> Visitor<'de> for OnRejectVisitor {
    type Value = OnReject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"aside\" or { retry = 2 }")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<OnReject, E> {
        match word {
            "aside" => Ok(OnReject::Aside),
            "retry" => Err(E::custom("how often? write { retry = 2 }")),
            _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OnReject, A::Error> {
        let Some(key) = map.next_key::<String>()? else {
            return Err(de::Error::custom("an empty table says nothing; write \"aside\" or { retry = 2 }"));
        };
        if key != "retry" {
            return Err(de::Error::unknown_field(&key, &["retry"]));
        }
        let times: u32 = map.next_value()?;
        if let Some(key) = map.next_key::<String>()? {
            return Err(de::Error::unknown_field(&key, &["retry"]));
        }
        match times {
            1..=MOST_RETRIES => Ok(OnReject::Retry(times)),
            0 => Err(de::Error::custom("0 retries are none; write \"aside\"")),
            _ => Err(de::Error::custom(format!("{times} retries are too many; {MOST_RETRIES} is the most"))),
        }
    }
}

impl JsonSchema for OnReject {
    fn schema_name() -> Cow<'static, str> {
        "OnReject".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "const": "aside" },
                {
                    "type": "object",
                    "properties": { "retry": { "type": "integer", "minimum": 1, "maximum": MOST_RETRIES } },
                    "required": ["retry"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct Table {
        on_reject: OnReject,
    }

    fn read(text: &str) -> Result<OnReject, String> {
        toml::from_str::<Table>(text).map(|table| table.on_reject).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn both_forms_are_read_and_written_the_same() {
        for (text, value) in [("\"aside\"", OnReject::Aside), ("{ retry = 3 }", OnReject::Retry(3))] {
            let read = read(&format!("on_reject = {text}")).expect("a valid value");
            assert_eq!(read, value);
            let written = toml::to_string(&Table { on_reject: value }).expect("it can be written");
            assert_eq!(toml::from_str::<Table>(&written).expect("it can be read again").on_reject, value);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_right() {
        for (text, words) in [
            ("\"again\"", "\"aside\" or { retry = 2 }"),
            ("2", "\"aside\" or { retry = 2 }"),
            ("\"retry\"", "{ retry = 2 }"),
            ("{}", "{ retry = 2 }"),
            ("{ retries = 2 }", "`retry`"),
            ("{ retry = 2, wait = 1 }", "unknown field `wait`"),
            ("{ retry = 0 }", "\"aside\""),
            ("{ retry = 5000 }", "10 is the most"),
            ("{ retry = -1 }", "-1"),
        ] {
            let error = read(&format!("on_reject = {text}")).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
