//! The plain lock.

pub mod behaviour;
pub mod loss;
pub mod waiting;
pub mod wrong_input;

modules! { lock:
    behaviour as lock_behaviour,
    loss as lock_loss,
    waiting as lock_waiting,
    wrong_input as lock_wrong_input,
}
