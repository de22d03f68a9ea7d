//! P3: a register that checks tokens accepts the writes of the rightful holder and stops the
//! others.

/// The protected resources: per name, the token of the last accepted write.
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

    /// Offers a write. The error is the greater token of an earlier write.
    pub(super) fn write(&mut self, name: usize, token: u64) -> Result<(), u64> {
        let fence = &mut self.fences[name];
        if token < *fence {
            return Err(*fence);
        }
        *fence = token;
        Ok(())
    }
}
