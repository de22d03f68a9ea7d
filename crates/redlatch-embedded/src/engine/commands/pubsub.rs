//! `PUBLISH`, `SUBSCRIBE`, `UNSUBSCRIBE` and their sharded counterparts.

use redlatch_core::runtime::Reply;

use crate::engine::{
    call::{Call, count, ok},
    pubsub::ChannelKind,
    table::SHARDED,
};

pub(in crate::engine) fn publish(call: &mut Call<'_>) -> Reply {
    let (kind, channel, payload) = (kind(call), call.args[1], call.args[2]);
    Ok(count(call.core.pubsub.publish(kind, channel, payload)))
}

pub(in crate::engine) fn subscribe(call: &mut Call<'_>) -> Reply {
    let kind = kind(call);
    for channel in &call.args[1..] {
        call.core.pubsub.subscribe(call.session, kind, channel);
    }
    ok()
}

pub(in crate::engine) fn unsubscribe(call: &mut Call<'_>) -> Reply {
    let kind = kind(call);
    let channels = match &call.args[1..] {
        [] => call.core.pubsub.channels_of(call.session, kind),
        named => named.iter().map(|channel| channel.to_vec()).collect(),
    };
    for channel in &channels {
        call.core.pubsub.unsubscribe(call.session, kind, channel);
    }
    ok()
}

fn kind(call: &Call<'_>) -> ChannelKind {
    match call.spec.has(SHARDED) {
        true => ChannelKind::Sharded,
        false => ChannelKind::Global,
    }
}
