//! The clock, tasks, transport and timers of a client.

use std::sync::Arc;

use super::{Alarms, Clocks, Strays, alarm::Alarm};
use crate::{
    base::{
        life::Life,
        rules::Rules,
        sync::{Mutex, lock},
    },
    protocol::{apart::Apart, time::Moment},
    runtime::{Address, Runtime, TlsOptions, Transport},
};

/// The environment of all code below the engine.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) life: Arc<Life>,
    alarms: Arc<Alarms>,
    pub(crate) clocks: Arc<Clocks>,
    /// Notifications without a listener.
    pub(crate) strays: Arc<Strays>,
    /// Names whose calls are not merged with others.
    pub(crate) apart: Arc<Apart>,
    /// The keys of holds to be read, because a hold is new or the key has changed. `None` if the
    /// client does not ask for changes.
    pub(crate) changed: Option<Arc<Strays>>,
    pub(super) tls: Arc<ReplacedTls>,
    pub(crate) rules: Rules,
}

impl World {
    pub(crate) fn new(
        runtime: Arc<dyn Runtime>,
        transport: Arc<dyn Transport>,
        clocks: Clocks,
        life: Arc<Life>,
        (watch_keys, rules): (bool, Rules),
    ) -> Self {
        let alarms = Alarms::start(&runtime, &life);
        Self {
            runtime,
            transport,
            life,
            alarms,
            clocks: Arc::new(clocks),
            strays: Arc::default(),
            apart: Arc::default(),
            changed: watch_keys.then(Arc::default),
            tls: Arc::default(),
            rules,
        }
    }

    /// Records that the key of a hold has to be read, or the keys of all holds for `None`. Does
    /// nothing if the client does not ask for changes.
    pub(crate) fn read_key(&self, key: Option<&str>) {
        let Some(changed) = &self.changed else { return };
        if !key.is_some_and(|key| changed.add(key.into())) {
            // Without room for one more, all are read.
            changed.connected();
        }
    }

    /// Returns the alarms, for tasks that outlive the rest of the client.
    pub(crate) const fn alarms(&self) -> &Arc<Alarms> {
        &self.alarms
    }

    /// Returns a future that resolves at `at`, or when all background work has ended. It suits
    /// futures that may be polled outside of the client's runtime, and time-outs that rarely
    /// expire.
    pub(crate) fn alarm(&self, at: Moment) -> Alarm {
        self.alarms.at(at)
    }

    pub(crate) fn now(&self) -> Moment {
        self.runtime.now()
    }

    /// Resolves when all background work has to end.
    pub(crate) async fn ended(&self) {
        self.life.stopped().await;
    }
}

/// The TLS options that the user has replaced, and those for later connections.
#[derive(Debug, Default)]
pub(super) struct ReplacedTls(Mutex<Option<(TlsOptions, TlsOptions)>>);

impl ReplacedTls {
    /// Replaces the TLS options `old`, which the client was built with.
    pub(super) fn replace(&self, old: TlsOptions, new: TlsOptions) {
        *lock(&self.0) = Some((old, new));
    }

    /// Returns `address` with the TLS options for a connection made now.
    pub(super) fn apply(&self, address: &Address) -> Address {
        let mut address = address.clone();
        if let Address::Tls { options, .. } = &mut address
            && let Some((old, new)) = &*lock(&self.0)
            && options == old
        {
            options.clone_from(new);
        }
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_certificates_of_sentinels_are_not_replaced() {
        let options = |root: &str| TlsOptions {
            root_pem: Some(root.into()),
            ..TlsOptions::default()
        };
        let address = |root| Address::Tls {
            host: "h".to_owned(),
            port: 1,
            options: options(root),
        };
        let tls = ReplacedTls::default();
        assert_eq!(tls.apply(&address("old")), address("old"));
        for new in ["new", "newer"] {
            tls.replace(options("old"), options(new));
            assert_eq!(tls.apply(&address("old")), address(new));
            assert_eq!(tls.apply(&address("of sentinels")), address("of sentinels"));
        }
    }
}
