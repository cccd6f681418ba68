//! The reference, the schema and the first file of a new user are made from the types, and fit them.

#![cfg(test)]

use forebay::{config, stage::Kinds};
use std::path::Path;

/// Holds a page of `docs/` against what the program says, or renews it.
fn hold(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    if std::env::var_os("FOREBAY_BLESS").is_some() {
        std::fs::write(&path, page).expect("the page can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/{name} is out of date; renew it with FOREBAY_BLESS=1 cargo test");
}

#[test]
fn the_reference_page_is_what_the_program_says() {
    hold("reference.md", &config::reference(&Kinds::builtin()));
}

#[test]
fn the_page_of_words_is_what_the_program_says() {
    hold("words.md", &config::words());
}

#[test]
fn the_first_file_of_a_new_user_is_right() {
    let text = config::starter(&Kinds::builtin());
    if let Err(diagnostics) = config::load(&text, "pipeline.toml", &[], &Kinds::builtin()) {
        panic!("{diagnostics}\n{text}");
    }
}

#[test]
fn the_first_file_is_still_right_with_its_comments_taken_at_their_word() {
    let text = config::starter(&Kinds::builtin());
    // A line of prose may hold ` = ` too; a setting begins with its key.
    let is_key = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let setting = |line: &&str| line.split_once(" = ").is_some_and(|(key, _)| is_key(key));
    let spoken: Vec<&str> = text.lines().map(|line| line.strip_prefix("# ").filter(setting).unwrap_or(line)).collect();
    if let Err(diagnostics) = config::load(&spoken.join("\n"), "pipeline.toml", &[], &Kinds::builtin()) {
        panic!("{diagnostics}");
    }
}

#[test]
fn the_example_of_every_kind_is_read() {
    for kind in Kinds::builtin().iter() {
        let file: toml::Table = toml::from_str(kind.example).expect(kind.name);
        let stages = file["stage"].as_array().expect(kind.name);
        assert_eq!(stages[0]["kind"].as_str(), Some(kind.name));
    }
}

#[test]
fn the_schema_knows_every_kind_and_describes_every_key() {
    let kinds = Kinds::builtin();
    let schema = config::schema(&kinds);
    let stages = schema["properties"]["stage"]["items"]["oneOf"].as_array().expect("a list of kinds");
    let names: Vec<&str> = stages.iter().filter_map(|kind| kind["properties"]["kind"]["const"].as_str()).collect();
    assert_eq!(names, kinds.iter().map(|kind| kind.name).collect::<Vec<_>>());
    let tables = stages.iter().chain([&schema, &schema["$defs"]["FleetSettings"]]);
    for (key, value) in tables.flat_map(|table| table["properties"].as_object().expect("keys")) {
        assert!(value["description"].is_string() || key == "fleet", "`{key}` has no description");
    }
}
