//! The imports of most of these tests.

pub(crate) use std::{fs, time::Duration};

pub(crate) use redlatch::{Client, LossCause};
pub(crate) use serde_json::json;

pub(crate) use crate::{
    support::{
        Args, GENEROUS, REDLATCH, World, finished, has, json, output, pid_of, read_lines, sh,
        signal,
    },
    terminal::Terminal,
    world::{TAKES, ended_by, is_alive, lose_replies, suspend, until},
};
