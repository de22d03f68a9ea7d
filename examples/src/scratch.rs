//! A folder that goes when its owner goes.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// A fresh folder among the system's temporary ones. Dropping it removes it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder.
    pub fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(format!("redlatch-example-{pid}-{number}"));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing depends on it, and the system clears its temporary folders sooner or later.
        let _ = fs::remove_dir_all(&self.0);
    }
}
