//! The items of scripts' replies.

use std::{iter, time::Duration};

use super::script::Script;
use crate::{protocol::grant::Notice, runtime::Value};

/// The items of a script's reply, which are checked as they are read.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    script: &'static Script,
    reply: &'a Value,
    list: List<'a>,
}

/// A list of items, or its text form with a space between items, which costs the server less.
#[derive(Clone, Copy, Debug)]
enum List<'a> {
    Values(&'a [Value]),
    Text(Words<'a>),
}

/// The words of a text. These texts are short and are read very often, so the first words are found
/// in one pass.
#[derive(Clone, Copy, Debug)]
struct Words<'a> {
    /// The first words, and the rest of the text.
    first: [&'a str; FIRST + 1],
    len: usize,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        let (mut first, mut len) = ([""; FIRST + 1], 0);
        for (place, word) in first.iter_mut().zip(text.splitn(FIRST + 1, ' ')) {
            *place = word;
            len += 1;
        }
        let more = first[FIRST].matches(' ').count();
        Self {
            first,
            len: len + more,
        }
    }

    fn get(&self, at: usize) -> Option<&'a str> {
        match at {
            _ if at >= self.len => None,
            ..FIRST => Some(self.first[at]),
            _ => self.first[FIRST].split(' ').nth(at - FIRST),
        }
    }
}

/// The number of words that most replies have at most.
const FIRST: usize = 8;

impl<'a> List<'a> {
    fn text(self, at: usize) -> Option<&'a str> {
        match self {
            Self::Values(values) => values.get(at)?.as_str(),
            Self::Text(words) => words.get(at),
        }
    }
}

impl<'a> Items<'a> {
    /// Wraps a reply of `script`, which must be a list or its text form.
    pub fn new(script: &'static Script, reply: &'a Value) -> Result<Self, crate::Error> {
        let text = || reply.as_str().map(Words::of).map(List::Text);
        let list = reply.as_array().map(List::Values).or_else(text);
        let list = list.ok_or_else(|| crate::Error::bad_reply(script.name, reply))?;
        Ok(Self {
            script,
            reply,
            list,
        })
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        match self.list {
            List::Values(values) => values.len(),
            List::Text(words) => words.len,
        }
    }

    /// Tells whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the text at `at`.
    pub fn text(&self, at: usize) -> Result<&'a str, crate::Error> {
        self.list.text(at).ok_or_else(|| self.bad())
    }

    /// Returns the item at `at` as the server sent it. `None` for a reply in the text form.
    pub fn value(&self, at: usize) -> Option<&'a Value> {
        match self.list {
            List::Values(values) => values.get(at),
            List::Text(_) => None,
        }
    }

    /// Returns the whole number at `at`.
    pub fn number<N: TryFrom<i64>>(&self, at: usize) -> Result<N, crate::Error> {
        let number = match self.list {
            List::Values(values) => values.get(at).and_then(Value::as_int),
            List::Text(_) => self.list.text(at).and_then(|text| text.parse().ok()),
        };
        number
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| self.bad())
    }

    /// Returns the whole number at `at`; `None` for an empty text.
    pub fn maybe<N: TryFrom<i64>>(&self, at: usize) -> Result<Option<N>, crate::Error> {
        match self.list.text(at) {
            Some("") => Ok(None),
            _ => self.number(at).map(Some),
        }
    }

    /// Returns the error of a reply that is not one of the expected: `kind` names the kind of the
    /// object that has the name, instead of `wanted`.
    pub fn other<T>(&self, wanted: &str) -> Result<T, crate::Error> {
        match self.text(1)? {
            "kind" => Err(crate::Error::wrong_kind(self.text(2)?, wanted)),
            _ => Err(self.bad()),
        }
    }

    /// Returns a span in milliseconds.
    pub fn span(&self, at: usize) -> Result<Duration, crate::Error> {
        self.number(at).map(Duration::from_millis)
    }

    /// Like [`span`](Self::span), unless the item is empty.
    pub fn maybe_span(&self, at: usize) -> Result<Option<Duration>, crate::Error> {
        Ok(self.maybe(at)?.map(Duration::from_millis))
    }

    /// Returns whether the item is 1.
    pub fn flag(&self, at: usize) -> Result<bool, crate::Error> {
        Ok(self.number::<u8>(at)? == 1)
    }

    /// Returns the error of a reply that cannot be decoded.
    pub fn bad(&self) -> crate::Error {
        crate::Error::bad_reply(self.script.name, self.reply)
    }
}

/// Returns a script's reply as a list. [`Items`] reads the text form directly.
pub fn listed(reply: Value) -> Value {
    let Value::Bulk(text) = reply else {
        return reply;
    };
    let items = text.split(|&byte| byte == b' ');
    Value::Array(items.map(|item| Value::Bulk(item.to_vec())).collect())
}

/// A grant to a waiter, as the reply of the release that gave it reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportedGrant<'a> {
    /// The attempt of the waiter, `<client>:<n>`.
    pub(crate) attempt: &'a str,
    /// The notice. `None` if the reply only says that the attempt holds.
    pub(crate) notice: Option<Notice>,
}

/// Returns the grants that the reply of a release reports: `granted`, the attempt and the notice
/// for each of them. The reply to a repeated release has `holds` and the attempt instead.
pub(crate) fn reported_grants(reply: &Value) -> impl Iterator<Item = ReportedGrant<'_>> {
    let text = reply.as_str().into_iter().flat_map(|text| text.split(' '));
    let list = reply.as_array().into_iter().flatten();
    let list = list.map(|item| item.as_str().unwrap_or_default());
    let mut words = text.chain(list);
    iter::from_fn(move || {
        let word = words.find(|&word| word == "granted" || word == "holds")?;
        let attempt = words.next()?;
        let notice = match word {
            "granted" => Notice::parse(words.next()?),
            _ => None,
        };
        Some(ReportedGrant { attempt, notice })
    })
}

/// Returns the server's time, with which a script's reply starts.
pub(crate) fn server_millis(reply: &Value) -> Option<u64> {
    let first = match reply {
        Value::Array(values) => values.first()?.as_str()?,
        text => text.as_str()?.split(' ').next()?,
    };
    first.parse().ok()
}

#[cfg(test)]
mod tests {
    use redlatch_lua::REENTRANT;

    use super::*;

    static SCRIPT: &Script = &REENTRANT.acquire;

    #[test]
    fn a_text_stands_for_the_list_of_its_items() {
        let text = "1795300000123 granted 1 1795300000123456 0 ";
        let text = Value::Bulk(text.into());
        for reply in [listed(text.clone()), text] {
            let items = Items::new(SCRIPT, &reply).unwrap();
            assert_eq!((items.len(), items.text(1).unwrap()), (6, "granted"));
            assert_eq!(items.number::<u64>(3).unwrap(), 1_795_300_000_123_456);
            assert_eq!(items.text(5).unwrap(), "");
            assert_eq!(items.maybe::<u8>(5).unwrap(), None);
            assert_eq!(items.maybe::<u8>(4).unwrap(), Some(0));
            assert!(items.maybe::<u8>(1).is_err() && items.maybe::<u8>(6).is_err());
            assert!(items.text(6).is_err() && items.number::<u8>(1).is_err());
            assert_eq!(server_millis(&reply), Some(1_795_300_000_123));
        }
        assert!(Items::new(SCRIPT, &Value::Int(1)).is_err());
    }

    #[test]
    fn reply_of_a_release_reports_each_grant() {
        let word = "g00000000000000ab.1795300000123456.1795300005123.0";
        let text = format!("1795300000123 released 0 granted c:17 {word} holds d:4 granted e:1");
        let reply = Value::Bulk(text.into());
        for reply in [listed(reply.clone()), reply] {
            let found: Vec<_> = reported_grants(&reply).collect();
            let first = ReportedGrant {
                attempt: "c:17",
                notice: Notice::parse(word),
            };
            let second = ReportedGrant {
                attempt: "d:4",
                notice: None,
            };
            assert!(first.notice.is_some());
            assert_eq!(found, [first, second]);
        }
        for other in [
            Value::Nil,
            Value::Int(4),
            Value::Bulk("1 released 0".into()),
        ] {
            assert_eq!(reported_grants(&other).count(), 0);
        }
        // An item that is no text has its place.
        let items = [Value::Bulk("holds".into()), Value::Int(1), Value::Nil];
        let found: Vec<_> = reported_grants(&Value::Array(items.to_vec()))
            .map(|grant| grant.attempt)
            .map(str::to_owned)
            .collect();
        assert_eq!(found, [""]);
    }
}
