//! The fair lock.

pub mod dead;
pub mod full;
pub mod load;
pub mod order;
pub mod support;
pub mod surface;

modules! { fair:
    dead as fair_dead,
    load as fair_load,
    order as fair_order,
    surface as fair_surface,
}
