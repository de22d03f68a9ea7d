//! A number that changes all the time, while many acquire and give back.

use std::sync::{Arc, Mutex};

use redlatch::{ErrorKind, Semaphore};
use redlatch_behaviours::prelude::*;
use redlatch_behaviours::semaphore::assert_all_back;

/// How long an answer may be under way until its caller has it.
const UNDER_WAY: Duration = Duration::from_millis(20);

/// What is out, and which numbers there were, each with when it was surely replaced.
#[derive(Debug, Default)]
struct Book {
    out: u32,
    number: u32,
    coming: u32,
    before: Vec<(u32, Instant)>,
    served: u32,
    refused: u32,
    too_many: Vec<(u32, u32)>,
}

impl Book {
    fn changed(&mut self) {
        self.before.push((self.number, Instant::now()));
        self.number = self.coming;
    }

    /// Notes if more are out than there were when this was granted; more may be out only of those
    /// that were granted before.
    fn granted(&mut self, n: u32) {
        self.out += n;
        self.served += 1;
        let lately = self.before.iter();
        let lately = lately.filter(|(_, until)| until.elapsed() <= UNDER_WAY);
        let most = lately.map(|(number, _)| *number).max();
        let most = most.unwrap_or(0).max(self.number).max(self.coming);
        if self.out > most {
            self.too_many.push((self.out, most));
        }
    }
}

async fn work(semaphore: Semaphore, n: u32, book: Arc<Mutex<Book>>, end: Instant) {
    let mut rng = fastrand::Rng::with_seed(u64::from(n));
    while Instant::now() < end {
        match semaphore.acquire_many(n).await {
            Ok(guard) => {
                book.lock().unwrap().granted(n);
                tokio::time::sleep(rng.u32(1..80) * MS).await;
                book.lock().unwrap().out -= n;
                guard.release().await.unwrap();
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfRange, "{error}");
                book.lock().unwrap().refused += 1;
                tokio::time::sleep(10 * MS).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resizing_under_load_wakes_waiters_at_once() {
    let (backend, clients) = embedded::<2>().await;
    let semaphore = clients[0].semaphore("x");
    semaphore.set_permits(6).await.unwrap();
    let book = Arc::new(Mutex::new(Book {
        number: 6,
        ..Book::default()
    }));
    let end = Instant::now() + 20_000 * MS;
    let workers = (0..16).map(|who: usize| {
        let (semaphore, n) = (clients[who % 2].semaphore("x"), 1 + who as u32 % 4);
        tokio::spawn(work(semaphore, n, Arc::clone(&book), end))
    });
    let workers: Vec<_> = workers.collect();
    let mut rng = fastrand::Rng::with_seed(5);
    while Instant::now() < end {
        let number = rng.u32(1..12);
        book.lock().unwrap().coming = number;
        if rng.bool() {
            semaphore.set_permits(number).await.unwrap();
        } else {
            let change = i64::from(number) - i64::from(semaphore.permits().await.unwrap());
            assert_eq!(semaphore.add_permits(change).await.unwrap(), number);
        }
        book.lock().unwrap().changed();
        tokio::time::sleep(rng.u32(1..300) * MS).await;
    }
    book.lock().unwrap().coming = 12;
    semaphore.set_permits(12).await.unwrap();
    finished(workers).await;
    {
        let book = book.lock().unwrap();
        let (served, refused) = (book.served, book.refused);
        println!(
            "{} numbers, {served} served, {refused} refused",
            book.before.len()
        );
        assert_eq!(book.too_many, []);
        assert!(served > 500 && refused > 10);
    }
    clients[1].settled().await;
    assert_all_back(&backend, &clients[0], &semaphore).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 12);
}
