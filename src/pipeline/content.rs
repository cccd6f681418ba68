//! What of a plan changes what its rows become; and what has changed since a run began.
//!
//! Servers, limits of part files, workers and the like may change between two sessions of a run. The model, sampling,
//! rules and inputs may not: rows made before and after would be mixed unseen. Which keys are of which sort is said
//! beside each key (`x-content`); what says nothing counts as content.

use super::Plan;
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The settings that change content, as one flat table of keys as `--set` writes them.
pub(super) fn content(plan: &Plan) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    found.insert("seed".to_owned(), json!(plan.seed));
    if let Some(fleet) = &plan.fleet {
        found.insert("fleet.model".to_owned(), json!(fleet.model));
        found.insert("fleet.simulated".to_owned(), json!(fleet.simulated.is_some()));
    }
    let order: Vec<_> = plan.stages.iter().map(|stage| stage.name.as_str()).collect();
    found.insert("stages".to_owned(), json!(order));
    for stage in &plan.stages {
        let schema = (stage.kind.schema)(&mut SchemaGenerator::default());
        let properties = schema.get("properties").and_then(Value::as_object);
        let kept: Map<String, Value> = stage
            .settings
            .to_json()
            .as_object()
            .cloned()
            .unwrap_or_default()
            .into_iter()
            .filter(|(key, _)| is_content(properties.and_then(|keys| keys.get(key))))
            .collect();
        found.insert(format!("stage.{}.kind", stage.name), json!(stage.kind.name));
        for (key, value) in kept {
            found.insert(format!("stage.{}.{key}", stage.name), value);
        }
    }
    found
}

fn is_content(schema: Option<&Value>) -> bool {
    schema.and_then(|schema| schema.get("x-content")) != Some(&Value::Bool(false))
}

/// Each key that differs, with its old and its new value; empty if none does.
pub(super) fn changes(old: &BTreeMap<String, Value>, new: &BTreeMap<String, Value>) -> Vec<String> {
    let shown = |value: Option<&Value>| value.map_or("(not set)".to_owned(), Value::to_string);
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    keys.into_iter()
        .filter(|key| old.get(*key) != new.get(*key))
        .map(|key| format!("{key}: {} -> {}", shown(old.get(key)), shown(new.get(key))))
        .collect()
}
