//! A holder that is cut off from the server learns that its lock is gone before anybody else can
//! get it, and what it writes too late is refused.
//!
//! The server of this example is stopped in its tracks, as a network that goes silent would do it:
//! no error arrives, nor anything else. By default it is the embedded engine; with `--real` a
//! server process that gets SIGSTOP.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use redlatch::{Client, HoldState, Token};
use redlatch_examples::{Result, Server, run};
use tokio::time::{sleep, sleep_until};

const NAME: &str = "example:turbine";
const LEASE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    run(lost_lock()).await
}

async fn lost_lock() -> Result {
    // Always a server of our own: this one is going to be stopped.
    let server = Server::start().await?;
    let ada = Client::connect(server.url()).await?;
    let bob = Client::connect(server.url()).await?;
    let mut register = Register::default();

    let start = Instant::now();
    let say = |at: Instant, what: &str| {
        println!("  {:>5} ms  {what}", (at - start).as_millis());
    };

    let guard = ada.lock(NAME).lock().renewed_lease(LEASE).await?;
    say(
        Instant::now(),
        &format!(
            "ada holds with a lease of {LEASE:?}, renewed, token {}",
            guard.token()
        ),
    );
    say(
        Instant::now(),
        &format!("ada writes 1: {}", register.write(1, guard.token())),
    );

    // Stops the server right after a renewal, so that what it says about the lease stays true.
    sleep(Duration::from_millis(500)).await;
    let lease_end = loop {
        let remaining = bob.lock(NAME).remaining().await?.ok_or("nobody holds")?;
        if remaining > LEASE.mul_f64(0.95) {
            break Instant::now() + remaining;
        }
        sleep(Duration::from_millis(5)).await;
    };
    server.stop()?;
    say(Instant::now(), "the server is stopped; nobody is told");

    // Renewals go unanswered. Until its deadline the lock is still ada's, and whoever wants to know
    // can see the trouble.
    while guard.state() == HoldState::Held {
        sleep(Duration::from_millis(5)).await;
    }
    say(
        Instant::now(),
        &format!(
            "ada's state: {:?}; it may rely on the lock for {} ms more",
            guard.state(),
            guard.remaining().as_millis()
        ),
    );
    let cause = guard.lost().await;
    let told = Instant::now();
    say(told, &format!("ada is told that the lock is lost: {cause}"));
    say(
        lease_end,
        "the lease ends by the server's clock: from here on others may get the lock",
    );
    if told >= lease_end {
        return Err("ada was told too late".into());
    }
    println!(
        "            (told {} ms before)",
        (lease_end - told).as_millis()
    );

    sleep_until((lease_end + Duration::from_millis(100)).into()).await;
    server.resume()?;
    say(Instant::now(), "the server goes on");
    let later = bob.lock(NAME).lock().await?;
    say(
        Instant::now(),
        &format!("bob holds, token {}", later.token()),
    );
    say(
        Instant::now(),
        &format!("bob writes 2: {}", register.write(2, later.token())),
    );

    // Ada was told, but suppose that this write was already on its way: no lock can call it back.
    // The token can stop it.
    say(
        Instant::now(),
        &format!(
            "ada's late write of 3: {}",
            register.write(3, guard.token())
        ),
    );
    say(
        Instant::now(),
        &format!("the register holds {}", register.value),
    );
    say(
        Instant::now(),
        &format!("ada gives back what it has: {:?}", guard.release().await?),
    );
    if register.value != 2 {
        return Err("a late write got through".into());
    }
    Ok(())
}

/// What the lock protects. It refuses a token lower than the highest it has seen; a database does
/// the same with `UPDATE … WHERE token <= $mine`.
#[derive(Default)]
struct Register {
    value: u32,
    highest: Option<Token>,
}

impl Register {
    fn write(&mut self, value: u32, token: Token) -> &'static str {
        if self.highest > Some(token) {
            return "refused, it has seen a greater token";
        }
        self.highest = Some(token);
        self.value = value;
        "accepted"
    }
}
