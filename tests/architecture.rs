//! The picture of who may know whom, held against the `use crate::` lines of the source.

#![cfg(test)]
#![expect(clippy::string_slice, reason = "cuts at what was found in the text itself")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// From the bottom to the top: each module, and those it may use. A module may always use itself.
const LAYERS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("clock", &[]),
    ("stop", &[]),
    ("progress", &[]),
    ("diagnostic", &[]),
    ("record", &[]),
    ("setting", &[]),
    ("store", &["error"]),
    ("edge", &["record"]),
    ("format", &["error", "record"]),
    ("journal", &["clock", "error", "record", "store"]),
    // The fleet's settings hold those of simulated servers, as data; the simulator knows of the fleet only `Transport`.
    ("fleet", &["error", "record", "setting", "sim"]),
    ("sim", &["error", "fleet", "setting"]),
    (
        "stage",
        &["clock", "edge", "error", "fleet", "format", "journal", "progress", "record", "setting", "stop", "store"],
    ),
    ("audit", &["format", "record"]),
    (
        "pipeline",
        &["diagnostic", "edge", "error", "fleet", "journal", "progress", "record", "setting", "stage", "stop", "store"],
    ),
    ("watch", &["edge", "fleet", "pipeline", "record"]),
    ("config", &["diagnostic", "fleet", "pipeline", "record", "setting", "sim", "stage"]),
    (
        "cli",
        &[
            "audit",
            "config",
            "diagnostic",
            "error",
            "fleet",
            "format",
            "pipeline",
            "record",
            "setting",
            "sim",
            "stage",
            "stop",
            "store",
            "watch",
        ],
    ),
];

/// Crates that one file alone may name.
const ONLY: &[(&str, &[&str])] = &[
    ("async_channel", &["edge.rs"]),
    ("reqwest", &["fleet/http.rs"]),
    ("object_store", &["store.rs", "journal/part.rs"]),
    ("indicatif", &["cli/progress.rs"]),
    ("axum", &["sim/http.rs"]),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every file under `src`, as its path and its text without comments and without inline tests.
fn files() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![source()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the source").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                let lines: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
                let name = path.strip_prefix(source()).expect("inside").display().to_string();
                found.insert(name, lines.join("\n"));
            }
        }
    }
    found
}

/// The first segments after every `crate::` in the text, also of `use crate::{a::b, c}`.
fn used(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        // `$crate` and other crates' paths end in the same letters.
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        let Some(group) = rest.strip_prefix('{') else {
            used.insert(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut start = true;
        for (index, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => start = true,
                letter if start && letter.is_alphanumeric() => {
                    used.insert(word(&group[index..]));
                    start = false;
                }
                _ => {}
            }
        }
    }
    used
}

fn module_of(file: &str) -> &str {
    file.split(['/', '.']).next().unwrap_or(file)
}

#[test]
fn nobody_knows_more_than_the_picture_shows() {
    let layers: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (file, code) in files() {
        let module = module_of(&file);
        if matches!(module, "lib" | "main") {
            continue;
        }
        let Some(allowed) = layers.get(module) else {
            wrong.push(format!("{file}: the module `{module}` is not in the picture"));
            continue;
        };
        for other in used(&code) {
            // Re-exports at the root count as the module they come from.
            let other = if other.starts_with(char::is_uppercase) { "error".to_owned() } else { other };
            if other != module && !allowed.contains(&other.as_str()) {
                wrong.push(format!("{file} uses crate::{other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "against the picture in tests/architecture.rs:\n{}", wrong.join("\n"));
}

#[test]
fn what_one_file_alone_may_know_stays_there() {
    let mut wrong = Vec::new();
    for (file, code) in files() {
        for (name, homes) in ONLY {
            if !homes.contains(&file.as_str()) && code.contains(&format!("{name}::")) {
                wrong.push(format!("{file} uses {name}, which belongs to {}", homes.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_check_sees_a_forbidden_use() {
    assert_eq!(used("use crate::stage::Kinds;"), BTreeSet::from(["stage".to_owned()]));
    let group = "use crate::{\n    edge::{Inlet, Outlet},\n    error::Error,\n};\nlet x = crate::cli::main();";
    assert_eq!(used(group), ["cli", "edge", "error"].map(str::to_owned).into());
}
