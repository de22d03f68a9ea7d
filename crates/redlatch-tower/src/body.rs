//! A response body that keeps a lock or a permit until it has been sent.

use std::{
    error, fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use redlatch::LossCause;

use crate::service::Hold;

type BoxError = Box<dyn error::Error + Send + Sync>;

pin_project! {
    /// The body of a response. With [`Until::Body`](crate::Until::Body) it keeps the request's lock
    /// or permit until its end, or until it is dropped.
    ///
    /// If the hold is lost in the meantime, the body ends with an error, so that the client does
    /// not take it as complete. With [`PassThrough`](crate::Unavailable::PassThrough) it goes on.
    pub struct HeldBody<B> {
        #[pin]
        inner: Option<B>,
        refusal: Option<&'static str>,
        hold: Option<Hold>,
        lost: Option<Pin<Box<dyn Future<Output = LossCause> + Send>>>,
    }
}

impl<B: Body> HeldBody<B> {
    /// Creates a body that keeps `hold`, unless it has ended already. `stops` says whether the body
    /// ends with the hold.
    pub(crate) fn held(inner: B, hold: Option<Hold>, stops: bool) -> Self {
        let hold = hold.filter(|_| !inner.is_end_stream());
        let lost = hold.as_ref().filter(|_| stops).map(|hold| hold.lost());
        Self {
            hold,
            lost,
            ..Self::free(inner)
        }
    }
}

impl<B> HeldBody<B> {
    /// Creates a body that keeps nothing.
    pub(crate) const fn free(inner: B) -> Self {
        Self {
            inner: Some(inner),
            refusal: None,
            hold: None,
            lost: None,
        }
    }

    /// Creates the body of a refusal, which says why.
    pub(crate) const fn refusal(text: &'static str) -> Self {
        Self {
            inner: None,
            refusal: Some(text),
            hold: None,
            lost: None,
        }
    }
}

impl<B: Body<Data: From<&'static [u8]>, Error: Into<BoxError>>> Body for HeldBody<B> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else {
            let text = this.refusal.take().map(str::as_bytes);
            return Poll::Ready(text.map(|text| Ok(Frame::data(text.into()))));
        };
        if let (Some(hold), Some(lost)) = (&this.hold, &mut this.lost) {
            // The check reads the clock, so it finds a loss that no timer has reported yet.
            let found = lost.as_mut().poll(context).is_ready();
            let checked = hold.check();
            if found || checked.is_err() {
                *this.lost = None;
                *this.hold = None;
                this.inner.set(None);
                let error = checked.err().map_or_else(|| LOST.into(), BoxError::from);
                return Poll::Ready(Some(Err(error)));
            }
        }
        let frame = ready!(inner.poll_frame(context));
        let inner = this.inner.as_ref().as_pin_ref();
        let has_ended = inner.is_none_or(|inner| inner.is_end_stream());
        if has_ended || !matches!(frame, Some(Ok(_))) {
            *this.lost = None;
            *this.hold = None;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.refusal.is_none() && self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let refusal = || SizeHint::with_exact(self.refusal.map_or(0, str::len) as u64);
        self.inner.as_ref().map_or_else(refusal, Body::size_hint)
    }
}

impl<B> fmt::Debug for HeldBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldBody")
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}

const LOST: &str = "the hold of the request was lost while its response was sent";
