//! Where files are: this machine or an object store. The only file that knows how stores are made.

mod append;
mod listing;

pub use append::{Append, Growth};

use crate::error::{Error, ErrorKind};
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, buffered::BufWriter, local::LocalFileSystem};
use std::{fmt, io::Read, ops::Range, path::PathBuf, sync::Arc};
use tokio_util::io::{StreamReader, SyncIoBridge};

/// A folder or file in a store: `runs/regenerate`, `/data/a.jsonl`, `s3://bucket/runs/regenerate`.
#[derive(Clone)]
pub struct Place {
    store: Arc<dyn ObjectStore>,
    path: object_store::path::Path,
    /// As the user wrote it: what messages show.
    shown: Arc<str>,
    /// Where it is on this machine, if it is.
    local: Option<PathBuf>,
}

/// A folder that no other process may work on while this is held; given back when it is dropped, also by a crash.
#[derive(Debug)]
pub struct Lock {
    _file: std::fs::File,
}

/// One input file.
#[derive(Debug, Clone)]
pub struct InputFile {
    /// Its name as the user's path leads to it: part of each row's identity.
    pub name: Arc<str>,
    /// Its size in bytes, as stored.
    pub bytes: u64,
    place: Place,
}

/// How many bytes a part upload buffers before it goes out in pieces.
const UPLOAD_BUFFER: usize = 8 << 20;

impl Place {
    /// The place that `text` names: a path on this machine or a URL (`file`, `s3`, `gs`, `az`, `http`, `https`).
    pub fn parse(text: &str) -> Result<Place, Error> {
        if let Ok(url) = url::Url::parse(text)
            && text.contains("://")
            && url.scheme() != "file"
        {
            let environment = std::env::vars().map(|(key, value)| (key.to_ascii_lowercase(), value));
            let (store, path) = object_store::parse_url_opts(&url, environment)
                .map_err(|error| store_error(format!("cannot use {}", without_password(&url)), error))?;
            let shown = without_password(&url).into();
            return Ok(Place { store: Arc::from(store), path, shown, local: None });
        }
        let plain = text.strip_prefix("file://").unwrap_or(text);
        let absolute = std::path::absolute(plain)
            .map_err(|error| Error::new(ErrorKind::FixPipeline, format!("`{text}` is not a path")).because(error))?;
        let absolute = without_dots(&absolute);
        let path = object_store::path::Path::from_absolute_path(&absolute)
            .map_err(|error| Error::new(ErrorKind::FixPipeline, format!("`{text}` is not a path")).because(error))?;
        let store = Arc::new(LocalFileSystem::new().with_fsync(true));
        Ok(Place { store, path, shown: plain.trim_end_matches('/').into(), local: Some(absolute) })
    }

    /// The file or folder `name` inside this folder; `name` may hold slashes.
    pub fn join(&self, name: &str) -> Place {
        let path = name.split('/').fold(self.path.clone(), |path, part| path.join(part));
        Place {
            store: Arc::clone(&self.store),
            path,
            shown: format!("{}/{name}", self.shown).into(),
            local: self.local.as_ref().map(|local| local.join(name)),
        }
    }

    /// The last part of its name.
    pub fn file_name(&self) -> &str {
        self.path.filename().unwrap_or_default()
    }

    /// Writes a whole file; a reader sees the old one or the new one, never half of it.
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<(), Error> {
        self.store.put(&self.path, bytes.into().into()).await.map(drop).map_err(|error| self.cannot("write", error))
    }

    /// Writes a whole file that must not be there yet; false if it is.
    pub async fn create(&self, bytes: impl Into<Bytes>) -> Result<bool, Error> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&self.path, bytes.into().into(), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.cannot("write", error)),
        }
    }

    /// The bytes of a file, or `None` if there is no such file.
    pub async fn read(&self) -> Result<Option<Bytes>, Error> {
        match self.store.get(&self.path).await {
            Ok(found) => found.bytes().await.map(Some).map_err(|error| self.cannot("read", error)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.cannot("read", error)),
        }
    }

    /// The bytes of a part of a file.
    ///
    /// # Errors
    /// `FixStore` if it cannot be read, or has not so many bytes.
    pub async fn read_range(&self, range: Range<u64>) -> Result<Bytes, Error> {
        self.store.get_range(&self.path, range).await.map_err(|error| self.cannot("read", error))
    }

    /// A writer for one large file, which appears under its name only when it is shut down without an error.
    pub fn upload(&self) -> BufWriter {
        BufWriter::with_capacity(Arc::clone(&self.store), self.path.clone(), UPLOAD_BUFFER).with_max_concurrency(2)
    }

    /// Removes what a killed process has left of unfinished files in this folder, those whose names begin with `prefix`.
    ///
    /// Only local folders have such files: object_store writes to `NAME#1` and renames. It does not list them, but a
    /// reader that takes every file in a folder would.
    pub async fn sweep(&self, prefix: &'static str) -> Result<(), Error> {
        let Some(folder) = self.local.clone() else { return Ok(()) };
        let unfinished = move |name: &str| {
            let end = name.strip_prefix(prefix).and_then(|rest| rest.rsplit_once('#'));
            end.is_some_and(|(_, number)| number.parse::<u64>().is_ok())
        };
        let swept = tokio::task::spawn_blocking(move || {
            let entries = match std::fs::read_dir(folder) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                if entry.file_name().to_str().is_some_and(&unfinished) {
                    std::fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        });
        let cannot = format!("cannot clear unfinished files out of {self}");
        match swept.await {
            Ok(swept) => swept.map_err(|error: std::io::Error| Error::new(ErrorKind::FixStore, cannot).because(error)),
            Err(panic) => Err(Error::new(ErrorKind::Bug, cannot).because(panic)),
        }
    }

    /// Takes the folder for this process alone. Only folders on this machine can be taken: in an object store, it is the
    /// creation of commits that keeps two processes apart.
    ///
    /// # Errors
    /// `FixStore` if another process holds it.
    pub async fn lock(&self) -> Result<Option<Lock>, Error> {
        let Some(folder) = self.local.clone() else { return Ok(None) };
        let cannot = format!("cannot write to {self}: make room or give permission");
        let taken = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(&folder)?;
            let file = std::fs::File::create(folder.join("lock"))?;
            match file.try_lock() {
                Ok(()) => Ok(Some(Lock { _file: file })),
                Err(std::fs::TryLockError::WouldBlock) => Ok(None),
                Err(std::fs::TryLockError::Error(error)) => Err(error),
            }
        });
        match taken.await {
            Ok(Ok(Some(lock))) => Ok(Some(lock)),
            Ok(Ok(None)) => {
                let message = format!("another process works on {self}: wait until it has ended, or stop it");
                Err(Error::new(ErrorKind::FixStore, message))
            }
            Ok(Err(error)) => Err(Error::new(ErrorKind::FixStore, cannot).because(error)),
            Err(panic) => Err(Error::new(ErrorKind::Bug, cannot).because(panic)),
        }
    }

    /// The names of the files directly in this folder, sorted; empty if there is no such folder.
    pub async fn names(&self) -> Result<Vec<String>, Error> {
        let listed = self.store.list_with_delimiter(Some(&self.path)).await;
        let listed = match listed {
            Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
            other => other.map_err(|error| self.cannot("list", error))?,
        };
        let mut names: Vec<_> =
            listed.objects.iter().filter_map(|object| object.location.filename().map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    }

    /// The files that a path or pattern (`data/*.jsonl`, `data/**/part-*`) leads to, sorted by name.
    ///
    /// # Errors
    /// `FixInput` if there are none.
    pub async fn inputs(text: &str) -> Result<Vec<InputFile>, Error> {
        let none = |what: &str| {
            Error::new(ErrorKind::FixInput, format!("{what} `{text}`: check the path of the `read` stage"))
        };
        let magic = text.find(['*', '?', '[', '{']);
        let Some(magic) = magic else {
            let place = Place::parse(text)?;
            let bytes = match &place.local {
                Some(local) => listing::size(local).map_err(|why| none(&format!("{why}:")))?,
                None => match place.store.head(&place.path).await {
                    Ok(meta) => meta.size,
                    Err(object_store::Error::NotFound { .. }) => return Err(none("there is no file")),
                    Err(error) => return Err(place.cannot("read", error)),
                },
            };
            return Ok(vec![InputFile { name: Arc::clone(&place.shown), bytes, place }]);
        };
        let root_end = text.get(..magic).and_then(|plain| plain.rfind('/')).map_or(0, |slash| slash + 1);
        let (root, pattern) = text.split_at(root_end);
        let pattern = globset::GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| Error::new(ErrorKind::FixPipeline, format!("`{text}` is not a pattern")).because(error))?
            .compile_matcher();
        let folder = Place::parse(if root.is_empty() { "." } else { root })?;
        let mut files = Vec::new();
        if let Some(local) = folder.local.clone() {
            // object_store's own listing leaves out what it takes for its unfinished files, and dangling links.
            let found = tokio::task::spawn_blocking(move || listing::matching(&local, &pattern));
            let found = found.await.map_err(|panic| Error::new(ErrorKind::Bug, "a listing panicked").because(panic))?;
            for (inside, bytes) in found.map_err(|why| none(&format!("{why}:")))? {
                let mut place = folder.join(&inside);
                place.shown = format!("{root}{inside}").into();
                files.push(InputFile { name: Arc::clone(&place.shown), bytes, place });
            }
            return if files.is_empty() { Err(none("no file matches")) } else { Ok(files) };
        }
        let mut listed = folder.store.list(Some(&folder.path));
        while let Some(object) = listed.try_next().await.map_err(|error| folder.cannot("list", error))? {
            let Some(inside) = object.location.prefix_match(&folder.path) else { continue };
            let inside = inside.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
            if pattern.is_match(&inside) {
                let mut place = folder.join(&inside);
                place.path = object.location;
                place.shown = format!("{root}{inside}").into();
                files.push(InputFile { name: Arc::clone(&place.shown), bytes: object.size, place });
            }
        }
        if files.is_empty() {
            return Err(none("no file matches"));
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn cannot(&self, verb: &str, error: object_store::Error) -> Error {
        let advice = match &error {
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                ": check who may use it"
            }
            _ => "",
        };
        store_error(format!("cannot {verb} {}{advice}", self.shown), error)
    }
}

impl InputFile {
    /// The folder it lies in.
    pub fn folder(&self) -> Place {
        let mut parts: Vec<_> = self.place.path.parts().collect();
        parts.pop();
        let shown = self.name.rsplit_once('/').map_or(".", |(folder, _)| folder);
        Place {
            store: Arc::clone(&self.place.store),
            path: parts.into_iter().collect(),
            shown: shown.into(),
            local: self.place.local.as_ref().and_then(|local| local.parent()).map(PathBuf::from),
        }
    }

    /// Opens the file for reading on a thread that may block.
    ///
    /// Must be called inside a runtime; the reader must be used outside of its async threads.
    pub async fn open(&self) -> Result<Box<dyn Read + Send>, Error> {
        if let Some(local) = &self.place.local {
            let file = std::fs::File::open(local).map_err(|error| {
                Error::new(ErrorKind::FixInput, format!("cannot read {}", self.name)).because(error)
            })?;
            return Ok(Box::new(file));
        }
        let found = self.place.store.get(&self.place.path).await.map_err(|error| self.place.cannot("read", error))?;
        let stream = found.into_stream().map_err(std::io::Error::other);
        Ok(Box::new(SyncIoBridge::new(StreamReader::new(stream))))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.shown)
    }
}

/// The path with `..` taken at its word. Where a folder above is a symbolic link, the shell would go another way; a
/// store cannot.
fn without_dots(path: &std::path::Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

fn store_error(message: String, error: object_store::Error) -> Error {
    Error::new(ErrorKind::FixStore, message).because(error)
}

fn without_password(url: &url::Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs that cannot hold a user, which then hold no secret either.
    let (_, _) = (url.set_username(""), url.set_password(None));
    url.set_query(None);
    url.to_string().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_created_file_is_never_created_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::parse(folder.path().to_str().expect("utf-8")).expect("a place").join("a/b.json");
        assert!(place.create("1").await.expect("writes"));
        assert!(!place.create("2").await.expect("asks"));
        assert_eq!(place.read().await.expect("reads").as_deref(), Some(&b"1"[..]));
    }

    #[tokio::test]
    async fn only_unfinished_files_are_swept_out() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["part-00000.jsonl", "part-00001.jsonl#1", "part-00001.jsonl#2", "part-2#x", "notes#1"] {
            std::fs::write(folder.path().join(name), "{}").expect("writes");
        }
        let place = Place::parse(folder.path().to_str().expect("utf-8")).expect("a place");
        place.sweep("part-").await.expect("sweeps");
        place.join("not there").sweep("part-").await.expect("nothing to sweep");
        let left = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name().into_string().expect("utf-8")).collect();
        left.sort();
        assert_eq!(left, ["notes#1", "part-00000.jsonl", "part-2#x"]);
    }

    #[tokio::test]
    async fn a_pattern_finds_files_in_order_and_says_when_there_are_none() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.jsonl", "a.jsonl", "c.txt", "odd name #1.jsonl"] {
            std::fs::write(folder.path().join(name), "{}").expect("writes");
        }
        let text = format!("{}/*.jsonl", folder.path().display());
        let found = Place::inputs(&text).await.expect("finds");
        let names: Vec<_> = found.iter().filter_map(|file| file.name.rsplit('/').next()).collect();
        assert_eq!(names, ["a.jsonl", "b.jsonl", "odd name #1.jsonl"]);
        assert_eq!(found[0].bytes, 2);
        let nothing = Place::inputs(&format!("{}/*.gz", folder.path().display())).await;
        assert_eq!(nothing.expect_err("nothing there").kind(), ErrorKind::FixInput);
    }

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        let url = url::Url::parse("https://user:secret@host/data?X-Amz-Signature=abc").expect("a URL");
        assert_eq!(without_password(&url), "https://host/data");
    }
}
