//! Changes that are not holds. The client repeats a change until it is answered, and the server
//! remembers it, so that it takes effect once.

use std::time::Duration;

use crate::{
    Client, Error,
    base::{
        items::Items,
        owner::AttemptId,
        rules::Rule,
        script::{CallOutcome, Failure, ScriptCall},
        timeouts,
    },
    net::{Dispatch, Limit, LinkClass, Request, Response},
    protocol::{remains::Effect, time::Moment},
};

/// How long a script has to remember the id of a change, whatever it replied, so that no copy acts
/// on it again.
///
/// The client sends copies for 20 s at most, and each copy may act for 5 s.
pub const REMEMBERED: Duration = timeouts::CHANGE_REMEMBERED;

impl Client {
    /// Sends a change until it is answered, within the client's `patience` and for 20 s at most.
    ///
    /// `build` builds the dated call from the id that its script remembers for [`REMEMBERED`].
    /// `read` reads the reply, unless it says that the request came too late to act.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change takes effect once or not at all, at most 5 s after it
    /// was last sent.
    pub(crate) async fn change<R>(
        &self,
        build: impl Fn(&AttemptId) -> ScriptCall + Send + Sync,
        read: impl FnOnce(&Items<'_>) -> Result<R, Error> + Send,
    ) -> Result<R, Error> {
        self.check_closing()?;
        let deadline = self.now() + self.0.patience.min(timeouts::CHANGE_COPIES);
        let mut call = build(&self.draw_attempt());
        let mut unknown = false;
        let mut failures = 0;
        loop {
            self.net().world.life.check_all()?;
            let (outcome, before) = self.change_once(&call, deadline).await;
            unknown |= before != Effect::Nothing;
            let failure = match outcome {
                CallOutcome::Replied(reply) | CallOutcome::Bare(reply) => {
                    let items = Items::new(call.script(), &reply)?;
                    if items.text(1)? != "late" {
                        return read(&items);
                    }
                    // The reply contained the server's time, so the next request is dated
                    // correctly.
                    Failure::NotSent("the server gets requests too late to act".to_owned())
                }
                CallOutcome::Failed(failure) => failure,
            };
            self.check_process()?;
            unknown |= !failure.is_not_executed();
            failures += 1;
            let next =
                self.now() + timeouts::REQUEST_RETRY.delay(failures, self.runtime().random());
            let redirected = matches!(failure, Failure::Redirected(_));
            if redirected || failure.is_final() || next >= deadline {
                return Err(failure.into_error(unknown));
            }
            if !self.keeps(Rule::ResendSameId) {
                call = build(&self.draw_attempt());
            }
            self.alarm(next).await;
        }
    }

    /// Sends a change once. Returns its outcome, and the effect of a list that was refused before.
    async fn change_once(&self, call: &ScriptCall, deadline: Moment) -> (CallOutcome, Effect) {
        let up_by = deadline.min(self.now() + timeouts::REQUEST);
        if let Err(error) = self.net().check_away(call.slot()) {
            return (CallOutcome::Failed(Failure::Fatal(error)), Effect::Nothing);
        }
        // No order is kept between changes, so those whose script serves lists may go together.
        let sent = self.send_once(call, up_by, deadline, Dispatch::Together);
        match sent.await {
            Ok((response, _)) => {
                let before = response.before;
                (response.into_single().0, before)
            }
            Err(failure) => (CallOutcome::Failed(failure), Effect::Nothing),
        }
    }

    /// Sends a call once, and also returns when. Fails without a session `up_by`.
    pub(super) async fn send_once(
        &self,
        call: &ScriptCall,
        up_by: Moment,
        deadline: Moment,
        dispatch: Dispatch,
    ) -> Result<(Response, Moment), Failure> {
        let net = self.net();
        let session = net.router.session(call.slot(), LinkClass::Command, up_by);
        let session = session.await.map_err(Failure::of_session)?;
        let sent = self.now();
        let request = Request {
            calls: &[call],
            act_before: self.act_before(&session, sent),
            limit: Limit {
                silence: timeouts::REQUEST,
                deadline,
            },
            replication: None,
            dispatch,
            checked: None,
        };
        Ok((net.send(&session, &request).await, sent))
    }
}
