//! Combines concurrent requests into pipelines.

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{Cmd, aio::MultiplexedConnection};
use tokio::{
    runtime::Handle,
    select,
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
};

use super::{
    error,
    exchange::{exchange_all, unanswered},
    pushes::Gone,
};
use crate::{base::sync::yield_once, runtime::Outcome};

/// A counter of calls under way.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicUsize);

impl Count {
    /// Increments the counter until the returned guard is dropped.
    pub(super) fn begin(&self) -> Counted<'_> {
        self.0.fetch_add(1, Relaxed);
        Counted(self)
    }

    pub(super) fn is_any(&self) -> bool {
        self.0.load(Relaxed) > 0
    }

    /// Returns whether another call is likely to be ready as well.
    pub(super) fn is_many(&self) -> bool {
        self.0.load(Relaxed) >= MANY
    }
}

/// A guard that decrements the counter.
#[derive(Debug)]
pub(super) struct Counted<'a>(&'a Count);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

/// Sends the commands of many tasks that are ready at the same time as one pipeline.
///
/// A separate command costs a message to the crate's task, a system call, a packet, and a read at
/// the server. The future for its answer is larger than a kilobyte. The combiner pays these costs
/// once for all commands that are ready after its task has yielded to the others.
///
/// The combining task starts with the first command, on the runtime on which the connection was
/// dialled. It ends when the connection's owner drops it.
#[derive(Debug)]
pub(super) struct Combiner {
    conn: MultiplexedConnection,
    gone: Gone,
    runtime: Handle,
    requests: OnceLock<UnboundedSender<Request>>,
}

#[derive(Debug)]
struct Request {
    cmd: Cmd,
    answer: oneshot::Sender<Outcome>,
}

impl Combiner {
    /// Creates a combiner for `conn`. The caller is on the tokio runtime on which `conn` was
    /// dialled.
    pub(super) fn new(conn: MultiplexedConnection, gone: Gone) -> Self {
        Self {
            conn,
            gone,
            runtime: Handle::current(),
            requests: OnceLock::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        self.requests.get().is_some()
    }

    /// Sends one command and returns its outcome.
    pub(super) async fn exchange(&self, cmd: Cmd) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let requests = self.requests.get_or_init(|| self.start());
        if requests.send(Request { cmd, answer }).is_err() {
            return error::closed();
        }
        answered.await.unwrap_or_else(|_| unanswered())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "what serves a socket belongs to tokio's runtime like the socket, not to redlatch's runtime"
    )]
    fn start(&self) -> UnboundedSender<Request> {
        let (sender, requests) = unbounded_channel();
        let end = End(self.gone.clone());
        let combining = combine(requests, self.conn.clone(), end);
        self.runtime.spawn(combining);
        sender
    }
}

/// A guard in the combining task that marks the connection as gone when dropped. Without that task
/// the connection is useless, however the task ended.
#[derive(Debug)]
struct End(Gone);

impl Drop for End {
    fn drop(&mut self) {
        self.0.mark();
    }
}

async fn combine(mut requests: UnboundedReceiver<Request>, conn: MultiplexedConnection, end: End) {
    let mut under_way = FuturesUnordered::new();
    loop {
        let mut batch = Vec::new();
        select! {
            biased;
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
            count = requests.recv_many(&mut batch, MOST) => {
                if count == 0 {
                    return;
                }
                yield_once().await;
                while batch.len() < MOST
                    && let Ok(request) = requests.try_recv()
                {
                    batch.push(request);
                }
                // The caller of a request may have been dropped.
                batch.retain(|request| !request.answer.is_closed());
                if !batch.is_empty() {
                    under_way.push(send(conn.clone(), end.0.clone(), batch));
                }
            }
        }
    }
}

async fn send(mut conn: MultiplexedConnection, gone: Gone, batch: Vec<Request>) {
    let (cmds, answers): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|request| (request.cmd, request.answer))
        .unzip();
    let outcomes = exchange_all(&mut conn, &gone, cmds.into_iter()).await;
    for (answer, outcome) in answers.into_iter().zip(outcomes) {
        // The caller may have been dropped here, too.
        let _ = answer.send(outcome);
    }
}

/// Number of calls under way from which another call is likely to be ready.
const MANY: usize = 4;

/// Maximum number of commands in one pipeline. The replies of a pipeline are delivered together,
/// and none is delivered if the connection ends before the last one. Several smaller pipelines also
/// let the server work on one of them while the client builds the next.
const MOST: usize = 16;

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the server of a test is a thread"
)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        net::{TcpListener, TcpStream},
        pin::pin,
        sync::{Arc, mpsc},
        task::{Context, Poll, Wake},
        thread::{self, Thread},
        time::Duration,
    };

    use futures_util::{
        FutureExt,
        future::{join, join_all, maybe_done},
    };
    use redis::Client;
    use tokio::runtime::Runtime;

    use super::*;
    use crate::{
        runtime::{Command, Value},
        transport::redis::{connection_config, wire::Wire},
    };

    /// Returns a connection to a scripted server, and a channel that receives a message when the
    /// server has ended.
    fn wire(runtime: &Runtime) -> (Wire, mpsc::Receiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (ended, has_ended) = mpsc::channel();
        thread::spawn(move || {
            serve(&listener.accept().unwrap().0);
            // A test that ignores the end may be over.
            let _ = ended.send(());
        });
        let client = Client::open(url).unwrap();
        let wire = runtime.block_on(async {
            let config = connection_config();
            let connecting = client.get_multiplexed_async_connection_with_config(&config);
            Wire::new(connecting.await.unwrap(), Gone::default())
        });
        (wire, has_ended)
    }

    /// Answers `SAY` with its argument, `FAIL` with an error, and `HANG` not at all. `END` ends the
    /// connection.
    fn serve(stream: &TcpStream) {
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        while let Some(head) = lines.next() {
            let count: usize = head.strip_prefix('*').unwrap().parse().unwrap();
            let words: Vec<_> = lines.by_ref().take(2 * count).skip(1).step_by(2).collect();
            let answer = match words[0].as_str() {
                "SAY" => format!("${}\r\n{}\r\n", words[1].len(), words[1]),
                "FAIL" => format!("-ERR {}\r\n", words[1]),
                "HANG" => continue,
                "END" => return,
                _ => "+OK\r\n".to_owned(),
            };
            let mut stream = stream;
            stream.write_all(answer.as_bytes()).unwrap();
        }
    }

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    }

    /// Keeps the only thread of `runtime` busy until the returned value is dropped.
    fn occupy(runtime: &Runtime) -> mpsc::Sender<()> {
        let (occupied, is_over) = mpsc::channel();
        let (begun, has_begun) = mpsc::channel();
        runtime.spawn(async move {
            // The test waits for it.
            let _ = begun.send(());
            let _ = is_over.recv();
        });
        has_begun.recv().unwrap();
        occupied
    }

    async fn call(wire: &Wire, verb: &str, word: usize) -> Outcome {
        let command = Command::new(verb).arg(word.to_string());
        wire.exchange(vec![command]).await.swap_remove(0)
    }

    fn said(word: usize) -> Outcome {
        Outcome::Replied(Ok(Value::Bulk(word.to_string().into())))
    }

    #[test]
    fn every_caller_gets_the_answer_to_its_command() {
        let runtime = runtime();
        let (wire, _) = wire(&runtime);
        // The caller need not be on a runtime.
        for calls in [1, MANY - 1] {
            let outcomes = join_all((0..calls).map(|n| call(&wire, "SAY", n)));
            let outcomes = block_on(outcomes);
            assert_eq!(outcomes, (0..calls).map(said).collect::<Vec<_>>());
        }
        assert!(!wire.combines(), "few are never held up");
        for calls in [MANY, MOST, 5 * MOST + 1] {
            let verb = |n| if n % 5 == 3 { "FAIL" } else { "SAY" };
            let outcomes = join_all((0..calls).map(|n| call(&wire, verb(n), n)));
            for (n, outcome) in block_on(outcomes).into_iter().enumerate() {
                match outcome {
                    Outcome::Replied(Err(error)) if verb(n) == "FAIL" => {
                        assert_eq!(error.message, n.to_string());
                    }
                    outcome => assert_eq!(outcome, said(n)),
                }
            }
        }
        assert!(wire.combines());
    }

    #[test]
    fn several_commands_stay_together() {
        let runtime = runtime();
        let (wire, _) = wire(&runtime);
        let pair = |n: usize| {
            let say = |n: usize| Command::new("SAY").arg(n.to_string());
            wire.exchange(vec![say(n), say(n + 1)])
        };
        let singles = join_all((0..20).map(|n| call(&wire, "SAY", n)));
        let pairs = join_all((0..20).map(pair));
        let (singles, pairs) = block_on(join(singles, pairs));
        assert_eq!(singles, (0..20).map(said).collect::<Vec<_>>());
        for (n, pair) in pairs.into_iter().enumerate() {
            assert_eq!(pair, [said(n), said(n + 1)]);
        }
    }

    #[test]
    fn dropped_call_takes_no_answer_of_another() {
        let runtime = runtime();
        let (wire, _) = wire(&runtime);
        let call = |n| Box::pin(maybe_done(call(&wire, "SAY", n)));
        let mut calls: Vec<_> = (0..40).map(call).collect();
        for call in &mut calls {
            // Depending on the machine, some commands are answered before others are sent.
            call.now_or_never();
        }
        let mut number = 0;
        calls.retain(|_| {
            number += 1;
            number % 3 == 0
        });
        block_on(join_all(calls.iter_mut()));
        let outcomes = calls.iter_mut().map(|call| call.as_mut().take_output());
        let outcomes: Vec<_> = outcomes.map(Option::unwrap).collect();
        let kept = (0..40).filter(|n| (n + 1) % 3 == 0);
        assert_eq!(outcomes, kept.map(said).collect::<Vec<_>>());
    }

    #[test]
    fn unanswered_calls_are_unknown_when_the_connection_ends_and_are_not_sent_later() {
        let runtime = runtime();
        let (wire, _) = wire(&runtime);
        let hanging = join_all((0..20).map(|n| call(&wire, "HANG", n)));
        let ending = call(&wire, "END", 0);
        let (hanging, ending) = block_on(join(hanging, ending));
        for outcome in hanging.into_iter().chain([ending]) {
            assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
        }
        let later = block_on(call(&wire, "SAY", 1));
        assert!(matches!(later, Outcome::NotSent(_)), "{later:?}");
    }

    #[test]
    fn the_connection_ends_with_its_owner_although_commands_were_combined() {
        let runtime = runtime();
        let (wire, has_ended) = wire(&runtime);
        let call = |n| Box::pin(maybe_done(call(&wire, "SAY", n)));
        let mut calls: Vec<_> = (0..20).map(call).collect();
        // No answer arrives before all calls are under way.
        let occupied = occupy(&runtime);
        for call in &mut calls {
            assert_eq!(call.now_or_never(), None);
        }
        drop(occupied);
        block_on(join_all(calls.iter_mut()));
        drop(calls);
        assert!(wire.combines());
        drop(wire);
        has_ended.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn the_connection_is_gone_when_its_runtime_ends() {
        let runtime = runtime();
        let (wire, has_ended) = wire(&runtime);
        let mut calls: Vec<_> = (0..20).map(|n| Box::pin(call(&wire, "HANG", n))).collect();
        for call in &mut calls {
            assert_eq!(call.now_or_never(), None);
        }
        runtime.shutdown_timeout(SOON);
        for outcome in block_on(join_all(calls)) {
            assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
        }
        assert!(wire.gone().is());
        drop(wire);
        has_ended.recv_timeout(SOON).unwrap();
    }

    /// Runs a future without a runtime.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let mut future = pin!(future);
        let waker = Arc::new(Unpark(thread::current())).into();
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            thread::park();
        }
    }

    const SOON: Duration = Duration::from_secs(10);
}
