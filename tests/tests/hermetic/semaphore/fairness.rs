//! Who asks for few and who asks for many are served in the order in which they came, for ten
//! seconds.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use redlatch::Semaphore;
use redlatch_behaviours::prelude::*;
use redlatch_behaviours::semaphore::assert_all_back;

const PERMITS: u32 = 8;

/// Who waits, what is out, and what became of each worker, as the workers know it.
#[derive(Debug, Default)]
struct Book {
    waiting: BTreeMap<usize, (Instant, u32)>,
    out: u32,
    served: BTreeMap<usize, Served>,
    overtaken: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Served {
    permits: u32,
    times: u32,
    longest: Duration,
}

impl Book {
    fn came(&mut self, who: usize, n: u32) {
        self.waiting.insert(who, (Instant::now(), n));
    }

    /// Everybody who came before must have enough left.
    fn granted(&mut self, who: usize) {
        let (came, n) = self.waiting.remove(&who).unwrap();
        self.out += n;
        let served = self.served.entry(who).or_default();
        served.permits = n;
        served.times += 1;
        served.longest = served.longest.max(came.elapsed());
        let before = self.waiting.values().filter(|(other, _)| *other < came);
        let needed: u32 = before.map(|(_, n)| *n).sum();
        self.overtaken += u32::from(self.out + needed > PERMITS);
    }

    fn gives_back(&mut self, n: u32) {
        self.out -= n;
    }

    fn tell_and_check(&self) {
        for n in [1, 2, 5] {
            let of_size = self.served.values().filter(|served| served.permits == n);
            let times: Vec<_> = of_size.clone().map(|served| served.times).collect();
            let longest = of_size.map(|served| served.longest).max().unwrap();
            println!(
                "who needs {n} of {PERMITS}: served {times:?} times, waited {longest:?} at most"
            );
        }
        assert_eq!(self.overtaken, 0);
        let times = || self.served.values().map(|served| served.times);
        let (least, most) = (times().min().unwrap(), times().max().unwrap());
        assert!(least * 5 >= most * 4, "{least} to {most} times");
    }
}

async fn work(semaphore: Semaphore, who: usize, n: u32, book: Arc<Mutex<Book>>) {
    let mut rng = fastrand::Rng::with_seed(who as u64);
    let end = Instant::now() + 10_000 * MS;
    while Instant::now() < end {
        book.lock().unwrap().came(who, n);
        let guard = semaphore.acquire_many(n).await.unwrap();
        book.lock().unwrap().granted(who);
        tokio::time::sleep(rng.u32(5..50) * MS).await;
        book.lock().unwrap().gives_back(n);
        guard.release().await.unwrap();
        // So that no two come at the same time.
        tokio::time::sleep(rng.u32(100..2_000) * MS / 1_000).await;
    }
}

// L32
#[tokio::test(start_paused = true)]
async fn sizes_1_2_and_5_are_served_in_order_of_arrival_for_ten_seconds() {
    let backend = Backend::embedded();
    let clients: [_; 3] = clients(&backend).await;
    let book = Arc::new(Mutex::new(Book::default()));
    let workers = (0..18).map(|who: usize| {
        let semaphore = clients[who / 3 % 3].semaphore("x");
        let n = [1, 2, 5][who % 3];
        let semaphore = semaphore.permits_if_unset(PERMITS);
        tokio::spawn(work(semaphore, who, n, Arc::clone(&book)))
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    book.lock().unwrap().tell_and_check();
    for client in &clients[1..] {
        client.settled().await;
    }
    assert_all_back(&backend, &clients[0], &clients[0].semaphore("x")).await;
}
