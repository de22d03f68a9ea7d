//! The slot of a key, as a server computes it.

use redlatch_core::family::{Key, Name, Prefix, slot_of};

use crate::prelude::*;

redlatch_tests::on_every_server!(computed_slots_are_those_of_the_server,);

// L50
async fn computed_slots_are_those_of_the_server(binary: ServerBinary) {
    let node = Server::start(&binary, ServerOptions::new().cluster());
    let mut server = node.connect().unwrap();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let prefix = Prefix::default();
    for _ in 0..3_000 {
        let name: String = (0..random.usize(1..24))
            .map(|_| *random.choice(ALPHABET).unwrap())
            .collect();
        let key = Key::new(&prefix, &Name::parse(&name).unwrap());
        let (slot, part) = (key.slot(), key.part("q"));
        let computed = [slot, slot, slot_of(name.as_bytes())];
        let slots = [key.as_str(), &part, &name].map(|key| key_slot(&mut server, key));
        assert_eq!(computed, slots, "{name:?}, seed {seed}");
        assert_eq!(Key::decode(&prefix, key.as_str()).unwrap().as_str(), name);
    }
}

fn key_slot(server: &mut Connection, key: &str) -> u16 {
    let slot = server.command(&["CLUSTER", "KEYSLOT", key]).unwrap();
    slot.int().try_into().unwrap()
}

const ALPHABET: &[char] = &[
    '{', '}', '{', '}', '%', '@', ':', 'a', 'b', 'c', ' ', 'ä', '🔒', '*', '\n', '\0',
];
