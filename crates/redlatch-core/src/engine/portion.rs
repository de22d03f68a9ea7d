//! Units of a hold: what guards that can be split are made of.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{Held, PendingRelease, Released, release};
use crate::{
    Error,
    base::{rules::Rule, sync::lock},
};

/// Some of the units of one hold. Dropping it gives them back in the background; the hold lasts
/// until the last of them has gone.
///
/// What a request tells the server is how many units stay, and how many are gone for good since the
/// hold began. One only falls and the other only rises, so that requests about several portions may
/// arrive in any order, and any number of times.
#[must_use = "a portion that is dropped is given back"]
pub struct Portion {
    stock: Arc<Stock>,
    units: u32,
}

/// A hold that portions share.
struct Stock {
    held: Held,
    tally: Mutex<Tally>,
}

/// What is left of a hold.
struct Tally {
    units: u32,
    forgotten: u32,
}

impl Portion {
    /// Takes all units of a hold.
    pub fn new(held: Held) -> Self {
        let units = held.units();
        let tally = Tally {
            units,
            forgotten: 0,
        };
        let stock = Stock {
            held,
            tally: Mutex::new(tally),
        };
        Self {
            stock: Arc::new(stock),
            units,
        }
    }

    /// Returns how many units it has.
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Takes `units` away into a portion of their own; `None` if it has not more than that. Asks
    /// nobody.
    pub fn split(&mut self, units: u32) -> Option<Self> {
        self.units = self.units.checked_sub(units).filter(|&left| left > 0)?;
        Some(Self {
            stock: Arc::clone(&self.stock),
            units,
        })
    }

    /// Takes in another portion of the same hold; gives it back if it is of another. Asks nobody.
    pub fn merge(&mut self, mut other: Self) -> Option<Self> {
        if !Arc::ptr_eq(&self.stock, &other.stock) {
            return Some(other);
        }
        self.units += std::mem::take(&mut other.units);
        None
    }

    /// Gives its units back and says what became of it. Costs one command.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it goes on in the background.
    pub async fn release(mut self) -> Result<Released, Error> {
        match self.take_release(Fate::Back) {
            Some(pending) => release::run(self.client(), pending).await,
            None => Ok(Released::Free),
        }
    }

    /// Gives its units up for good: the object has so many less. Costs one command.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it goes on in the background.
    pub async fn forget(mut self) -> Result<Released, Error> {
        match self.take_release(Fate::Gone) {
            Some(pending) => release::run(self.client(), pending).await,
            None => Ok(Released::Free),
        }
    }

    /// Takes its units off the tally; the returned release tells the server. `None` if it has none.
    fn take_release(&mut self, fate: Fate) -> Option<PendingRelease> {
        let units = std::mem::take(&mut self.units);
        if units == 0 {
            return None;
        }
        let held = &self.stock.held;
        let mut tally = self.stock.tally();
        tally.units -= units;
        if fate == Fate::Gone {
            tally.forgotten += units;
            held.forget(tally.forgotten);
        }
        Some(match tally.units {
            0 => held.take_release(),
            left => held.pending_release(left),
        })
    }
}

/// What becomes of units.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Back,
    Gone,
}

impl Stock {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        lock(&self.tally)
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        if let Some(pending) = self.take_release(Fate::Back)
            && self.client().keeps(Rule::ReleaseOnDrop)
        {
            self.client().enqueue_release(pending);
        }
    }
}

/// Its hold.
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
