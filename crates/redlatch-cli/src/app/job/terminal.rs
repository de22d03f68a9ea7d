//! The terminal, and which process group has its foreground.

use std::{fs::File, io::IsTerminal};

use nix::sys::signal::{SigSet, Signal};
use rustix::{
    process::{Pid, getpgrp},
    termios::{tcgetpgrp, tcsetpgrp},
};

/// The controlling terminal.
#[derive(Debug)]
pub(crate) struct Terminal(File);

impl Terminal {
    /// Opens the controlling terminal, if there is one.
    pub(crate) fn open() -> Option<Self> {
        let both = File::options().read(true).write(true).open("/dev/tty");
        both.ok().map(Self)
    }

    /// Tells whether a command should get the foreground: this group has it, and the command reads
    /// and writes the terminal. In a pipeline the other members need the foreground as well.
    pub(crate) fn is_for_command(&self) -> bool {
        self.is_of(getpgrp()) && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }

    /// Tells whether `group` has the foreground.
    pub(crate) fn is_of(&self, group: Pid) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|found| found == group)
    }

    /// Gives the foreground to `group`.
    pub(crate) fn give(&self, group: Pid) {
        // A background process that does this is stopped by SIGTTOU unless it blocks the signal.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        let blocked = stop.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        // A terminal that is gone has no foreground.
        let _ = tcsetpgrp(&self.0, group);
        if let Ok(before) = blocked {
            let _ = before.thread_set_mask();
        }
    }

    /// Takes the foreground back from `group`, if that has it.
    pub(crate) fn take_from(&self, group: Pid) {
        if self.is_of(group) {
            self.give(getpgrp());
        }
    }
}
