//! [`Append`]: a file that grows at its end, on this machine or in an object store.

use super::Place;
use crate::error::{Error, ErrorKind};
use std::{io, path::Path, time::Duration};
use tokio::{
    fs::{self, File, OpenOptions},
    io::AsyncWriteExt,
};

/// A new file that takes bytes at its end.
///
/// After an error nobody knows how much has reached the disk: a sync that failed once may succeed when repeated although
/// the bytes are lost. The file must then be given up, and is read with that in mind.
pub struct Append {
    place: Place,
    medium: Medium,
}

/// What differs between a disk and an object store.
enum Medium {
    Disk(File),
    /// Objects cannot grow: gathered here, and stored as a whole at the end.
    Object(Vec<u8>),
}

/// How large a file may grow and how long it may take, so that little is at stake and little is held in memory.
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    /// At most this many bytes.
    pub bytes: u64,
    /// At most this long; `None` where what was written is durable already.
    pub age: Option<Duration>,
}

impl Place {
    /// What suits the medium: on this machine each write is durable; an object is when it is finished, so it is kept
    /// small and young.
    pub fn growth(&self) -> Growth {
        match self.local {
            Some(_) => Growth { bytes: 64 << 20, age: None },
            None => Growth { bytes: 8 << 20, age: Some(Duration::from_secs(10)) },
        }
    }
}

impl Append {
    /// Makes the file, which must not be there yet, and its folder.
    ///
    /// # Errors
    /// `FixStore` if it cannot be made.
    pub async fn create(place: Place) -> Result<Append, Error> {
        let medium = match &place.local {
            Some(path) => Medium::Disk(create(path).await.map_err(|error| cannot_write(&place, error))?),
            None => Medium::Object(Vec::new()),
        };
        Ok(Append { place, medium })
    }

    /// Adds bytes at the end. On this machine they are durable when this returns, in an object store with
    /// [`Append::finish`].
    ///
    /// # Errors
    /// `FixStore` if they cannot be written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.medium {
            Medium::Disk(file) => write(file, bytes).await.map_err(|error| cannot_write(&self.place, error)),
            Medium::Object(gathered) => {
                gathered.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Ends the file; all of it is durable.
    ///
    /// # Errors
    /// `FixStore` if an object cannot be stored, or is there already: another process works in the same folder.
    pub async fn finish(self) -> Result<(), Error> {
        let Medium::Object(gathered) = self.medium else { return Ok(()) };
        if self.place.create(gathered).await? {
            return Ok(());
        }
        Err(cannot_write(&self.place, io::ErrorKind::AlreadyExists.into()))
    }
}

/// Makes the file and its folder; both names are durable when this returns.
async fn create(path: &Path) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).await?;
    let file = OpenOptions::new().write(true).create_new(true).open(path).await?;
    for folder in folder.ancestors().take(2) {
        File::open(folder).await?.sync_all().await?;
    }
    Ok(file)
}

async fn write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes).await?;
    // Tokio's files write behind: only a flush says whether it went well.
    file.flush().await?;
    file.sync_data().await
}

fn cannot_write(place: &Place, error: io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::AlreadyExists => "another process works there: stop one of the two",
        _ => "make room or give permission",
    };
    let message = format!("cannot write {place}: {advice}, then run the same command again");
    Error::new(ErrorKind::FixStore, message).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same folder as a disk, and as an object store would be used.
    fn places(folder: &tempfile::TempDir) -> [Place; 2] {
        let disk = Place::parse(folder.path().to_str().expect("utf-8")).expect("a place");
        let object = Place { local: None, ..disk.clone() };
        [disk.join("journal/0.seg"), object.join("journal/1.seg")]
    }

    #[tokio::test]
    async fn a_file_grows_and_is_never_made_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        for place in places(&folder) {
            let write = async || {
                let mut file = Append::create(place.clone()).await?;
                file.write(b"one ").await?;
                file.write(b"two").await?;
                file.finish().await
            };
            write().await.expect("writes");
            let error = write().await.expect_err("it is there already");
            assert!(error.to_string().contains("another process"), "{error}");
            assert_eq!(place.read().await.expect("reads").as_deref(), Some(&b"one two"[..]));
            assert_eq!(place.read_range(4..7).await.expect("reads"), "two");
        }
    }

    #[tokio::test]
    async fn on_this_machine_what_is_written_is_there_before_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let [place, _] = places(&folder);
        let mut file = Append::create(place.clone()).await.expect("makes it");
        file.write(b"one").await.expect("writes");
        drop(file);
        assert_eq!(place.read().await.expect("reads").as_deref(), Some(&b"one"[..]));
    }
}
