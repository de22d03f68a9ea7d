//! Pushes of a server, and the detection of a connection's end.

use async_trait::async_trait;
use redis::{
    PushInfo, PushKind,
    aio::{AsyncPushSender, SendError},
};
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender},
    watch,
};

use super::value;
use crate::runtime::{Push, Pushes};

/// Whether a connection is known to be gone. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(super) struct Gone(watch::Sender<bool>);

impl Gone {
    /// Marks the connection as gone. No further command is sent over it.
    pub(super) fn mark(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn is(&self) -> bool {
        *self.0.borrow()
    }

    pub(super) async fn wait(&self) {
        // This wait cannot fail, because `self` is a sender.
        let _ = self.0.subscribe().wait_for(|gone| *gone).await;
    }
}

/// The receiver of the crate's pushes. It lives in the socket task, and its drop shows the end of
/// the connection. That includes cases in which the crate reports no disconnection: a write that
/// timed out, or an aborted task.
pub(super) struct PushSink {
    gone: Gone,
    queue: Option<UnboundedSender<Push>>,
}

impl PushSink {
    /// Creates a sink. Without a `queue` it only detects the end of the connection.
    pub(super) fn new(gone: Gone, queue: Option<UnboundedSender<Push>>) -> Self {
        Self { gone, queue }
    }
}

impl AsyncPushSender for PushSink {
    fn send(&self, info: PushInfo) -> Result<(), SendError> {
        if info.kind == PushKind::Disconnection {
            self.gone.mark();
        } else if let Some(queue) = &self.queue
            && let Some(push) = value::push(info)
        {
            // A missing receiver is no error of the connection.
            let _ = queue.send(push);
        }
        Ok(())
    }
}

impl Drop for PushSink {
    fn drop(&mut self) {
        self.gone.mark();
    }
}

/// The pushes of a command connection: none, followed by the end.
#[derive(Debug)]
pub(super) struct CommandPushes {
    gone: watch::Receiver<bool>,
}

impl CommandPushes {
    pub(super) fn new(gone: &Gone) -> Self {
        Self {
            gone: gone.0.subscribe(),
        }
    }
}

#[async_trait]
impl Pushes for CommandPushes {
    async fn next(&mut self) -> Option<Push> {
        // An error says that the connection was dropped.
        let _ = self.gone.wait_for(|gone| *gone).await;
        None
    }
}

/// The pushes of a RESP3 pub/sub connection, in order of arrival.
///
/// The queue has no bound. The task that fills it must not wait, and a dropped push would be lost.
#[derive(Debug)]
pub(super) struct QueuedPushes {
    queue: UnboundedReceiver<Push>,
}

impl QueuedPushes {
    pub(super) fn new(queue: UnboundedReceiver<Push>) -> Self {
        Self { queue }
    }
}

#[async_trait]
impl Pushes for QueuedPushes {
    async fn next(&mut self) -> Option<Push> {
        self.queue.recv().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::mpsc;

    use super::*;

    fn info(kind: PushKind, data: &[&str]) -> PushInfo {
        let data = data
            .iter()
            .map(|s| redis::Value::BulkString(s.as_bytes().to_vec()))
            .collect();
        PushInfo { kind, data }
    }

    #[test]
    fn queued_pushes_come_in_order_and_end_with_the_sink() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let gone = Gone::default();
        let sink = PushSink::new(gone.clone(), Some(sender));
        let mut pushes = QueuedPushes::new(receiver);
        assert_eq!(pushes.next().now_or_never(), None);

        sink.send(info(PushKind::Subscribe, &["a"])).unwrap();
        sink.send(info(PushKind::Invalidate, &["k"])).unwrap();
        sink.send(info(PushKind::Message, &["a", "hi"])).unwrap();
        sink.send(info(PushKind::Disconnection, &[])).unwrap();
        assert!(gone.is());
        drop(sink);

        let hi = Push::Message {
            channel: b"a".to_vec(),
            payload: b"hi".to_vec(),
        };
        assert_eq!(
            pushes.next().now_or_never(),
            Some(Some(Push::Subscribed(b"a".to_vec())))
        );
        assert_eq!(pushes.next().now_or_never(), Some(Some(hi)));
        assert_eq!(pushes.next().now_or_never(), Some(None));
        assert_eq!(pushes.next().now_or_never(), Some(None));
    }

    #[test]
    fn a_command_connection_ends_when_its_driver_ends() {
        let gone = Gone::default();
        let mut pushes = CommandPushes::new(&gone);
        let sink = PushSink::new(gone.clone(), None);
        assert_eq!(pushes.next().now_or_never(), None);
        assert!(!gone.is());
        drop(sink);
        assert!(gone.is());
        assert_eq!(pushes.next().now_or_never(), Some(None));
        assert_eq!(pushes.next().now_or_never(), Some(None));
    }

    #[test]
    fn a_resp2_command_connection_ends_when_it_is_dropped() {
        let gone = Gone::default();
        let mut pushes = CommandPushes::new(&gone);
        assert_eq!(pushes.next().now_or_never(), None);
        drop(gone);
        assert_eq!(pushes.next().now_or_never(), Some(None));
    }
}
