//! Tests against real servers: every one of `REDLATCH_TEST_SERVERS`, or those of the `PATH`.

mod addresses;
mod answers;
mod clock_set;
mod clocks;
mod connections;
mod cost;
mod death;
mod every_kind;
mod full;
mod latch;
mod late;
mod lifecycle;
mod lost_replies;
mod pool;
mod proxy;
mod random;
mod refusals;
mod restart;
mod rights;
mod rwlock;
mod sleep;
mod slots;
mod stop;
mod support;
mod topology;
