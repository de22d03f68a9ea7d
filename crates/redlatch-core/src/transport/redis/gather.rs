//! Requests that are written together.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many calls of a connection are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Arc<AtomicUsize>);

impl Calls {
    /// Counts one more, until what is returned is dropped.
    pub(super) fn begin(&self) -> Call<'_> {
        self.0.fetch_add(1, Relaxed);
        Call(self)
    }

    fn are_many(&self) -> bool {
        self.0.load(Relaxed) >= MANY
    }
}

/// A call that is under way.
#[derive(Debug)]
pub(super) struct Call<'a>(&'a Calls);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

/// With so many calls under way, another is likely to be ready as well.
const MANY: usize = 4;

/// A socket that lets requests gather while many calls are under way.
///
/// tokio runs the task that drives a socket right behind the one that has just handed it a request, so that each
/// request would cost a system call of its own, a packet, and at the server a read. Here a write steps back once behind
/// all tasks that are ready to run; what they send goes with it. With few calls under way nothing is ever held up.
#[derive(Debug)]
pub(super) struct Gathering<S> {
    socket: S,
    calls: Calls,
    /// Whether this write has stepped back.
    stepped: bool,
}

impl<S> Gathering<S> {
    pub(super) fn new(socket: S, calls: Calls) -> Self {
        Self {
            socket,
            calls,
            stepped: false,
        }
    }

    /// Returns whether to write now.
    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        self.stepped = !self.stepped && self.calls.are_many();
        if self.stepped {
            cx.waker().wake_by_ref();
        }
        !self.stepped
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.is_due(cx) {
            return Poll::Pending;
        }
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes everything and counts the writes.
    #[derive(Debug, Default)]
    struct Counter(usize);

    impl AsyncWrite for Counter {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0 += 1;
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn is_written(socket: &mut Gathering<Counter>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let before = socket.socket.0;
        let wrote = Pin::new(&mut *socket).poll_write(&mut context, b"x");
        assert_eq!(wrote.is_ready(), socket.socket.0 == before + 1);
        wrote.is_ready()
    }

    #[test]
    fn few_calls_are_never_held_up() {
        let calls = Calls::default();
        let _under_way: Vec<_> = (1..MANY).map(|_| calls.begin()).collect();
        let mut socket = Gathering::new(Counter::default(), calls.clone());
        for _ in 0..3 {
            assert!(is_written(&mut socket));
        }
    }

    #[test]
    fn many_calls_step_back_once_for_each_write() {
        let calls = Calls::default();
        let mut under_way: Vec<_> = (0..MANY).map(|_| calls.begin()).collect();
        let mut socket = Gathering::new(Counter::default(), calls.clone());
        for _ in 0..3 {
            assert!(!is_written(&mut socket));
            assert!(is_written(&mut socket));
        }
        assert!(!is_written(&mut socket));
        under_way.pop();
        assert!(is_written(&mut socket), "it had stepped back");
        assert!(is_written(&mut socket), "the others are few now");
    }
}
