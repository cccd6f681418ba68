//! [`Secret`]: a setting that says where a secret is, and never is one; and the secret itself, which nothing shows.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt, path::PathBuf};

/// Where a secret is kept: in an environment variable or in a file. It cannot be written into a pipeline file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Secret {
    /// In the environment variable of this name.
    Env(String),
    /// In the file at this path, without the white space at its ends.
    File(PathBuf),
}

/// A secret. Only [`SecretText::expose`] gives it away; printed in any form it is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

/// Larger secret files are a mistake, and are not read.
const FILE_BYTES: u64 = 64 << 10;

impl Secret {
    /// Fetches the secret. The error says which variable or file has none; lowercase, without a full stop.
    pub fn read(&self) -> Result<SecretText, String> {
        let text = match self {
            Secret::Env(name) => std::env::var(name)
                .map_err(|_| format!("the environment variable `{name}`, which is to hold the secret, is not set"))?,
            Secret::File(path) => {
                let shown = path.display();
                let size = std::fs::metadata(path).map_err(|error| format!("cannot read `{shown}`: {error}"))?.len();
                if size > FILE_BYTES {
                    return Err(format!("`{shown}` is too large ({size} bytes) to hold a secret"));
                }
                std::fs::read_to_string(path).map_err(|error| format!("cannot read `{shown}`: {error}"))?
            }
        };
        let text = text.trim();
        match (text.is_empty(), self) {
            (false, _) => Ok(SecretText(text.to_owned())),
            (true, Secret::Env(name)) => Err(format!("the environment variable `{name}` is empty")),
            (true, Secret::File(path)) => Err(format!("`{}` is empty", path.display())),
        }
    }
}

impl SecretText {
    /// A secret that is already known, for programs that build a fleet themselves.
    pub fn new(text: impl Into<String>) -> Self {
        SecretText(text.into())
    }

    /// The secret itself. To be called only where it is sent.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "x-secret": true,
            "x-expects": "`{ env = \"NAME\" }` or `{ file = \"path\" }`",
            "properties": {
                "env": { "type": "string", "description": "The environment variable that holds it." },
                "file": { "type": "string", "description": "The file that holds it." }
            },
            "additionalProperties": false,
            "minProperties": 1,
            "maxProperties": 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_itself_only_when_asked() {
        let secret = SecretText::new("sk-1");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(secret.expose(), "sk-1");
    }

    #[test]
    fn a_secret_comes_from_a_file_without_its_line_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        std::fs::write(&path, "sk-2\n").expect("written");
        assert_eq!(Secret::File(path.clone()).read().expect("there is one").expose(), "sk-2");
        std::fs::write(&path, "\n").expect("written");
        assert!(Secret::File(path).read().expect_err("it is empty").ends_with("is empty"));
        let error = Secret::Env("FOREBAY_NO_SUCH_VARIABLE".into()).read().expect_err("it is not set");
        assert!(error.contains("`FOREBAY_NO_SUCH_VARIABLE`"), "{error}");
    }
}
