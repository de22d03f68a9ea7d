//! `PUBLISH`, `SUBSCRIBE` and their sharded counterparts.

use redlatch_core::runtime::Reply;

use crate::engine::{
    call::{Call, count, ok},
    pubsub::ChannelKind,
};

pub(in crate::engine) fn publish(call: &mut Call<'_>) -> Reply {
    let heard = call
        .core
        .pubsub
        .publish(ChannelKind::Global, call.args[1], call.args[2]);
    Ok(count(heard))
}

pub(in crate::engine) fn spublish(call: &mut Call<'_>) -> Reply {
    let heard = call
        .core
        .pubsub
        .publish(ChannelKind::Sharded, call.args[1], call.args[2]);
    Ok(count(heard))
}

pub(in crate::engine) fn subscribe(call: &mut Call<'_>) -> Reply {
    subscribe_to(call, ChannelKind::Global)
}

pub(in crate::engine) fn ssubscribe(call: &mut Call<'_>) -> Reply {
    subscribe_to(call, ChannelKind::Sharded)
}

pub(in crate::engine) fn unsubscribe(call: &mut Call<'_>) -> Reply {
    unsubscribe_from(call, ChannelKind::Global)
}

pub(in crate::engine) fn sunsubscribe(call: &mut Call<'_>) -> Reply {
    unsubscribe_from(call, ChannelKind::Sharded)
}

fn subscribe_to(call: &mut Call<'_>, kind: ChannelKind) -> Reply {
    for channel in &call.args[1..] {
        call.core.pubsub.subscribe(call.session, kind, channel);
    }
    ok()
}

fn unsubscribe_from(call: &mut Call<'_>, kind: ChannelKind) -> Reply {
    let channels = match &call.args[1..] {
        [] => call.core.pubsub.channels_of(call.session, kind),
        named => named.iter().map(|channel| channel.to_vec()).collect(),
    };
    for channel in &channels {
        call.core.pubsub.unsubscribe(call.session, kind, channel);
    }
    ok()
}
