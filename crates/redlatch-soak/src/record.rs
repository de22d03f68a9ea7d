//! Records as lines of text: a word, then `name=value` for each field. Times are microseconds of
//! the machine's clock.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Hold(Hold),
    Fault(Fault),
    Write(Write),
    Round(Round),
    Wait(Wait),
}

/// A hold, for as long as its guard passed its check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hold {
    /// A number that is unique in the run.
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) name: String,
    /// The units of `limit` that it takes: a lock takes 1 of 1, a writer all, a reader 1.
    pub(crate) units: u32,
    pub(crate) limit: u32,
    /// The token, or 0 for holds without a rising one.
    pub(crate) token: u64,
    /// The times at which the acquisition began, at which it returned, and at which the guard last
    /// passed its check.
    pub(crate) asked: u64,
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// The time of the reply to the release that freed the name; 0 if there was none.
    pub(crate) gone: u64,
    /// Whether all replicas had to confirm the grant.
    pub(crate) durable: bool,
}

/// An injected fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: String,
    /// The period from the beginning of the fault until servers and replicas agreed again.
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// The names whose server it hit.
    pub(crate) names: Vec<String>,
    /// The takeover by another server without the old one's consent, if there was one. Acknowledged
    /// data may then be lost.
    pub(crate) takeover: Option<Takeover>,
}

/// A period in which two servers may have been active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Takeover {
    /// The time until which only the old server was active.
    pub(crate) began: u64,
    /// The period in which the old server was dead; both times are the same if it was not.
    pub(crate) died: u64,
    pub(crate) back: u64,
    /// The time from which the old server no longer answered as a master: it was dead for good, or
    /// knew that it was a replica.
    pub(crate) ended: u64,
}

/// A wait that exceeded the time limit of every worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) kind: String,
    /// All names for which it waited.
    pub(crate) names: Vec<String>,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// A write to the guarded set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) name: String,
    pub(crate) token: u64,
    /// The times at which the writer requested the lock, read the set, and wrote it.
    pub(crate) asked: u64,
    pub(crate) read: u64,
    pub(crate) at: u64,
    pub(crate) accepted: bool,
    /// Whether the writer's guard passed its check right before the write.
    pub(crate) valid: bool,
    /// The number of other writers' elements that it overwrote.
    pub(crate) lost: u32,
}

/// One life of a latch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) count: u32,
    /// The greatest possible number of count-downs that had begun when the first waiter passed;
    /// `count` if none did.
    pub(crate) begun: u32,
    /// The number of answered count-downs.
    pub(crate) counted: u32,
    /// The times at which the first count-down was sent, and the last one was answered; 0 if none
    /// was.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The time at which the first waiter passed; 0 if none did.
    pub(crate) opened: u64,
    /// The number of waiters that passed, and of waiters that waited in vain to their end.
    pub(crate) passed: u32,
    pub(crate) stuck: u32,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold(hold) => hold.write(f),
            Self::Fault(fault) => fault.write(f),
            Self::Write(write) => write.write(f),
            Self::Round(round) => round.write(f),
            Self::Wait(wait) => wait.write(f),
        }
    }
}

impl FromStr for Record {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let fields = Fields(
            rest.split(' ')
                .filter_map(|field| field.split_once('='))
                .collect(),
        );
        match word {
            "hold" => Hold::read(&fields).map(Self::Hold),
            "fault" => Fault::read(&fields).map(Self::Fault),
            "write" => Write::read(&fields).map(Self::Write),
            "round" => Round::read(&fields).map(Self::Round),
            "wait" => Wait::read(&fields).map(Self::Wait),
            _ => Err(format!("no record begins with {word:?}")),
        }
    }
}

/// Writes a record as its word and `field=value` for each field, and reads it by the same names.
macro_rules! fields {
    ($record:ident $word:literal $($field:ident)+) => {
        impl $record {
            fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($word)?;
                $(write!(f, concat!(" ", stringify!($field), "={}"), self.$field)?;)+
                Ok(())
            }

            fn read(fields: &Fields<'_>) -> Result<Self, String> {
                Ok(Self { $($field: fields.get(stringify!($field))?,)+ })
            }
        }
    };
}

fields!(Hold "hold" id kind name units limit token asked from until gone durable);
fields!(Write "write" name token asked read at accepted valid lost);
fields!(Round "round" name from until count begun counted first last opened passed stuck);

impl Fault {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            from,
            until,
            names,
            takeover,
        } = self;
        let names = names.join(",");
        let Takeover {
            began,
            died,
            back,
            ended,
        } = takeover.unwrap_or_default();
        write!(
            f,
            "fault kind={kind} from={from} until={until} names={names}"
        )?;
        write!(f, " began={began} died={died} back={back} ended={ended}")
    }

    fn read(fields: &Fields<'_>) -> Result<Self, String> {
        let takeover = Takeover {
            began: fields.get("began")?,
            died: fields.get("died")?,
            back: fields.get("back")?,
            ended: fields.get("ended")?,
        };
        Ok(Self {
            kind: fields.get("kind")?,
            from: fields.get("from")?,
            until: fields.get("until")?,
            names: fields.names()?,
            takeover: (takeover.ended > 0).then_some(takeover),
        })
    }
}

impl Wait {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            names,
            from,
            until,
        } = self;
        let names = names.join(",");
        write!(
            f,
            "wait kind={kind} names={names} from={from} until={until}"
        )
    }

    fn read(fields: &Fields<'_>) -> Result<Self, String> {
        Ok(Self {
            kind: fields.get("kind")?,
            names: fields.names()?,
            from: fields.get("from")?,
            until: fields.get("until")?,
        })
    }
}

struct Fields<'a>(BTreeMap<&'a str, &'a str>);

impl Fields<'_> {
    fn names(&self) -> Result<Vec<String>, String> {
        let names: String = self.get("names")?;
        let names = names.split(',').filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }

    fn get<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let text = self.0.get(name).ok_or_else(|| format!("no {name}"))?;
        text.parse()
            .map_err(|_| format!("{text:?} is not a {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: &str = "fault kind=flush from=1 until=2 names= began=0 died=0 back=0 ended=0";

    #[test]
    fn records_are_written_as_read() {
        for line in [
            "hold id=7 kind=lock name=a units=1 limit=2 token=1790000000000001 asked=3 from=4 \
             until=5 gone=6 durable=true",
            "fault kind=crash from=1 until=2 names=a,b began=3 died=4 back=5 ended=6",
            FLUSH,
            "write name=set token=5 asked=7 read=1 at=2 accepted=false valid=true lost=3",
            "round name=latch from=1 until=2 count=3 begun=4 counted=5 first=6 last=7 opened=8 \
             passed=9 stuck=0",
            "wait kind=multi names=a,b from=1 until=2",
        ] {
            assert_eq!(line.parse::<Record>().unwrap().to_string(), line);
        }
        let flush: Record = FLUSH.parse().unwrap();
        assert!(matches!(flush, Record::Fault(fault) if fault.takeover.is_none()));
        assert!("nonsense a=1".parse::<Record>().is_err());
        assert!("hold id=x".parse::<Record>().is_err());
    }
}
