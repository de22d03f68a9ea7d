//! One server that restarts, forgets, stands still, and loses scripts, connections and messages.

use std::pin::pin;

use futures_util::future::{Either, select};
use redlatch_tests::{
    proxy::{Direction, Flow},
    split::SplitTransport,
    wait::by_night,
};

use super::{prelude::*, scene::Told};

redlatch_tests::on_every_server!(
    every_kind_outlives_a_restart_with_data,
    every_kind_learns_that_the_server_lost_its_data,
    every_kind_learns_of_loss_before_a_stopped_server_resumes,
    every_kind_survives_a_script_flush,
    every_kind_survives_killed_connections,
    every_kind_rechecks_without_messages,
    after_random_faults_nothing_is_left_of_every_kind,
);

/// The longest time in which all are served without a message. A look costs 2.4 s at most, and a
/// multi-lock has two members.
const RECHECKED: Duration = Duration::from_millis(2 * 2_400 + 10_000);

/// The server that something happens to, and two others for the red-lock.
pub(super) struct Bed {
    pub(super) server: Server,
    others: [Server; 2],
}

impl Bed {
    pub(super) fn start(binary: &ServerBinary, options: ServerOptions) -> Self {
        Self {
            server: Server::start(binary, options),
            others: [(); 2].map(|()| Server::start(binary, ServerOptions::new())),
        }
    }

    pub(super) fn urls(&self) -> Vec<String> {
        let servers = [&self.server].into_iter().chain(&self.others);
        servers.map(Server::url).collect()
    }

    async fn party(&self) -> Party {
        self.party_of(connect(&self.server.url()).await).await
    }

    pub(super) async fn party_of(&self, client: Client) -> Party {
        let mut others = Vec::new();
        for server in &self.others {
            others.push(connect(&server.url()).await);
        }
        Party { client, others }
    }

    pub(super) async fn begin(&self, leases: Leases) -> Scene {
        let parties = [self.party().await, self.party().await];
        Scene::begin(KINDS, parties, "", leases).await
    }

    pub(super) async fn end(&self, scene: Scene) {
        let servers = self.others.iter().chain([&self.server]);
        scene.end(&servers.collect::<Vec<_>>()).await;
    }
}

// L13
async fn every_kind_outlives_a_restart_with_data(binary: ServerBinary) {
    // With less, what was answered last may not be in the file yet when the process dies.
    let options = ServerOptions::new()
        .append_only()
        .config("appendfsync always");
    let bed = Bed::start(&binary, options);
    let mut scene = bed.begin(Leases::renewed(8 * SECOND)).await;
    bed.server.kill();
    bed.server.restart();
    scene.renewed().await;
    println!("{binary}, restarted: {}", scene.hand_over().await);
    bed.end(scene).await;
}

/// What a server that forgets cannot do is keep two apart until the first is told.
// L12, L40
async fn every_kind_learns_that_the_server_lost_its_data(binary: ServerBinary) {
    let bed = Bed::start(&binary, ServerOptions::new());
    let lease = 3 * SECOND;
    let mut scene = bed.begin(Leases::all(lease)).await;
    let losses = scene.watch().await;
    bed.server.kill();
    let killed = Instant::now();
    bed.server.restart();
    let causes = [
        LossCause::Taken,
        LossCause::Forgotten,
        LossCause::Expired,
        LossCause::Unreachable,
    ];
    told(losses, &causes).await;
    println!("{binary}: all are told after {:?}", killed.elapsed());
    tokio::time::sleep_until((killed + lease).into()).await;
    assert_lost(&scene).await;
    for pair in &mut scene.pairs {
        pair.kind.after_data_loss(pair).await;
    }
    bed.end(scene).await;
}

async fn every_kind_learns_of_loss_before_a_stopped_server_resumes(binary: ServerBinary) {
    let bed = Bed::start(&binary, ServerOptions::new());
    let lease = 2 * SECOND;
    let mut scene = bed.begin(Leases::all(lease)).await;
    let losses = scene.watch().await;
    bed.server.stop();
    let stopped = Instant::now();
    told(losses, &[LossCause::Expired, LossCause::Unreachable]).await;
    println!("{binary}: all are told after {:?}", stopped.elapsed());
    // What was sent to it since then has to find that it came too late.
    tokio::time::sleep_until((stopped + lease + 300 * MS).into()).await;
    assert_lost(&scene).await;
    bed.server.cont();
    for pair in scene.pairs.iter_mut().filter(|pair| pair.kind.loses()) {
        pair.served().await.exclusively(pair).await;
        let outcome = pair.let_go().await.unwrap();
        assert_eq!(outcome, ReleaseOutcome::WasOver, "{:?}", pair.kind);
    }
    for pair in scene.pairs.iter_mut().filter(|pair| !pair.kind.loses()) {
        let outcome = pair.let_go().await.unwrap();
        assert_eq!(outcome, ReleaseOutcome::Ended, "{:?}", pair.kind);
        pair.served().await.exclusively(pair).await;
    }
    bed.end(scene).await;
}

/// Waits until all are told, and of a cause that can be.
async fn told(losses: Vec<(AnyKind, Told)>, causes: &[LossCause]) {
    for (kind, told) in losses {
        let cause = told.await.unwrap();
        let cause = cause.unwrap_or_else(|_| panic!("the holder of {kind:?} is told nothing"));
        assert!(causes.contains(&cause), "{kind:?}: {cause}");
    }
}

/// Checks that whoever can have lost it knows, and nobody else has.
async fn assert_lost(scene: &Scene) {
    for pair in &scene.pairs {
        assert_ne!(pair.believed().await, pair.kind.loses(), "{:?}", pair.kind);
    }
}

// L44
async fn every_kind_survives_a_script_flush(binary: ServerBinary) {
    let bed = Bed::start(&binary, ServerOptions::new());
    let life = async {
        let mut scene = bed.begin(Leases::renewed(3 * SECOND)).await;
        scene.renewed().await;
        scene.prolong(60 * SECOND).await;
        println!("{binary}, without scripts: {}", scene.hand_over().await);
        scene
    };
    let scene = beside(life, 5 * MS, || bed.server.script_flush()).await;
    bed.end(scene).await;
}

// L3, L7
async fn every_kind_survives_killed_connections(binary: ServerBinary) {
    // All of them, or only those for messages: what is published while nobody listens is lost.
    for all in [true, false] {
        let bed = Bed::start(&binary, ServerOptions::new());
        let mut scene = bed.begin(Leases::renewed(6 * SECOND)).await;
        let kill = || {
            if all {
                bed.server.client_kill(ClientType::Normal);
            }
            bed.server.client_kill(ClientType::PubSub)
        };
        let trouble = || {
            kill();
        };
        beside(scene.renewed(), 120 * MS, trouble).await;
        wait_for("the subscriptions to come back", async || kill() > 0).await;
        let freed = Instant::now();
        let served = scene.hand_over().await;
        println!("{binary}, connections killed, all: {all}: {served}");
        assert!(freed.elapsed() < RECHECKED, "{:?}", freed.elapsed());
        bed.end(scene).await;
    }
}

/// Does `trouble` every so often until `life` has ended.
async fn beside<T>(life: impl Future<Output = T>, every: Duration, trouble: impl Fn()) -> T {
    let troubles = pin!(async {
        loop {
            trouble();
            sleep(every).await;
        }
    });
    match select(pin!(life), troubles).await {
        Either::Left((ended, _)) => ended,
        Either::Right((never, _)) => never,
    }
}

// L7
async fn every_kind_rechecks_without_messages(binary: ServerBinary) {
    let bed = Bed::start(&binary, ServerOptions::new());
    let messages = Proxy::start(bed.server.address());
    let split = Arc::new(SplitTransport::new(messages.clone()));
    let deaf = builder(&bed.server.url()).transport(split).connect().await;
    let deaf = bed.party_of(deaf.unwrap()).await;
    let parties = [bed.party().await, deaf];
    let mut scene = Scene::begin(KINDS, parties, "", Leases::renewed(60 * SECOND)).await;
    messages.set_flow(Direction::ToClient, Flow::BlackHole);
    let vanished = messages.vanished();
    let freed = Instant::now();
    println!("{binary}, messages lost: {}", scene.hand_over().await);
    assert!(freed.elapsed() < RECHECKED, "{:?}", freed.elapsed());
    assert!(messages.vanished() > vanished, "they were sent and lost");
    messages.pass();
    messages.cut();
    bed.end(scene).await;
}

// L2, L10, L38, L49
async fn after_random_faults_nothing_is_left_of_every_kind(binary: ServerBinary) {
    let seed = std::env::var("REDLATCH_TEST_SEED").ok();
    let seed = seed
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    println!("{binary}: REDLATCH_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let server = Server::start(&binary, ServerOptions::new());
    let proxies = [(); 2].map(|()| Proxy::start(server.address()));
    let [one, other] = proxies.each_ref().map(Proxy::url);
    let parties = [connect(&one).await, connect(&other).await].map(Party::alone);
    let load = Load::lossy(&parties).await;
    for _ in 0..by_night(50, 500) {
        let proxy = random.choice(&proxies).unwrap();
        match random.u8(0..7) {
            0 => drop(server.client_kill(ClientType::Normal)),
            1 => drop(server.client_kill(ClientType::PubSub)),
            2 => server.script_flush(),
            3 => proxy.cut(),
            4 => drop(proxy.drop_reply(Pick::command("EVALSHA"), Then::Cut)),
            5 => drop(proxy.drop_reply(Pick::command("EVALSHA"), Then::Stall)),
            _ => {
                proxy.stall();
                sleep(random.u32(10..250) * MS).await;
                proxy.pass();
            }
        }
        sleep(random.u32(20..200) * MS).await;
    }
    for proxy in &proxies {
        proxy.withdraw_orders();
        proxy.pass();
    }
    load.get_on().await;
    println!("{binary}: {}", load.end().await);
    for party in &parties {
        assert_tables_empty(&party.client).await;
    }
    assert_all_end(&server);
}
