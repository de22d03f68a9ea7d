//! One side of a read-write lock, as a member of a lock over several.

use redlatch_core::{Error, Lockable, Member};

use crate::{ReadWriteLock, kind::Way};

/// The read side or the write side of a read-write lock, as a member of a multi-lock.
/// [`ReadWriteLock::read_side`] and [`ReadWriteLock::write_side`] return a side.
///
/// The upgradable side cannot be a member. An upgrade waits for readers while the other members are
/// held, outside of the common order, and could deadlock. Take the write side, or upgrade before
/// you acquire the others.
#[derive(Clone, Debug)]
pub struct ReadWriteSide {
    lock: ReadWriteLock,
    way: Way,
}

impl ReadWriteLock {
    /// Returns the read side, as a member of a multi-lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (prices, report) = (client.read_write_lock("prices"), client.lock("report"));
    /// let guard = client.multi_lock(&[&prices.read_side(), &report]).lock().await?;
    /// assert!(prices.try_read().await?.is_some(), "others may read the prices");
    /// assert!(report.try_lock().await?.is_none());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_side(&self) -> ReadWriteSide {
        self.side(Way::Read)
    }

    /// Returns the write side, as a member of a multi-lock. The write side includes the read side:
    /// if both are members, only the write side is acquired.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (prices, report) = (client.read_write_lock("prices"), client.lock("report"));
    /// let guard = client.multi_lock(&[&prices.write_side(), &report]).lock().await?;
    /// assert!(prices.try_read().await?.is_none());
    /// assert!(guard.token("prices").is_some()); // the token of the write
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_side(&self) -> ReadWriteSide {
        self.side(Way::Write)
    }

    fn side(&self, way: Way) -> ReadWriteSide {
        ReadWriteSide {
            lock: self.clone(),
            way,
        }
    }
}

impl Lockable for ReadWriteSide {
    fn member(&self) -> Result<Member, Error> {
        let side = self.lock.hold(self.way.clone())?;
        Ok(Member::new(self.lock.client(), side).side_of("read_write_lock"))
    }
}
