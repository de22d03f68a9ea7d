//! Locks that stand for many keys.

use crate::prelude::*;

behaviours! {
    Cluster:
        keys_of_one_stripe_exclude_each_other_and_no_others,
        all_stripes_together_are_every_key;
}

async fn keys_of_one_stripe_exclude_each_other_and_no_others([a, b]: [Client; 2]) {
    let rows = a.striped_lock("rows", 4).unwrap();
    let others = b.striped_lock("rows", 4).unwrap();
    let guard = rows.of("row:1").lock().await.unwrap();
    for number in 0..40 {
        let key = format!("row:{number}");
        assert_eq!(rows.index(&key), others.index(&key));
        let taken = others.of(&key).try_lock().await.unwrap();
        assert_eq!(taken.is_none(), rows.index(&key) == rows.index("row:1"));
        if let Some(taken) = taken {
            taken.release().await.unwrap();
        }
    }
    // Another number of stripes is another set of names.
    let more = b.striped_lock("rows", 5).unwrap();
    assert!(more.of("row:1").try_lock().await.unwrap().is_some());
    guard.release().await.unwrap();
}

async fn all_stripes_together_are_every_key(client: Client) {
    let rows = client.striped_lock("rows", 3).unwrap();
    let stripes: Vec<_> = rows.stripes().collect();
    assert_eq!(stripes.len(), 3);
    let members: Vec<_> = stripes.iter().map(|lock| lock as &dyn Lockable).collect();
    let all = client.multi_lock(&members).lock().await.unwrap();
    for key in ["a", "b", "c", "d", "e"] {
        assert!(rows.of(key).try_lock().await.unwrap().is_none());
    }
    all.release().await.unwrap();
    // Keys that may share a stripe are taken once.
    let (one, two) = (rows.of("a"), rows.of("a"));
    assert_eq!(client.multi_lock(&[&one, &two]).len(), 1);
}
