//! The loops: acquire, renew, release. What they decide is in `protocol`, what they send is the primitives'.

mod acquire;
mod attempt;
mod guard;
mod hold;
mod release;
mod releaser;
mod turns;
mod watchdog;

pub use acquire::{AcquireOptions, OwnerChoice, Wait};
pub use guard::Held;
pub(crate) use guard::invalid_lease;
pub(crate) use hold::{Hold, Holds};
pub use release::Released;
pub(crate) use releaser::{Parting, Releaser};
pub(crate) use turns::{Place, Turns};
pub(crate) use watchdog::Watchdog;
