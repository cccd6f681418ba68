//! A first pipeline file for a new user, from the settings types themselves.

use super::{
    head::Head,
    reference::toml_value,
    shape::{Shape, Type},
};
use crate::{
    fleet::FleetSettings,
    stage::{Kind, Kinds},
};
use serde_json::Value;

/// The stages of a pipeline that regenerates answers.
const CHAIN: [&str; 6] = ["read", "filter", "template", "dispatch", "validate", "sink"];

/// How long a line of a comment gets.
const WIDTH: usize = 100;

/// A commented pipeline file that regenerates the missing answers of a dataset. What is not set in it stands there
/// as a comment, with its default.
pub fn starter(kinds: &Kinds) -> String {
    let mut file = String::from(
        "# A pipeline for Forebay. Records go through the stages from top to bottom.\n\
         # Try it with `forebay check`, which asks no server, and start it with `forebay run`.\n\n\
         name = \"first\"\n",
    );
    others(&mut file, Type::of::<Head>().shape(), &["name"]);
    file.push_str("\n[fleet]\nservers = [\"http://127.0.0.1:{30000..30001}\"]\nmodel = \"Qwen/Qwen3-8B\"\n");
    others(&mut file, Type::of::<FleetSettings>().shape(), &["servers", "model", "simulated"]);
    for kind in CHAIN.iter().filter_map(|name| kinds.get(name)) {
        stage(&mut file, kind);
    }
    file
}

fn stage(file: &mut String, kind: &Kind) {
    let schema = Type::of_kind(kind);
    file.push('\n');
    comment(file, schema.shape().description());
    file.push_str(kind.example.trim());
    file.push('\n');
    let lines = || kind.example.lines().map(str::trim);
    let given: Vec<&str> = lines().filter_map(|line| Some(line.split_once('=')?.0.trim())).collect();
    // Behind a table in the example a key would be one of that table.
    if !lines().any(|line| line.starts_with("[stage.")) {
        others(file, schema.shape(), &given);
    }
}

/// The keys that are not `given` and have a default to show, each as a comment.
fn others(file: &mut String, shape: Shape<'_>, given: &[&str]) {
    for key in shape.keys().iter().filter(|key| !given.contains(&key.name)) {
        let default = key.shape.default().filter(|value| !value.is_null() && !is_empty(value));
        if let Some(default) = default {
            let about = first_sentence(key.shape.description());
            comment(file, &about);
            file.push_str(&format!("# {} = {}\n", key.name, toml_value(default)));
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn first_sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => line,
    }
}

fn comment(file: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + word.len() >= WIDTH {
            file.push_str(&line);
            file.push('\n');
            "#".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.len() > 1 {
        file.push_str(&line);
        file.push('\n');
    }
}
