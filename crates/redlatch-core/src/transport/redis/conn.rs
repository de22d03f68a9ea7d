//! One connection: what is to be written, which commands have no reply yet, and the task that reads
//! and writes.

#[cfg(test)]
#[cfg(shuttle)]
#[path = "conn/tests/threads.rs"]
mod threads;

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt, AsyncWrite},
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
};

use super::{
    error::{self, Step},
    resp::{self, Decoder, Item, Malformed},
    stream::Stream,
};
use crate::{
    base::sync::{Mutex, lock},
    runtime::{
        Command, DialError, DialErrorKind, INVALIDATED, Outcome, Purpose, Push, Pushes, Reply,
        Value,
    },
};

/// A connection. It closes when this handle is dropped.
///
/// A call writes its bytes at once while few calls are under way and the socket is free. Otherwise
/// the task of the connection writes those of all calls that are ready, after it has yielded to
/// them once. A system call, a packet and a read at the server cost more than a short command.
///
/// # Cancel safety
///
/// A dropped call keeps its place in the queue of replies, so that the replies of other callers do
/// not shift.
pub(super) struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    purpose: Purpose,
    queue: Mutex<Queue>,
    /// Locked before the queue. Nothing waits for this lock to send a command.
    socket: Mutex<Socket>,
}

/// The part that callers and the task of the connection share.
struct Queue {
    /// Bytes that the socket has to write.
    out: Vec<u8>,
    /// The number of all bytes that were ever in `out`.
    bytes: u64,
    /// The calls without all of their replies, the oldest first.
    under_way: VecDeque<Call>,
    /// Where pushes go; absent once the connection is closed.
    pushes: Option<UnboundedSender<Push>>,
    /// Why the connection is closed, once it is.
    closed: Option<DialError>,
    /// Wakes the task of the connection.
    task: Waker,
}

#[derive(Default)]
struct Socket {
    /// Absent once the connection is closed.
    stream: Option<Box<dyn Stream>>,
    decoder: Decoder,
    /// Bytes that are being written; the first `sent` of them have been.
    writing: Vec<u8>,
    sent: usize,
    /// The number of all bytes that were ever written.
    written: u64,
    /// Whether the task has yielded since there are bytes that it has to write.
    yielded: bool,
    /// Why the task has to end the connection.
    failed: Option<io::Error>,
}

/// A call with replies to come.
struct Call {
    /// The position of its first byte in all that is ever written.
    begins: u64,
    /// The replies to come: for each command one, the next one last.
    awaited: Vec<Awaited>,
    replies: Vec<Reply>,
    answer: oneshot::Sender<Vec<Outcome>>,
}

/// What answers one command: this push, or an error. `None` stands for any reply.
pub(super) type Awaited = Option<Push>;

impl Connection {
    /// Begins to read and write. The caller is on the tokio runtime of the socket.
    #[expect(
        clippy::disallowed_methods,
        reason = "the task belongs to tokio's runtime like the socket, not to redlatch's runtime"
    )]
    pub(super) fn start(
        stream: Box<dyn Stream>,
        purpose: Purpose,
    ) -> (Self, UnboundedReceiver<Push>) {
        let (connection, pushes, task) = Self::new(stream, purpose);
        tokio::spawn(task);
        (connection, pushes)
    }

    /// Returns a connection, its pushes, and its task, which reads and writes.
    fn new(
        stream: Box<dyn Stream>,
        purpose: Purpose,
    ) -> (Self, UnboundedReceiver<Push>, impl Future<Output = ()>) {
        let (sender, pushes) = unbounded_channel();
        let shared = Arc::new(Shared {
            purpose,
            queue: Mutex::new(Queue {
                out: Vec::new(),
                bytes: 0,
                under_way: VecDeque::new(),
                pushes: Some(sender),
                closed: None,
                task: Waker::noop().clone(),
            }),
            socket: Mutex::new(Socket {
                stream: Some(stream),
                ..Socket::default()
            }),
        });
        let end = End(Arc::clone(&shared));
        let task = async move { poll_fn(|cx| end.0.poll(cx)).await };
        (Self { shared }, pushes, task)
    }

    pub(super) fn purpose(&self) -> Purpose {
        self.shared.purpose
    }

    /// Returns why the connection is closed, if it is.
    pub(super) fn closed(&self) -> Option<DialError> {
        lock(&self.shared.queue).closed.clone()
    }

    /// Sends commands with no other command between them, and returns one outcome for each. None of
    /// them is empty.
    pub(super) async fn exchange(&self, commands: &[Command]) -> Vec<Outcome> {
        self.call(commands, vec![None; commands.len()]).await
    }

    /// Sends commands and waits for what each is answered by.
    pub(super) async fn call(
        &self,
        commands: &[Command],
        mut awaited: Vec<Awaited>,
    ) -> Vec<Outcome> {
        let count = commands.len();
        if count == 0 {
            return Vec::new();
        }
        awaited.reverse();
        let (answer, answered) = oneshot::channel();
        {
            let mut queue = lock(&self.shared.queue);
            if let Some(closed) = &queue.closed {
                return vec![Outcome::NotSent(closed.message.clone()); count];
            }
            let begins = queue.bytes;
            let before = queue.out.len();
            let out = &mut queue.out;
            commands
                .iter()
                .for_each(|command| resp::encode(command, out));
            queue.bytes += (queue.out.len() - before) as u64;
            queue.under_way.push_back(Call {
                begins,
                awaited,
                replies: Vec::with_capacity(count),
                answer,
            });
            let few = queue.under_way.len() < MANY;
            let task = (few || before == 0).then(|| queue.task.clone());
            drop(queue);
            if let Some(task) = task {
                let socket = few.then(|| self.shared.socket.try_lock().ok()).flatten();
                match socket {
                    Some(mut socket) => {
                        // The task may have begun to run since.
                        let task = lock(&self.shared.queue).task.clone();
                        socket.write(&self.shared, &mut Context::from_waker(&task));
                    }
                    None => task.wake(),
                }
            }
        }
        // Each call is answered when the connection ends, at the latest.
        let lost = || vec![Outcome::Unknown(NO_ANSWER.to_owned()); count];
        answered.await.unwrap_or_else(|_| lost())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close(ended(NO_ANSWER));
    }
}

impl Shared {
    /// Reads and writes all that is possible. Ready when the connection is closed.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let many = {
            let mut queue = lock(&self.queue);
            if !queue.task.will_wake(cx.waker()) {
                queue.task = cx.waker().clone();
            }
            !queue.out.is_empty() && queue.under_way.len() >= MANY
        };
        let mut socket = lock(&self.socket);
        if many && !socket.yielded {
            socket.yielded = true;
            cx.waker().wake_by_ref();
        } else {
            socket.write(self, cx);
        }
        let mut answered = Vec::new();
        let closed = socket.read(self, cx, &mut answered);
        drop(socket);
        // Outside of all locks: this wakes callers.
        answered.into_iter().for_each(Call::end);
        self.close(ready!(closed));
        Poll::Ready(())
    }

    /// Closes the connection, unless it is closed.
    fn close(&self, closed: DialError) {
        let why = closed.message.clone();
        let (stream, pushes, calls, written) = {
            let mut socket = lock(&self.socket);
            let mut queue = lock(&self.queue);
            if queue.closed.is_some() {
                return;
            }
            queue.closed = Some(closed);
            let calls = std::mem::take(&mut queue.under_way);
            queue.task.wake_by_ref();
            (
                socket.stream.take(),
                queue.pushes.take(),
                calls,
                socket.written,
            )
        };
        drop((stream, pushes));
        calls.into_iter().for_each(|call| call.fail(written, &why));
    }
}

impl Socket {
    /// Reads all that has arrived. Returns why the connection ends, once it does.
    fn read(
        &mut self,
        shared: &Shared,
        cx: &mut Context<'_>,
        answered: &mut Vec<Call>,
    ) -> Poll<DialError> {
        loop {
            let Some(stream) = &mut self.stream else {
                return Poll::Ready(ended(NO_ANSWER));
            };
            match pin!(stream.read_buf(self.decoder.room(PORTION))).poll(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(ended(NO_ANSWER)),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(failed)) => return Poll::Ready(error::failure(failed)),
                // All bytes that arrived before a write failed have been read. They may say why.
                Poll::Pending => match self.failed.take() {
                    Some(failed) => return Poll::Ready(error::failure(failed)),
                    None => return Poll::Pending,
                },
            }
            if let Err(closed) = self.hand_over(shared, answered) {
                return Poll::Ready(closed);
            }
        }
    }

    /// Gives the items that have arrived to the queue.
    fn hand_over(&mut self, shared: &Shared, answered: &mut Vec<Call>) -> Result<(), DialError> {
        let mut queue = lock(&shared.queue);
        loop {
            match self.decoder.next() {
                Ok(Some(item)) => queue.take(item, shared.purpose, answered)?,
                Ok(None) => return Ok(()),
                Err(Malformed(why)) => return Err(foreign(&why)),
            }
        }
    }

    /// Writes what the socket takes. The task is woken when it takes more, or has failed.
    fn write(&mut self, shared: &Shared, cx: &mut Context<'_>) {
        if let Poll::Ready(Err(failed)) = self.poll_write(shared, cx) {
            self.failed = Some(failed);
            cx.waker().wake_by_ref();
        }
    }

    fn poll_write(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Ok(()));
        };
        let mut stream = Pin::new(stream);
        loop {
            if self.sent == self.writing.len() {
                self.writing.clear();
                self.writing.shrink_to(PORTION);
                self.sent = 0;
                self.yielded = false;
                std::mem::swap(&mut self.writing, &mut lock(&shared.queue).out);
            }
            if self.writing.is_empty() {
                return stream.poll_flush(cx);
            }
            let end = self.writing.len().min(self.sent + PORTION);
            match ready!(
                stream
                    .as_mut()
                    .poll_write(cx, &self.writing[self.sent..end])
            )? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => {
                    self.sent += written;
                    self.written += written as u64;
                }
            }
        }
    }
}

impl Queue {
    /// Gives an item to the call or the listener that it is for.
    fn take(
        &mut self,
        item: Item,
        purpose: Purpose,
        answered: &mut Vec<Call>,
    ) -> Result<(), DialError> {
        let push = match (&item, purpose) {
            (Item::Push(items), _) => resp::told(items),
            // RESP2 has no pushes.
            (Item::Reply(Ok(Value::Array(items))), Purpose::PubSub) => resp::told(items),
            _ => None,
        };
        let reply = match (push, item) {
            (Some(push), _) => {
                let awaited = self.under_way.front().and_then(|call| call.awaited.last());
                let confirmed = awaited.is_some_and(|awaited| awaited.as_ref() == Some(&push));
                let wanted = match &push {
                    _ if purpose == Purpose::PubSub => true,
                    Push::Message { channel, .. } => channel == INVALIDATED.as_bytes(),
                    _ => false,
                };
                if let Some(pushes) = self.pushes.as_ref().filter(|_| wanted) {
                    // A missing receiver is no failure of the connection.
                    let _ = pushes.send(push);
                }
                if !confirmed {
                    return Ok(());
                }
                Ok(Value::Nil)
            }
            (None, Item::Push(_)) => return Ok(()),
            (None, Item::Reply(reply)) => reply,
        };
        let Some(call) = self.under_way.front_mut() else {
            return Err(match reply {
                // A server says so to a connection that it does not accept.
                Err(refused) => error::of_server(&refused, Step::Login),
                Ok(_) => foreign("a reply without a command"),
            });
        };
        call.awaited.pop();
        call.replies.push(reply);
        if call.awaited.is_empty() {
            answered.extend(self.under_way.pop_front());
        }
        Ok(())
    }
}

/// Returns why a connection is closed whose end is not the failure of the socket.
fn ended(why: &str) -> DialError {
    error::dial(DialErrorKind::Unreachable, why.to_owned())
}

fn foreign(why: &str) -> DialError {
    let message = format!("the answer is outside of the protocol: {why}");
    error::dial(DialErrorKind::Foreign, message)
}

impl Call {
    /// Gives the caller its replies, if it still waits.
    fn end(self) {
        let outcomes = self.replies.into_iter().map(Outcome::Replied);
        let _ = self.answer.send(outcomes.collect());
    }

    /// Gives the caller the replies that came, of which there are no more. `written` bytes have
    /// been written in all.
    fn fail(self, written: u64, why: &str) {
        let missing = match written <= self.begins {
            true => Outcome::NotSent(why.to_owned()),
            false => Outcome::Unknown(why.to_owned()),
        };
        let outcomes = self.replies.into_iter().map(Outcome::Replied);
        let missing = self.awaited.iter().map(|_| missing.clone());
        let _ = self.answer.send(outcomes.chain(missing).collect());
    }
}

/// The end of the task: without the task the connection is useless, however the task ended.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0
            .close(ended("the runtime of the connection has ended"));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way = lock(&self.shared.queue).under_way.len();
        f.debug_struct("Connection")
            .field("closed", &self.closed())
            .field("under_way", &under_way)
            .finish_non_exhaustive()
    }
}

/// The pushes of a connection, in order of arrival; none of a connection for commands.
///
/// The queue has no bound. The task that fills it must not wait, and a dropped push would be lost.
#[async_trait]
impl Pushes for UnboundedReceiver<Push> {
    async fn next(&mut self) -> Option<Push> {
        self.recv().await
    }
}

/// Why a connection without another cause is closed.
const NO_ANSWER: &str = "the connection closed before the answer";

/// Number of calls under way from which another call is likely to be ready.
const MANY: usize = 4;

/// The bytes that are read or written at once, at most, and those that a buffer keeps: one record
/// of TLS. A failed write of several records does not say which of them have left.
const PORTION: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use futures_util::{
        FutureExt,
        future::{BoxFuture, join, join_all},
    };
    use tokio::{
        io::{AsyncWriteExt, DuplexStream, duplex},
        task::{JoinHandle, yield_now},
    };

    use super::*;
    use crate::{
        runtime::{Command, Conn as _, ServerError},
        transport::redis::resp,
    };

    type Calls<'a> = Vec<BoxFuture<'a, Outcome>>;

    fn connection() -> (Connection, DuplexStream) {
        let (ours, theirs) = duplex(1 << 16);
        let (conn, _) = Connection::start(Box::new(ours), Purpose::Command);
        (conn, theirs)
    }

    /// Answers `SAY` with its argument, `FAIL` with an error, and `HANG` not at all. `END` ends the
    /// connection.
    #[expect(clippy::disallowed_methods, reason = "the server of a test is a task")]
    fn serve(socket: DuplexStream) -> JoinHandle<()> {
        tokio::spawn(answer(socket))
    }

    pub(super) async fn answer(mut socket: DuplexStream) {
        // Commands are lists of strings, as replies may be.
        let mut commands = Decoder::default();
        loop {
            while let Some(item) = commands.next().unwrap() {
                let Item::Reply(Ok(Value::Array(words))) = item else {
                    panic!("not a command: {item:?}");
                };
                let word = |at: usize| match &words[at] {
                    Value::Bulk(word) => String::from_utf8(word.clone()).unwrap(),
                    other => panic!("not a word: {other:?}"),
                };
                let answer = match word(0).as_str() {
                    "SAY" => format!("${}\r\n{}\r\n", word(1).len(), word(1)),
                    "FAIL" => format!("-ERR {}\r\n", word(1)),
                    "HANG" => continue,
                    "END" => return,
                    other => panic!("unknown: {other}"),
                };
                // The client may have gone.
                let _ = socket.write_all(answer.as_bytes()).await;
            }
            if socket.read_buf(commands.room(PORTION)).await.unwrap_or(0) == 0 {
                return;
            }
        }
    }

    pub(super) fn command(verb: &str, word: usize) -> Command {
        Command::new(verb).arg(word.to_string())
    }

    async fn call(conn: &Connection, verb: &str, word: usize) -> Outcome {
        conn.exchange(&[command(verb, word)]).await.swap_remove(0)
    }

    pub(super) fn said(word: usize) -> Outcome {
        Outcome::Replied(Ok(Value::Bulk(word.to_string().into())))
    }

    /// The calls `0..count`, each polled once.
    fn begun<'a>(conn: &'a Connection, verb: &'static str, count: usize) -> Calls<'a> {
        let calls = (0..count).map(|n| call(conn, verb, n).boxed());
        let mut calls: Calls<'a> = calls.collect();
        for call in &mut calls {
            assert_eq!(call.now_or_never(), None);
        }
        calls
    }

    #[tokio::test]
    async fn every_caller_gets_the_answer_to_its_command() {
        let (conn, theirs) = connection();
        serve(theirs);
        for calls in [1, MANY - 1, MANY, 81, 5_000] {
            let verb = |n| if n % 5 == 3 { "FAIL" } else { "SAY" };
            let outcomes = join_all((0..calls).map(|n| call(&conn, verb(n), n))).await;
            for (n, outcome) in outcomes.into_iter().enumerate() {
                match outcome {
                    Outcome::Replied(Err(error)) if verb(n) == "FAIL" => {
                        assert_eq!(error.message, n.to_string());
                    }
                    outcome => assert_eq!(outcome, said(n)),
                }
            }
        }
    }

    #[tokio::test]
    async fn commands_leave_in_the_order_of_their_calls_and_those_of_one_call_together() {
        let (conn, mut theirs) = connection();
        let mut expected = Vec::new();
        let mut calls = Vec::new();
        for n in 0..40 {
            let commands: Vec<_> = (0..=n % 3).map(|m| command("SAY", 3 * n + m)).collect();
            commands
                .iter()
                .for_each(|command| resp::encode(command, &mut expected));
            let conn = &conn;
            let mut call = Box::pin(async move { conn.exchange(&commands).await });
            assert_eq!(call.as_mut().now_or_never(), None);
            calls.push(call);
        }
        let mut read = vec![0; expected.len()];
        theirs.read_exact(&mut read).await.unwrap();
        assert_eq!(String::from_utf8(read), String::from_utf8(expected));
    }

    #[tokio::test]
    async fn few_calls_are_written_at_once_and_many_together() {
        let (conn, mut theirs) = connection();
        let calls = begun(&conn, "SAY", 20);
        let mut read = |expected: std::ops::Range<usize>| {
            let mut bytes = Vec::with_capacity(PORTION);
            theirs.read_buf(&mut bytes).now_or_never().map(|count| {
                count.unwrap();
                let mut wanted = Vec::new();
                expected.for_each(|n| resp::encode(&command("SAY", n), &mut wanted));
                assert_eq!(String::from_utf8(bytes), String::from_utf8(wanted));
            })
        };
        assert!(read(0..MANY - 1).is_some());
        assert_eq!(read(0..0), None, "the task has not run");
        while read(MANY - 1..20).is_none() {
            yield_now().await;
        }
        drop(calls);
    }

    #[tokio::test]
    async fn dropped_call_takes_no_answer_of_another() {
        let (conn, theirs) = connection();
        let calls = begun(&conn, "SAY", 40).into_iter().enumerate();
        let kept: Vec<_> = calls.filter(|(n, _)| n % 3 == 0).collect();
        serve(theirs);
        for (n, call) in kept {
            assert_eq!(call.await, said(n));
        }
    }

    #[tokio::test]
    async fn answers_that_came_are_kept_when_the_connection_ends() {
        let (conn, theirs) = connection();
        serve(theirs);
        let mixed = [command("SAY", 1), command("HANG", 2)];
        let mixed = conn.exchange(&mixed);
        let hanging = join_all((0..20).map(|n| call(&conn, "HANG", n)));
        let ending = call(&conn, "END", 0);
        let ((mixed, hanging), ending) = join(join(mixed, hanging), ending).await;
        assert_eq!(mixed[0], said(1));
        for outcome in hanging.into_iter().chain([ending, mixed[1].clone()]) {
            assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
        }
        let later = call(&conn, "SAY", 1).await;
        assert!(matches!(later, Outcome::NotSent(_)), "{later:?}");
    }

    #[tokio::test]
    async fn only_calls_with_written_bytes_are_unknown() {
        let mut first = Vec::new();
        resp::encode(&command("SAY", 0), &mut first);
        for room in [first.len(), first.len() + 1] {
            let (ours, theirs) = duplex(room);
            let (conn, _) = Connection::start(Box::new(ours), Purpose::Command);
            let calls = begun(&conn, "SAY", 3);
            drop(theirs);
            let outcomes = join_all(calls).await;
            let unknown = outcomes.iter().map(|outcome| match outcome {
                Outcome::Unknown(_) => true,
                Outcome::NotSent(_) => false,
                Outcome::Replied(reply) => panic!("a reply: {reply:?}"),
            });
            let second = room > first.len();
            assert_eq!(unknown.collect::<Vec<_>>(), [true, second, false], "{room}");
        }
    }

    #[tokio::test]
    async fn the_connection_ends_with_its_owner() {
        let (conn, theirs) = connection();
        let server = serve(theirs);
        drop(begun(&conn, "SAY", 20));
        drop(conn);
        server.await.unwrap();
    }

    #[test]
    fn the_connection_is_closed_when_its_runtime_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let (conn, mut theirs) = runtime.block_on(async { connection() });
        let calls = begun(&conn, "HANG", 20);
        drop(runtime);
        let outcomes = join_all(calls).now_or_never().unwrap();
        for (n, outcome) in outcomes.into_iter().enumerate() {
            let written = matches!(outcome, Outcome::Unknown(_));
            assert_eq!(written, n < MANY - 1, "{outcome:?}");
        }
        assert!(conn.closed().is_some());
        let mut rest = Vec::new();
        theirs
            .read_to_end(&mut rest)
            .now_or_never()
            .unwrap()
            .unwrap();
    }

    /// The write fails, but what had arrived is an answer.
    #[tokio::test]
    async fn answers_that_arrived_before_a_write_failed_are_kept() {
        let (conn, mut theirs) = connection();
        let calls = begun(&conn, "SAY", 1);
        theirs.write_all(b"$1\r\n0\r\n").await.unwrap();
        drop(theirs);
        // The task has not run since: this call meets the broken pipe.
        let mut late = Box::pin(call(&conn, "SAY", 1));
        assert_eq!(late.as_mut().now_or_never(), None);
        assert_eq!(join_all(calls).await, [said(0)]);
        let late = late.await;
        assert!(matches!(late, Outcome::NotSent(_)), "{late:?}");
    }

    /// A server that has too many clients says so without having been asked.
    #[tokio::test]
    async fn a_reply_without_a_command_ends_the_connection_and_has_a_kind() {
        use DialErrorKind::{Busy, Foreign};
        let full = "max number of clients";
        let outside = "outside of the protocol";
        for (bytes, kind, why) in [
            ("-ERR max number of clients reached\r\n", Busy, full),
            ("+OK\r\n", Foreign, outside),
            ("+OK\r\n>2\r\n+invalidate\r\n_\r\n", Foreign, outside),
            ("HTTP/1.1 400 Bad Request\r\n", Foreign, outside),
            (">2\r\n+invalidate\r\n_\r\n:x\r\n", Foreign, outside),
        ] {
            let (conn, mut theirs) = connection();
            theirs.write_all(bytes.as_bytes()).await.unwrap();
            let mut rest = Vec::new();
            theirs.read_to_end(&mut rest).await.unwrap();
            let closed = conn.closed().unwrap();
            assert_eq!(closed.kind, kind, "{bytes}");
            assert!(closed.message.contains(why), "{bytes}: {closed:?}");
            let late = call(&conn, "SAY", 1).await;
            assert!(matches!(late, Outcome::NotSent(_)), "{bytes}: {late:?}");
        }
    }

    /// RESP2 sends as lists what RESP3 sends as pushes.
    #[tokio::test]
    async fn pushes_come_in_order_and_confirm_subscriptions() {
        for kind in [">", "*"] {
            let (ours, mut theirs) = duplex(1 << 16);
            let (conn, mut pushes) = Connection::start(Box::new(ours), Purpose::PubSub);
            assert_eq!(pushes.next().now_or_never(), None);
            let subscribe = Command::new("SUBSCRIBE").arg("a").arg("b");
            let mut call = conn.send(vec![subscribe, Command::new("PING")]);
            assert_eq!((&mut call).now_or_never(), None);
            let told = |word: &str, rest: &str| format!("{kind}3\r\n+{word}\r\n+{rest}\r\n");
            let wire = [
                // Of an earlier subscription, whose caller has been dropped.
                told("subscribe", "b\r\n:1"),
                told("message", "b\r\n+early"),
                told("subscribe", "a\r\n:2"),
                "-NOPERM no\r\n".to_owned(),
                told("smessage", "a\r\n+late"),
                "+PONG\r\n".to_owned(),
            ];
            theirs.write_all(wire.concat().as_bytes()).await.unwrap();
            let outcomes = call.await;
            let refused = Outcome::Replied(Err(ServerError::parse("NOPERM no")));
            let pong = Outcome::Replied(Ok(Value::Status("PONG".into())));
            assert_eq!(outcomes, [refused, pong]);
            drop(theirs);
            let text = |text: &str| text.as_bytes().to_vec();
            let message = |channel: &str, payload: &str| Push::Message {
                channel: text(channel),
                payload: text(payload),
            };
            let expected = [
                Push::Subscribed(text("b")),
                message("b", "early"),
                Push::Subscribed(text("a")),
                message("a", "late"),
            ];
            for push in expected {
                assert_eq!(pushes.next().await, Some(push));
            }
            assert_eq!(pushes.next().await, None);
            assert_eq!(pushes.next().await, None);
        }
    }
}
