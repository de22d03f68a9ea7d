//! P3: a register that checks tokens takes the rightful holder's writes and stops the others.

/// What the names protect: per name the token of the last write taken.
#[derive(Debug)]
pub(super) struct Register {
    fences: Vec<u64>,
}

impl Register {
    pub(super) fn new(names: usize) -> Self {
        Self {
            fences: vec![0; names],
        }
    }

    /// Offers a write; the error is the token that has been there.
    pub(super) fn write(&mut self, name: usize, token: u64) -> Result<(), u64> {
        let fence = &mut self.fences[name];
        if token < *fence {
            return Err(*fence);
        }
        *fence = token;
        Ok(())
    }
}
