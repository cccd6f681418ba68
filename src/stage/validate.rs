//! `validate`: to come.

use super::{Built, Parts};
use crate::error::{Error, ErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// To come.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {}

impl super::Settings for Settings {
    const KIND: &'static str = "validate";
    const EXAMPLE: &'static str = "[[stage]]\nkind = \"validate\"\n";
    fn build(self, _parts: &Parts) -> Result<Built, Error> {
        Err(Error::new(ErrorKind::Bug, "not built yet"))
    }
}
