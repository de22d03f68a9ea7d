//! The fence.

use async_trait::async_trait;
use redlatch::{Client, Token, fence::FencedScript};

use super::{Call, Kind, Wait, calls};

/// The fence. Nobody waits for one.
#[derive(Debug)]
pub(super) struct Fence;

#[async_trait]
impl Kind for Fence {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let fence = clients[0].fence("redlatch:fence-data");
        let token = Token::from_u64(1);
        let script = FencedScript::new("return ARGV[1]");
        calls! {
            "set": |fence| fence.set(token, "a");
            "set_for": |fence| fence.set_for(token, "a", super::LONG);
            "delete": |fence| fence.delete(token);
            "hset": |fence| fence.hset(token, &[("f", "v")]);
            "eval": |fence| fence.eval(token, script, &[], &[b"x"]);
            "raise": |fence| fence.raise(token);
            "mark": |fence| fence.mark();
            "reset": |fence| fence.reset();
        }
    }

    async fn waits(&self, _: &[Client], _: &[Client]) -> Vec<Wait> {
        Vec::new()
    }
}
