//! The permit-expirable semaphore.

pub mod behaviour;
pub mod many;

modules! { permits:
    behaviour as permits_behaviour,
    many as permits_many,
}
