//! Several processes move money between accounts that are files, each transfer under a lock over
//! both accounts.
//!
//! Every transfer locks its two accounts in the order in which it names them, and half of them name
//! them the other way round. One lock after the other would soon wait in a circle; a multi-lock
//! takes its members in one order, whatever the caller's.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use redlatch::Client;
use redlatch_examples::{Result, Scratch, Server, role, run};
use tokio::time::sleep;

const ACCOUNTS: u64 = 5;
const OPENING_BALANCE: i64 = 1_000;
const CLERKS: u64 = 6;
const TRANSFERS: u64 = 25;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args[..] {
        [role, url, bank, seed] if role == "clerk" => {
            run(clerk(url, Path::new(bank), seed.parse().unwrap_or(1))).await
        }
        _ => run(bank()).await,
    }
}

/// A clerk process: makes its transfers.
async fn clerk(url: &str, bank: &Path, seed: u64) -> Result {
    let client = Client::connect(url).await?;
    let mut dice = Dice(seed);
    for _ in 0..TRANSFERS {
        let (from, to) = dice.two_accounts();
        let (first, second) = (
            client.lock(format!("example:account:{from}")),
            client.lock(format!("example:account:{to}")),
        );
        let guard = client.multi_lock(&[&first, &second]).lock().await?;
        // Dropped at its next await, should either account be lost.
        guard.run(transfer(bank, from, to, dice.roll(50))).await??;
        for (account, released) in guard.release().await? {
            if !released.is_clean() {
                return Err(format!("{account} was lost during a transfer").into());
            }
        }
    }
    client.close(Duration::from_secs(1)).await;
    Ok(())
}

/// Reads both balances, thinks, and writes both.
async fn transfer(bank: &Path, from: u64, to: u64, amount: u64) -> Result {
    let amount = i64::try_from(amount)?;
    let (payer, payee) = (balance(bank, from)?, balance(bank, to)?);
    sleep(Duration::from_millis(amount.unsigned_abs() % 5)).await;
    fs::write(account(bank, from), (payer - amount).to_string())?;
    fs::write(account(bank, to), (payee + amount).to_string())?;
    Ok(())
}

/// The first process: opens the accounts, starts the clerks, and counts the money at the end.
async fn bank() -> Result {
    let server = Server::from_env_or_start().await?;
    let scratch = Scratch::new()?;
    let bank = scratch.path();
    for number in 0..ACCOUNTS {
        fs::write(account(bank, number), OPENING_BALANCE.to_string())?;
    }
    println!("{CLERKS} processes make {TRANSFERS} transfers each between {ACCOUNTS} accounts.");
    let started = Instant::now();
    let mut clerks = Vec::new();
    for seed in 1..=CLERKS {
        let mut clerk = role("clerk")?;
        clerk.arg(server.url()).arg(bank).arg(seed.to_string());
        clerks.push(clerk.spawn()?);
    }
    for mut clerk in clerks {
        if !clerk.wait().await?.success() {
            return Err("a clerk failed".into());
        }
    }
    let mut sum = 0;
    for number in 0..ACCOUNTS {
        let balance = balance(bank, number)?;
        println!("  account {number}: {balance:>6}");
        sum += balance;
    }
    let expected = OPENING_BALANCE * i64::try_from(ACCOUNTS)?;
    if sum != expected {
        return Err(format!("the locks did not hold: {sum} instead of {expected}").into());
    }
    println!(
        "Together {sum}, as before: {} transfers in {:.1} s, and nobody waited in a circle.",
        CLERKS * TRANSFERS,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

fn account(bank: &Path, number: u64) -> PathBuf {
    bank.join(format!("account-{number}"))
}

fn balance(bank: &Path, number: u64) -> Result<i64> {
    Ok(fs::read_to_string(account(bank, number))?.parse()?)
}

/// A linear congruential generator, so that each clerk makes the same transfers in every run.
/// Source: Knuth, MMIX.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn two_accounts(&mut self) -> (u64, u64) {
        let from = self.roll(ACCOUNTS);
        (from, (from + 1 + self.roll(ACCOUNTS - 1)) % ACCOUNTS)
    }
}
