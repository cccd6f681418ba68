//! The files on this machine that a pattern matches. What matches and cannot be read is an error, not left out: a shard that
//! is silently not read is lost data.

use globset::GlobMatcher;
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

/// The size of a regular file; or why it is none, for people.
pub(super) fn size(path: &Path) -> Result<u64, String> {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(found.len()),
        Ok(found) if found.is_dir() => Err(format!("{shown} is a folder, name a pattern such as {shown}/*.jsonl")),
        Ok(_) => Err(format!("{shown} is not a regular file")),
        Err(error) if fs::symlink_metadata(path).is_ok() => Err(format!("{shown} leads nowhere ({error})")),
        Err(error) => Err(format!("{shown} cannot be read ({error})")),
    }
}

/// The files below `folder` that `pattern` matches, by their path inside it, with their sizes.
///
/// # Errors
/// What stands in the way, for people.
pub(super) fn matching(folder: &Path, pattern: &GlobMatcher) -> Result<BTreeMap<String, u64>, String> {
    let text = pattern.glob().glob();
    let deep = text.contains('/') || text.contains("**");
    let mut found = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut folders: Vec<(PathBuf, String)> = vec![(folder.to_owned(), String::new())];
    while let Some((folder, inside)) = folders.pop() {
        // A link back to a folder above would be followed for ever.
        if !fs::canonicalize(&folder).is_ok_and(|real| seen.insert(real)) {
            continue;
        }
        let entries =
            fs::read_dir(&folder).map_err(|error| format!("{} cannot be listed ({error})", folder.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("{} cannot be listed ({error})", folder.display()))?;
            let path = entry.path();
            let name = format!("{inside}{}", entry.file_name().to_string_lossy());
            let matches = pattern.is_match(&name);
            if path.is_dir() {
                if deep {
                    folders.push((path, format!("{name}/")));
                }
            } else if matches && entry.file_name().to_str().is_none() {
                return Err(format!("the name of {} is not UTF-8, rename it", path.display()));
            } else if matches {
                found.insert(name, size(&path)?);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &Path, pattern: &str) -> Result<Vec<String>, String> {
        let pattern = globset::GlobBuilder::new(pattern).literal_separator(true).build().expect("a pattern");
        matching(folder, &pattern.compile_matcher()).map(|found| found.into_keys().collect())
    }

    #[test]
    fn every_file_that_matches_is_found_whatever_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("deep/er")).expect("folders");
        for name in ["a.jsonl", "b.jsonl#22", "odd %41 #.jsonl", "deep/c.jsonl", "deep/er/d.jsonl", "other.txt"] {
            fs::write(folder.path().join(name), "{}").expect("writes");
        }
        std::os::unix::fs::symlink(folder.path(), folder.path().join("deep/loop")).expect("links");
        let at = folder.path();
        assert_eq!(found(at, "*.jsonl*").expect("lists"), ["a.jsonl", "b.jsonl#22", "odd %41 #.jsonl"]);
        assert_eq!(found(at, "deep/*.jsonl").expect("lists"), ["deep/c.jsonl"]);
        let all = found(at, "**/*.jsonl").expect("lists");
        assert_eq!(all, ["a.jsonl", "deep/c.jsonl", "deep/er/d.jsonl", "odd %41 #.jsonl"]);
    }

    #[test]
    fn a_match_that_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a.jsonl"), "{}").expect("writes");
        std::os::unix::fs::symlink("nowhere", folder.path().join("b.jsonl")).expect("links");
        assert!(found(folder.path(), "*.jsonl").expect_err("a dangling link").contains("leads nowhere"));
        assert!(found(folder.path(), "a*").is_ok());
    }
}
