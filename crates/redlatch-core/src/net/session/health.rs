//! The health of a connection: whether its server answers, and whether it is a master.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::select;

use super::Session;
use crate::{
    Error, ErrorKind,
    base::{observe, rules::Rule, sync::lock, timeouts},
    protocol::{grant::Dated, time::Moment},
    runtime::{Command, Push, Pushes, Value},
};

impl Session {
    /// Watches the connection until it ends or does not answer any more, and returns the reason.
    pub(in crate::net) async fn watch(&self, pushes: &mut dyn Pushes) -> Error {
        loop {
            let idle_until = lock(&self.progress).heard + timeouts::HEALTH_CHECK;
            let suspected = select! {
                biased;
                push = pushes.next() => {
                    if let Some(push) = push {
                        self.changed(&push);
                        continue;
                    }
                    return Error::unavailable(format!("{} closed the connection", self.address));
                }
                () = self.doubted.notified() => true,
                () = self.world.runtime.sleep_until(idle_until) => false,
            };
            if self.is_condemned() {
                return Error::unavailable(format!("{} takes no writes any more", self.address));
            }
            let now = self.world.now();
            if !suspected && now < lock(&self.progress).heard + timeouts::HEALTH_CHECK {
                continue;
            }
            // Asking for the time also keeps the estimate of the server's clock fresh.
            let bearable = std::mem::replace(&mut *lock(&self.bearable), timeouts::HEALTH_ANSWER);
            if self.time(now + bearable).await.is_err() && lock(&self.progress).heard < now {
                return Error::unavailable(format!("{} does not answer", self.address));
            }
        }
    }

    /// Asks the server for a message about each key that this connection has read, once the key
    /// changes. Needs RESP3.
    pub(in crate::net) async fn ask_for_changes(&self) {
        let tracking = Command::new("CLIENT").arg("TRACKING").arg("ON");
        let deadline = self.world.now() + timeouts::HANDSHAKE;
        match self.ask(tracking, deadline).await {
            Ok(_) => self.world.read_key(None),
            Err(error) => observe::unwatched(&self.address, &error),
        }
    }

    fn changed(&self, push: &Push) {
        // Text that is not UTF-8 is not a key of this client.
        if let Push::Message { payload, .. } = push
            && let Ok(key) = str::from_utf8(payload)
        {
            self.world.read_key((!key.is_empty()).then_some(key));
        }
    }

    /// Makes the supervisor check whether the server responds, and wait for the answer no longer
    /// than `silence`.
    pub(crate) fn suspect(&self, silence: Duration) {
        let mut bearable = lock(&self.bearable);
        let least = timeouts::HEALTH_ANSWER_MIN.max(self.usual);
        *bearable = silence.max(least).min(*bearable);
        drop(bearable);
        self.doubted.notify_one();
    }

    /// Makes the supervisor drop this connection and dial anew, because the server is no master any
    /// more.
    pub(in crate::net) fn condemn(&self) {
        self.is_condemned.store(true, Ordering::Relaxed);
        self.doubted.notify_one();
    }

    /// Fails if the server says that it is no master.
    pub(in crate::net) async fn check_role(&self) -> Result<(), Error> {
        let is_master = self.is_master().await?;
        is_master.then_some(()).ok_or_else(|| self.no_master())
    }

    /// Watches a server that another one may replace. Returns when the server is no master any
    /// more, provided that `asks_role` is set.
    ///
    /// A demoted server refuses writes. Looks, and attempts that find a name taken, write nothing,
    /// and the server would answer them from old data. So a server in use is asked for its role
    /// every second. Every tenth time it is also asked for its time, for a comparison with other
    /// servers' clocks. A server without requests is not asked.
    pub(in crate::net) async fn watch_server(&self, asks_role: bool) -> Error {
        let (mut asked, mut round) = (0, 0_u32);
        loop {
            let runtime = &self.world.runtime;
            let next = runtime.now() + timeouts::ROLE_CHECK;
            runtime.sleep_until(next).await;
            if lock(&self.progress).sent == asked {
                continue;
            }
            // The health check judges silence, and not this check.
            let asks_role = asks_role && self.world.rules.keeps(Rule::LeaveDemoted);
            if asks_role && matches!(self.is_master().await, Ok(false)) {
                return self.no_master();
            }
            round += 1;
            if round.is_multiple_of(CLOCK_CHECK) {
                let _ = self.time(runtime.now() + timeouts::HANDSHAKE).await;
            }
            asked = lock(&self.progress).sent;
        }
    }

    /// Asks the server whether it is a master. A user without the right to `ROLE` gets `true`,
    /// since a replica refuses every write anyway.
    async fn is_master(&self) -> Result<bool, Error> {
        let deadline = self.world.now() + timeouts::HANDSHAKE;
        let role = match self.ask(Command::new("ROLE"), deadline).await {
            Err(error) if error.kind() == ErrorKind::Permission => return Ok(true),
            role => role?,
        };
        let replicas = replicas_of_master(&role);
        if let Some(replicas) = replicas {
            self.saw_replicas(replicas);
        }
        Ok(replicas.is_some())
    }

    fn no_master(&self) -> Error {
        let why = format!("{} is no master", self.address);
        Error::unavailable(why)
    }

    /// Asks for the server's time and updates the clock estimates.
    pub(in crate::net) async fn time(&self, deadline: Moment) -> Result<(), Error> {
        let sent = self.world.now();
        let reply = self.ask(Command::new("TIME"), deadline).await?;
        let millis = time_millis(&reply)
            .ok_or_else(|| Error::new(ErrorKind::Protocol, format!("TIME replied {reply:?}")))?;
        self.observe(millis);
        self.date(Dated { sent, millis });
        let received = lock(&self.progress).heard;
        self.world
            .clocks
            .read(&self.address, sent, received, millis);
        Ok(())
    }

    /// Returns a lower bound of the server's uptime. A restart of the server ends the session.
    pub(crate) async fn server_age(&self, deadline: Moment) -> Result<Duration, Error> {
        let (uptime, asked) = match self.age.get() {
            Some(known) => *known,
            None => {
                let asked = self.world.now();
                let info = Command::new("INFO").arg("server");
                let info = self.ask(info, deadline).await?;
                let uptime = uptime(info.as_str().unwrap_or_default());
                let uptime = uptime.ok_or_else(|| Error::bad_reply("INFO", &info))?;
                *self.age.get_or_init(|| (uptime, asked))
            }
        };
        Ok(uptime + (self.world.now() - asked))
    }
}

/// Reads the reply to `ROLE`: the number of replicas of a master, or `None` for any other server.
pub(in crate::net) fn replicas_of_master(reply: &Value) -> Option<u32> {
    match reply.as_array()? {
        [role, _, replicas] if role.as_str() == Some("master") => {
            let replicas = replicas.as_array().map_or(0, <[Value]>::len);
            Some(u32::try_from(replicas).unwrap_or(u32::MAX))
        }
        _ => None,
    }
}

/// Reads the reply of `TIME`, in milliseconds since the epoch.
pub(in crate::net) fn time_millis(reply: &Value) -> Option<u64> {
    let [seconds, micros] = reply.as_array()? else {
        return None;
    };
    let seconds = u64::try_from(seconds.as_int()?).ok()?;
    let micros = u64::try_from(micros.as_int()?).ok()?;
    seconds.checked_mul(1000)?.checked_add(micros / 1000)
}

/// Returns the uptime in a server's `INFO`. The server reports whole seconds, and one second is
/// subtracted for safety.
fn uptime(info: &str) -> Option<Duration> {
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("uptime_in_seconds:"))?;
    let seconds: u64 = line.trim_end().parse().ok()?;
    Some(Duration::from_secs(seconds.saturating_sub(1)))
}

/// The server's time is requested in one of this many rounds.
const CLOCK_CHECK: u32 = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::values::{any_value, damaged, many_cases};

    #[test]
    fn time_that_no_clock_shows_is_refused() {
        for (seconds, micros, millis) in [
            (1_700_000_000, 5_999, Some(1_700_000_000_005)),
            (i64::MAX, 0, None),
            (-1, 0, None),
            (0, -1, None),
        ] {
            let read = time_millis(&time(seconds, micros));
            assert_eq!(read, millis, "{seconds} {micros}");
        }
    }

    fn time(seconds: i64, micros: i64) -> Value {
        Value::Array(
            [seconds, micros]
                .map(|number| Value::Bulk(number.to_string().into()))
                .into(),
        )
    }

    fn role(name: &str, replicas: usize) -> Value {
        let replicas = vec![Value::Array(Vec::new()); replicas];
        let name = Value::Bulk(name.into());
        Value::Array(vec![name, Value::Int(7), Value::Array(replicas)])
    }

    const WORDS: &[&str] = &["", "0", "-1", "9223372036854775807", "master", "slave"];

    proptest! {
        #![proptest_config(many_cases())]

        #[test]
        fn time_is_read_in_milliseconds(seconds in 0..1_i64 << 40, micros in 0..1_000_000_i64) {
            let millis = u64::try_from(seconds * 1000 + micros / 1000).unwrap();
            prop_assert_eq!(time_millis(&time(seconds, micros)), Some(millis));
        }

        #[test]
        fn any_time_and_role_are_read_or_refused(
            reply in prop_oneof![
                any_value(WORDS),
                damaged(Just(time(1, 2)), WORDS),
                damaged(Just(role("master", 2)), WORDS),
            ],
        ) {
            let _ = time_millis(&reply);
            if replicas_of_master(&reply).is_some() {
                prop_assert_eq!(reply.as_array().unwrap()[0].as_str(), Some("master"));
            }
        }

        #[test]
        fn replicas_of_a_master_are_counted(count in 0_usize..5) {
            let expected = u32::try_from(count).unwrap();
            prop_assert_eq!(replicas_of_master(&role("master", count)), Some(expected));
            prop_assert_eq!(replicas_of_master(&role("slave", count)), None);
        }

        #[test]
        fn any_uptime_is_read_or_refused(text in "([0-9]{0,22}|\\PC{0,8})") {
            let info = format!("# Server\r\nuptime_in_seconds:{text}\r\n");
            let seconds = text.trim_end().parse::<u64>().ok();
            let expected = seconds.map(|seconds| Duration::from_secs(seconds.saturating_sub(1)));
            prop_assert_eq!(uptime(&info), expected);
            prop_assert_eq!(uptime(&text), None);
        }
    }
}
