//! A web service of three processes, of which one leads. Any of them takes jobs; the leader does
//! them. Followers forward to it. Then each process is restarted in turn, and a leader is killed.
//!
//! `/leader` tells who leads. `/ready` tells whether this process can serve, and that has nothing
//! to do with leading: a service whose followers are "not ready" would have one replica.
//!
//! A client sends jobs all the time, to one ready process after the other. In the end it looks into
//! the database: each job is there once, and no leader has written after a later one.

#[path = "axum_leader/check.rs"]
mod check;
#[path = "axum_leader/forward.rs"]
mod forward;
#[path = "axum_leader/store.rs"]
mod store;

use std::{
    env,
    net::SocketAddr,
    path::Path as FilePath,
    pin::pin,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use redlatch::{Client, Election, Leader, Term};
use redlatch_examples::{Result, run};
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt,
    net::TcpListener,
    select,
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};

use crate::store::Store;

const LEASE: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_millis(500);

/// How long a request looks for a leader: longer than a lease, so that the death of a leader is a
/// delay and no error.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long a replica is not ready before it stops, so that load balancers leave it.
const DRAIN: Duration = Duration::from_millis(200);

/// A request that a replica has sent on. It is not sent on again.
const FORWARDED: &str = "x-forwarded-by-replica";

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args[..] {
        [role, url, database] if role == "replica" => {
            run(replica(url, FilePath::new(database))).await
        }
        _ => run(check::check()).await,
    }
}

/// What the handlers of one replica share.
struct Replica {
    address: SocketAddr,
    election: Election,
    /// Where the work of a term takes jobs. `None` while another replica leads.
    desk: watch::Sender<Option<mpsc::Sender<Order>>>,
    /// Who leads, as the server has told it last.
    leader: watch::Receiver<Option<Leader>>,
    /// Set before the replica stops.
    ends: AtomicBool,
}

/// A job on its way to the work of a term.
struct Order {
    id: u64,
    done: oneshot::Sender<Value>,
}

/// One process: serves, and leads when it can, until its standard input ends.
async fn replica(url: &str, database: &FilePath) -> Result {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let builder = Client::builder(url).application("axum_leader");
    let client = builder.patience(LEASE).connect().await?;
    let election = client.election("example:axum-leader");
    // The value is how followers find the leader.
    let election = election
        .lease(LEASE)
        .grace(GRACE)
        .value(&address.to_string());
    let (told, leader) = watch::channel(None);
    let replica = Arc::new(Replica {
        address,
        election,
        desk: watch::Sender::new(None),
        leader,
        ends: AtomicBool::new(false),
    });
    tokio::spawn(observe(replica.election.clone(), told));
    let store = Store::open(database)?;
    println!("{address}");
    let serves = async {
        let served = serve(listener, replica.clone()).await;
        // No request is under way any more. Now another replica may lead, at once.
        client.close(LEASE).await;
        served
    };
    // In this task: work that borrows does not compile in a spawned one, see `Election::lead`.
    let (served, campaigned) = tokio::join!(serves, campaign(&replica, store));
    served.and(campaigned)
}

/// Serves requests until the standard input ends, and then those that are under way.
async fn serve(listener: TcpListener, replica: Arc<Replica>) -> Result {
    let ending = replica.clone();
    let told_to_end = async move {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
        ending.ends.store(true, Ordering::Relaxed);
        sleep(DRAIN).await;
    };
    let serve = axum::serve(listener, routes(replica));
    Ok(serve.with_graceful_shutdown(told_to_end).await?)
}

fn routes(replica: Arc<Replica>) -> Router {
    Router::new()
        .route("/jobs/{id}", post(take))
        .route("/leader", get(leader))
        .route("/ready", get(ready))
        .with_state(replica)
}

/// Keeps what the server tells about the leader.
async fn observe(election: Election, told: watch::Sender<Option<Leader>>) {
    let mut changes = election.observe();
    while let Some(change) = changes.next().await {
        // An error passes by itself or ends the stream. Forwarding goes on with the last leader.
        if let Ok(leader) = change {
            told.send_replace(leader);
        }
    }
}

/// Leads whenever it can, until the client closes.
async fn campaign(replica: &Replica, mut store: Store) -> Result {
    loop {
        let lead = replica
            .election
            .lead(async |term: &Term| replica.work(term, &mut store).await);
        match lead.await {
            Ok(()) => {}
            Err(error) if error.kind() == redlatch::ErrorKind::Closed => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

impl Replica {
    /// The work of a leader: jobs, one after the other.
    async fn work(&self, term: &Term, store: &mut Store) {
        let (desk, mut orders) = mpsc::channel(64);
        self.desk.send_replace(Some(desk));
        let mut ending = pin!(term.ending());
        loop {
            let order = select! {
                () = &mut ending => break,
                order = orders.recv() => order,
            };
            let Some(order) = order else { break };
            self.handle(term, store, order);
        }
        // What has been taken is done in the time of grace; nothing new is taken. A term that is
        // lost does not come here: its orders are dropped, and their requests look for the leader.
        self.desk.send_replace(None);
        orders.close();
        while let Some(order) = orders.recv().await {
            self.handle(term, store, order);
        }
    }

    /// Does a job. The database refuses it if a later leader has written.
    fn handle(&self, term: &Term, store: &mut Store, order: Order) {
        match store.write(term.token(), order.id, self.address) {
            Ok(true) => {
                let token = term.token().as_u64();
                let done = json!({ "job": order.id, "by": self.address, "token": token });
                // A caller that has hung up comes again, with the same id.
                let _ = order.done.send(done);
            }
            Ok(false) => eprintln!("{}: a later leader has written", self.address),
            Err(error) => eprintln!("{}: {error}", self.address),
        }
    }

    /// Has a job done by this replica, if it leads.
    async fn do_here(&self, id: u64) -> Option<Value> {
        let desk = self.desk.borrow().clone()?;
        let (done, receipt) = oneshot::channel();
        desk.send(Order { id, done }).await.ok()?;
        receipt.await.ok()
    }

    /// Returns the address of the leader, if it is another replica.
    fn leader_elsewhere(&self) -> Option<String> {
        let leader = self.leader.borrow();
        let address = leader.as_ref()?.value.clone()?;
        (address != self.address.to_string()).then_some(address)
    }
}

/// `POST /jobs/{id}`. The id is the caller's, who sends it again if there is no answer.
async fn take(
    State(replica): State<Arc<Replica>>,
    Path(id): Path<u64>,
    headers: HeaderMap,
) -> Response {
    if headers.contains_key(FORWARDED) {
        return match replica.do_here(id).await {
            Some(done) => Json(done).into_response(),
            None => StatusCode::MISDIRECTED_REQUEST.into_response(),
        };
    }
    let found = timeout(PATIENCE, async {
        loop {
            if let Some(done) = replica.do_here(id).await {
                return done;
            }
            if let Some(leader) = replica.leader_elsewhere()
                && let Some(done) = forward::post(&leader, id, replica.address).await
            {
                return done;
            }
            // Nobody leads, or the leader has just changed.
            sleep(Duration::from_millis(20)).await;
        }
    });
    match found.await {
        Ok(done) => Json(done).into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")]).into_response(),
    }
}

/// `GET /leader`: who leads, as far as this replica knows. For people and for display.
async fn leader(State(replica): State<Arc<Replica>>) -> Json<Value> {
    let leader = replica.leader.borrow().clone();
    let (address, token) = leader.map_or((None, None), |leader| {
        (leader.value, Some(leader.token.as_u64()))
    });
    Json(json!({ "leader": address, "token": token, "this": replica.address }))
}

/// `GET /ready`: whether this replica can serve. Who leads does not matter.
async fn ready(State(replica): State<Arc<Replica>>) -> StatusCode {
    if replica.ends.load(Ordering::Relaxed) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    // Without the server it could not find a leader after the next change.
    match timeout(Duration::from_secs(1), replica.election.leader()).await {
        Ok(Ok(_)) => StatusCode::OK,
        Ok(Err(_)) | Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
