//! One side of a read-write lock, as a member of a lock over several.

use redlatch_core::{Error, Lockable, Member};

use crate::{ReadWriteLock, kind::Way};

/// The read side or the write side of a read-write lock, to be a member of a lock over several:
/// what [`ReadWriteLock::read_side`] and [`ReadWriteLock::write_side`] give.
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
    /// Returns its read side, as a member of a lock over several. Does no I/O.
    pub fn read_side(&self) -> ReadWriteSide {
        self.side(Way::Read)
    }

    /// Returns its write side, as a member of a lock over several. Does no I/O. It includes the
    /// read side: if both are members, only this one is acquired.
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
