//! The fence of data in this process.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redlatch_core::Token;

use crate::Fenced;

/// Data of this process that only the holder of the highest token may write to. It serves a process
/// that others write through, such as a service in front of a store.
///
/// Check and write are under one mutex, so no write of an earlier holder lands after one of a later
/// holder. The mark begins at the lowest token and lives as long as the gate. If the data outlives
/// the process, store the mark with it, and [`raise`](Self::raise) it at the start.
///
/// # Examples
///
/// ```
/// use redlatch::Token;
/// use redlatch::fence::{FenceGate, Fenced};
///
/// let stock = FenceGate::new(10);
/// let (early, late) = (Token::from_u64(1), Token::from_u64(2));
/// assert_eq!(stock.write(late, |stock| *stock -= 1), Fenced::Written(()));
/// assert_eq!(stock.write(early, |stock| *stock -= 1), Fenced::Refused { mark: late });
/// assert_eq!(stock.read(|stock| *stock), 9);
/// ```
pub struct FenceGate<T> {
    /// The mark and the data.
    inner: Mutex<(Token, T)>,
}

impl<T> FenceGate<T> {
    /// Creates a gate in front of `data` that has seen no token.
    ///
    /// ```
    /// use redlatch::Token;
    /// use redlatch::fence::FenceGate;
    ///
    /// let invoices = FenceGate::new(Vec::<String>::new());
    /// assert_eq!(invoices.mark(), Token::from_u64(0)); // accepts every token
    /// ```
    pub const fn new(data: T) -> Self {
        Self {
            inner: Mutex::new((Token::from_u64(0), data)),
        }
    }

    /// Runs `write` if no higher token has written, and advances the mark to `token`.
    ///
    /// `write` must not block for long, and must not use the gate. The mark has advanced even if
    /// `write` panics.
    ///
    /// ```
    /// use redlatch::Token;
    /// use redlatch::fence::FenceGate;
    ///
    /// let invoices = FenceGate::new(Vec::new());
    /// let number = invoices.write(Token::from_u64(7), |all| {
    ///     all.push("order 42");
    ///     all.len()
    /// });
    /// assert_eq!(number.written(), Some(1));
    /// ```
    pub fn write<R>(&self, token: Token, write: impl FnOnce(&mut T) -> R) -> Fenced<R> {
        let (mark, data) = &mut *self.lock();
        if token < *mark {
            return Fenced::Refused { mark: *mark };
        }
        *mark = token;
        Fenced::Written(write(data))
    }

    /// Runs `read` on the data, without a token.
    ///
    /// ```
    /// use redlatch::fence::FenceGate;
    ///
    /// let stock = FenceGate::new(10);
    /// assert_eq!(stock.read(|left| *left), 10); // any caller may read
    /// ```
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.lock().1)
    }

    /// Advances the mark to `token` and changes no data.
    ///
    /// ```
    /// use redlatch::Token;
    /// use redlatch::fence::FenceGate;
    ///
    /// // The store has kept the mark over a restart of this process.
    /// let stock = FenceGate::new(10);
    /// assert!(stock.raise(Token::from_u64(7)).is_written());
    /// assert!(!stock.write(Token::from_u64(6), |left| *left -= 1).is_written());
    /// ```
    pub fn raise(&self, token: Token) -> Fenced {
        self.write(token, |_| ())
    }

    /// Returns the highest token that has written.
    ///
    /// ```
    /// use redlatch::Token;
    /// use redlatch::fence::FenceGate;
    ///
    /// let stock = FenceGate::new(10);
    /// assert!(stock.write(Token::from_u64(7), |left| *left -= 1).is_written());
    /// assert_eq!(stock.mark(), Token::from_u64(7)); // store the mark with the data
    /// ```
    pub fn mark(&self) -> Token {
        self.lock().0
    }

    /// Returns the mark to its beginning. Any token may write then. See
    /// [`Fence::reset`](crate::Fence::reset) for when that is right.
    ///
    /// ```
    /// use redlatch::Token;
    /// use redlatch::fence::FenceGate;
    ///
    /// let stock = FenceGate::new(10);
    /// assert!(stock.raise(Token::from_u64(7)).is_written());
    /// stock.reset(); // the server of the lock has lost its data, and its clock was set back
    /// assert!(stock.raise(Token::from_u64(1)).is_written());
    /// ```
    pub fn reset(&self) {
        self.lock().0 = Token::from_u64(0);
    }

    /// Returns the data.
    ///
    /// ```
    /// use redlatch::Token;
    /// use redlatch::fence::FenceGate;
    ///
    /// let stock = FenceGate::new(10);
    /// assert!(stock.write(Token::from_u64(7), |left| *left -= 1).is_written());
    /// assert_eq!(stock.into_inner(), 9);
    /// ```
    pub fn into_inner(self) -> T {
        self.inner
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .1
    }

    /// A panic in `write` leaves the data as a panic elsewhere in the process would: the mark is
    /// right, and the caller decides about the data.
    fn lock(&self) -> MutexGuard<'_, (Token, T)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for FenceGate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceGate")
            .field("mark", &self.mark())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        thread,
    };

    use super::*;

    fn token(number: u64) -> Token {
        Token::from_u64(number)
    }

    #[test]
    fn late_writer_is_refused() {
        let gate = FenceGate::new(Vec::new());
        assert!(gate.write(token(5), |data| data.push(5)).is_written());
        assert!(gate.write(token(5), |data| data.push(5)).is_written());
        assert_eq!(
            gate.write(token(4), |data| data.push(4)),
            Fenced::Refused { mark: token(5) }
        );
        assert_eq!(gate.raise(token(7)), Fenced::Written(()));
        assert!(!gate.write(token(6), |data| data.push(6)).is_written());
        gate.reset();
        assert!(gate.write(token(1), |data| data.push(1)).is_written());
        assert_eq!((gate.mark(), gate.into_inner()), (token(1), vec![5, 5, 1]));
    }

    #[test]
    fn panic_of_a_write_leaves_the_mark() {
        let gate = FenceGate::new(());
        let write = || gate.write(token(3), |()| panic!("the write is broken"));
        assert!(catch_unwind(AssertUnwindSafe(write)).is_err());
        assert_eq!(gate.mark(), token(3));
        assert!(!gate.raise(token(2)).is_written());
    }

    #[test]
    fn marks_of_many_threads_never_fall() {
        let gate = FenceGate::new(Vec::new());
        thread::scope(|scope| {
            for first in 0..4 {
                let gate = &gate;
                scope.spawn(move || {
                    for number in (first..400).step_by(4) {
                        let _ = gate.write(token(number), |data| data.push(number));
                    }
                });
            }
        });
        assert!(gate.into_inner().is_sorted());
    }
}
