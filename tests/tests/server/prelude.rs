//! The imports of most of these tests.

pub(crate) use redlatch::{ClientBuilder, compat::Redisson};
pub(crate) use redlatch_behaviours::prelude::*;
pub(crate) use redlatch_lua::REENTRANT;
pub(crate) use redlatch_tests::{
    fixture::{assert_untouched, call, documented_rights, registered, waiting},
    proxy::{Pick, Then},
    server::{Connection, Replicated},
};

pub(crate) use crate::rights::{as_app, server_with};
