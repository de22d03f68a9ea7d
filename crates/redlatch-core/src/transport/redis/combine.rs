//! Requests that are sent together.

use std::{
    future::poll_fn,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{Cmd, Pipeline, aio::MultiplexedConnection};
use tokio::{
    select,
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
};

use super::{
    error,
    pushes::Gone,
    wire::{pipe, unanswered},
};
use crate::seam::Outcome;

/// How many calls of a connection are under way.
#[derive(Debug, Default)]
pub(super) struct Calls(AtomicUsize);

impl Calls {
    /// Counts one more, until what is returned is dropped.
    pub(super) fn begin(&self) -> Call<'_> {
        self.0.fetch_add(1, Relaxed);
        Call(self)
    }

    /// Tells whether another is likely to be ready as well.
    pub(super) fn are_many(&self) -> bool {
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

/// Sends the requests of many tasks that are ready at the same time as one pipeline.
///
/// Each request by itself would be a message to the crate's task, a system call, a packet, and at the server a read, and what waits for its answer is more than
/// a kilobyte. Here that is had once for as many as are ready when the combining task has let all others run.
#[derive(Debug, Default)]
pub(super) struct Combiner(OnceLock<UnboundedSender<Request>>);

#[derive(Debug)]
struct Request {
    cmd: Cmd,
    answer: oneshot::Sender<Outcome>,
}

impl Combiner {
    /// Sends one command and returns its outcome. What is dropped is sent nevertheless.
    pub(super) async fn send(
        &self,
        conn: &MultiplexedConnection,
        gone: &Gone,
        cmd: Cmd,
    ) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let requests = self.0.get_or_init(|| start(conn.clone(), gone.clone()));
        if requests.send(Request { cmd, answer }).is_err() {
            return error::closed();
        }
        answered.await.unwrap_or_else(|_| unanswered())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what serves a socket belongs to tokio's runtime like the socket, not to the seam's"
)]
fn start(conn: MultiplexedConnection, gone: Gone) -> UnboundedSender<Request> {
    let (sender, requests) = unbounded_channel();
    tokio::spawn(combine(requests, conn, gone));
    sender
}

/// Ends with the connection's owner.
async fn combine(
    mut requests: UnboundedReceiver<Request>,
    conn: MultiplexedConnection,
    gone: Gone,
) {
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
                step_back().await;
                while batch.len() < MOST
                    && let Ok(request) = requests.try_recv()
                {
                    batch.push(request);
                }
                under_way.push(send(conn.clone(), gone.clone(), batch));
            }
        }
    }
}

/// Goes behind all tasks that are ready to run, once.
async fn step_back() {
    let mut stepped = false;
    poll_fn(|context| {
        if stepped {
            return Poll::Ready(());
        }
        stepped = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn send(mut conn: MultiplexedConnection, gone: Gone, batch: Vec<Request>) {
    let mut pipeline = Pipeline::with_capacity(batch.len());
    let mut answers = Vec::with_capacity(batch.len());
    for Request { cmd, answer } in batch {
        pipeline.add_command(cmd);
        answers.push(answer);
    }
    let outcomes = pipe(&mut conn, &gone, pipeline, answers.len()).await;
    for (answer, outcome) in answers.into_iter().zip(outcomes) {
        // Whoever asked may have gone.
        let _ = answer.send(outcome);
    }
}

/// With so many calls under way, another is likely to be ready as well.
const MANY: usize = 4;

/// No answer of a pipeline is told before all are there, and the server begins with the first part while the next is made.
const MOST: usize = 16;
