//! The bus of a cluster, over which its nodes monitor each other, with a proxy before each node.
//!
//! Nodes announce the proxies' ports as their bus ports. The head of a message names its sender. A
//! proxy therefore knows the two nodes of each connection, and can pass or block it.

use std::{
    collections::BTreeSet,
    io,
    net::{Ipv4Addr, SocketAddr},
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    runtime::{Builder, Runtime},
    sync::watch,
};

use crate::port::{BUS, ReservedPort};

/// The bus, with its own runtime: a test that blocks its thread must not delay the bus.
#[derive(Debug)]
pub(super) struct Bus {
    runtime: Option<Runtime>,
    fronts: Vec<Front>,
    split: watch::Sender<Split>,
}

/// The proxy in front of one node.
#[derive(Debug)]
struct Front {
    port: ReservedPort,
    id: Arc<OnceLock<NodeId>>,
}

/// The partition between the nodes.
#[derive(Clone, Debug, Default)]
struct Split {
    /// One part of the nodes. The nodes within it reach each other, and so do all other nodes.
    few: BTreeSet<NodeId>,
    heals: u64,
}

/// The id of a node: 40 hexadecimal digits.
type NodeId = Vec<u8>;

impl Bus {
    /// Takes ports for the proxies of `nodes` nodes.
    pub(super) fn take(nodes: usize) -> io::Result<Self> {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_io().build()?;
        let fronts = (0..nodes).map(|_| {
            let (port, id) = (ReservedPort::take()?, Arc::default());
            Ok(Front { port, id })
        });
        Ok(Self {
            fronts: fronts.collect::<io::Result<_>>()?,
            runtime: Some(runtime),
            split: watch::Sender::default(),
        })
    }

    /// Returns the bus port that node `at` must announce.
    pub(super) fn port(&self, at: usize) -> u16 {
        self.fronts[at].port.number()
    }

    /// Starts to forward to node `at`, which listens at `port` and has the id `id`.
    pub(super) fn serve(&self, at: usize, port: u16, id: &str) -> io::Result<()> {
        let front = &self.fronts[at];
        let runtime = self.runtime.as_ref().expect("it runs until it is dropped");
        let _inside = runtime.enter();
        let listener = front.port.listen()?;
        front.id.set(id.into()).expect("each is told once");
        let node = SocketAddr::from((Ipv4Addr::LOCALHOST, port + BUS));
        let (id, split) = (Arc::clone(&front.id), self.split.subscribe());
        runtime.spawn(accept(listener, node, id, split));
        Ok(())
    }

    /// Blocks all traffic between the nodes with the ids in `few` and all others, until
    /// [`heal`](Self::heal).
    pub(super) fn split(&self, few: impl Iterator<Item = String>) {
        let few = few.map(String::into_bytes).collect();
        self.split.send_modify(|split| split.few = few);
    }

    /// Passes all traffic again. Connections that have lost bytes are closed, so that nodes open
    /// new ones.
    pub(super) fn heal(&self) {
        self.split.send_modify(|split| {
            split.few.clear();
            split.heals += 1;
        });
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        // Waiting for its tasks would block, which is not allowed within another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Split {
    fn parts(&self, one: &NodeId, other: &NodeId) -> bool {
        self.few.contains(one) != self.few.contains(other)
    }
}

async fn accept(
    listener: TcpListener,
    node: SocketAddr,
    id: Arc<OnceLock<NodeId>>,
    split: watch::Receiver<Split>,
) {
    loop {
        // A connection that closed before it was accepted is no reason to stop, nor is one that
        // breaks.
        if let Ok((from, _)) = listener.accept().await {
            let (id, split) = (Arc::clone(&id), split.clone());
            tokio::spawn(async move {
                let id = id.get().expect("it was told before it began to listen");
                let _ = relay(from, node, id, split).await;
            });
        }
    }
}

/// Forwards between two nodes until one of them closes the connection, or until the partition heals
/// after bytes were lost.
async fn relay(
    mut from: TcpStream,
    node: SocketAddr,
    id: &NodeId,
    mut split: watch::Receiver<Split>,
) -> io::Result<()> {
    let mut to = TcpStream::connect(node).await?;
    from.set_nodelay(true)?;
    to.set_nodelay(true)?;
    // The first message on a connection has a full head.
    let mut head = [0; SENDER.end];
    from.read_exact(&mut head).await?;
    assert_eq!(&head[..4], b"RCmb", "it is the bus of a cluster");
    let way = Way {
        between: [&head[SENDER].to_vec(), id],
        split: split.clone(),
        lost: AtomicBool::new(false),
    };
    let (from_read, from_write) = from.split();
    let (to_read, to_write) = to.split();
    let healed = async {
        loop {
            let heals = split.borrow_and_update().heals;
            let healed = split.wait_for(|split| split.heals != heals).await.is_ok();
            if way.lost.load(Ordering::Relaxed) || !healed {
                return Ok(());
            }
        }
    };
    tokio::select! {
        end = way.pass(&head, from_read, to_write) => end,
        end = way.pass(&[], to_read, from_write) => end,
        end = healed => end,
    }
}

/// The state that both directions of a connection share.
struct Way<'a> {
    between: [&'a NodeId; 2],
    split: watch::Receiver<Split>,
    lost: AtomicBool,
}

impl Way<'_> {
    async fn pass(
        &self,
        head: &[u8],
        mut from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        buffer[..head.len()].copy_from_slice(head);
        let mut n = head.len();
        loop {
            let [one, other] = self.between;
            if self.split.borrow().parts(one, other) {
                self.lost.store(true, Ordering::Relaxed);
            }
            // A stream with missing bytes is of no use, even after the partition has healed.
            if !self.lost.load(Ordering::Relaxed) {
                to.write_all(&buffer[..n]).await?;
            }
            n = from.read(&mut buffer).await?;
            if n == 0 {
                return Ok(());
            }
        }
    }
}

/// The bytes of a message's head that name its sender.
const SENDER: Range<usize> = 40..80;
