//! The server whose behaviour the engine has.

/// The server whose rules and texts the engine follows where servers differ.
///
/// The crate's differential tests compare each model with the real server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Model {
    /// Redis 6.2: time moves inside a script, errors of scripts are wrapped, no sharded pub/sub.
    Redis6_2,
    /// Redis 7.0: time moves inside a script, errors of scripts keep their code in front.
    #[default]
    Redis7_0,
    /// Valkey 9.1: time stands still inside a script.
    Valkey9_1,
}

impl Model {
    /// All models, oldest first.
    pub const ALL: [Self; 3] = [Self::Redis6_2, Self::Redis7_0, Self::Valkey9_1];

    /// Tells whether the clock moves on while a script runs. `TIME` reads this clock, and `PEXPIRE`
    /// counts from it.
    pub const fn time_moves_in_scripts(self) -> bool {
        !matches!(self, Self::Valkey9_1)
    }

    /// Tells whether an error raised in a script comes as `ERR Error running script …`.
    pub const fn wraps_script_errors(self) -> bool {
        matches!(self, Self::Redis6_2)
    }

    /// Tells whether this server has the additions of Redis 7.0, such as `SPUBLISH`.
    pub const fn is_seven(self) -> bool {
        !matches!(self, Self::Redis6_2)
    }

    /// Returns the name of the server in errors and in `INFO`.
    pub(crate) const fn product(self) -> &'static str {
        match self {
            Self::Redis6_2 | Self::Redis7_0 => "Redis",
            Self::Valkey9_1 => "Valkey",
        }
    }

    /// Returns the version lines of `INFO server`.
    pub(crate) const fn version_info(self) -> &'static str {
        match self {
            Self::Redis6_2 => "redis_version:6.2.14\r\n",
            Self::Redis7_0 => "redis_version:7.0.15\r\n",
            Self::Valkey9_1 => {
                "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n"
            }
        }
    }
}
