//! Units of a hold, for guards that can be split.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

use super::{Held, PendingRelease, Released, context::ReleaseTicket, release};
use crate::{
    Error,
    base::sync::{Mutex, lock},
};

/// Some of the units of one hold. Dropping it gives them back in the background. The hold lasts
/// until its last portion is dropped.
///
/// A request tells the server how many units remain, and how many are permanently gone since the
/// hold began. The first number only falls and the second only rises. Requests about several
/// portions may therefore arrive in any order and any number of times.
#[must_use = "a portion that is dropped is given back"]
pub struct Portion {
    stock: Arc<Stock>,
    units: u32,
}

/// A hold that portions share.
struct Stock {
    held: Held,
    /// The number of units that are left of the hold.
    left: Mutex<u32>,
}

impl Portion {
    /// Creates a portion with all units of a hold.
    pub fn new(held: Held) -> Self {
        let units = held.units();
        let left = Mutex::new(units);
        let stock = Arc::new(Stock { held, left });
        Self { stock, units }
    }

    /// Returns the number of its units.
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Moves `units` into a new portion. Returns `None` unless this portion has more than `units`.
    /// Sends no request.
    pub fn split(&mut self, units: u32) -> Option<Self> {
        self.units = self.units.checked_sub(units).filter(|&left| left > 0)?;
        Some(Self {
            stock: Arc::clone(&self.stock),
            units,
        })
    }

    /// Merges another portion of the same hold into this one. Returns `other` if it belongs to
    /// another hold. Sends no request.
    pub fn merge(&mut self, mut other: Self) -> Option<Self> {
        if !Arc::ptr_eq(&self.stock, &other.stock) {
            return Some(other);
        }
        self.units += std::mem::take(&mut other.units);
        None
    }

    /// Gives its units back and returns the outcome. Costs one command.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release continues in the background.
    pub async fn release(self) -> Result<Released, Error> {
        self.end(false).await
    }

    /// Gives its units up permanently: the capacity of the object falls by their number. Costs one
    /// command.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request continues in the background.
    pub async fn forget(self) -> Result<Released, Error> {
        self.end(true).await
    }

    async fn end(mut self, forgets: bool) -> Result<Released, Error> {
        let client = self.client().clone();
        client.check_process()?;
        let ticket = ReleaseTicket::new(&client);
        match self.take_release(forgets) {
            Some(pending) => release::run(ticket, pending, None).await,
            None => Ok(Released::Free),
        }
    }

    /// Takes its units from the hold, which `forgets` them if they are permanently gone. The
    /// returned release informs the server. `None` if this portion has no units.
    fn take_release(&mut self, forgets: bool) -> Option<PendingRelease> {
        let units = std::mem::take(&mut self.units);
        if units == 0 {
            return None;
        }
        let held = &self.stock.held;
        let mut left = lock(&self.stock.left);
        *left -= units;
        if forgets {
            held.forget(units);
        }
        Some(match *left {
            0 => held.take_release(),
            left => held.pending_release(left),
        })
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        let client = self.client().clone();
        // In a fork, another thread of the parent may have held the locks that this takes.
        if client.0.life().is_forked() {
            return;
        }
        let ticket = ReleaseTicket::new(&client);
        if let Some(pending) = self.take_release(false) {
            client.release_dropped(ticket, pending);
        }
    }
}

impl Borrow<Held> for Portion {
    fn borrow(&self) -> &Held {
        &self.stock.held
    }
}

/// Gives access to the hold.
impl Deref for Portion {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.stock.held
    }
}

impl fmt::Debug for Portion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Portion")
            .field("units", &self.units)
            .field("held", &self.stock.held)
            .finish()
    }
}
