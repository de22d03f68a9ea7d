//! The scripts by themselves, on the embedded engine: replies and data against a model that forgets
//! nothing.

pub(crate) mod bed;
pub(crate) mod calls;
#[allow(dead_code, unreachable_pub, reason = "the simulator uses it all")]
#[path = "../../../../crates/redlatch-sim/src/workload/changes/model.rs"]
mod changes;
mod costs;
mod driver;
mod exact;
mod fence;
mod fuzz;
mod latch;
mod laws;
#[path = "../../../../crates/redlatch-sim/src/lent.rs"]
mod lent;
mod limit;
mod model;
mod once;
pub(crate) mod pool;
mod prelude;
mod queue;
mod rwlock;
mod spent;
