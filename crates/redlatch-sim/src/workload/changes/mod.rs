//! Compares the replies to changes of latches and fences with models, which say exactly what each
//! script has to answer.

pub mod model;

use redlatch_core::runtime::Value;

use self::model::Answer;
use crate::scripts::Ran;

/// Returns how the reply of the server differs from the right one, if it does.
pub(super) fn differs(ran: &Ran<'_>, right: &Answer) -> Option<String> {
    let items = (2..).map_while(|at| ran.item(at));
    let said = items.map(|item| match item {
        Value::Int(number) => number.to_string(),
        other => other.as_str().unwrap_or_default().to_owned(),
    });
    let (said, right) = (said.collect::<Vec<_>>(), &right.words);
    (said != *right).then(|| {
        let (script, op) = (ran.source.name, ran.arg(2));
        format!("{script} of {op} is answered {said:?}, and not {right:?}")
    })
}
