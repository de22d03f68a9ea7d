//! Names out of paths.

use http::request::Parts;
use percent_encoding::percent_decode_str;

/// Returns the decoded parameters of a request's path, which `route` names as axum does; `None` if
/// the path has another shape. They are equal for all spellings of one path, such as `/orders/42`
/// and `/orders/%34%32`, so that they are fit to be part of a name.
///
/// A part `{id}` of the route stands for one part of the path that is not empty, and `{*rest}` at
/// its end for all that follows. All other parts have to be as they are in the route, without
/// decoding. Bytes that are not UTF-8 become U+FFFD; axum's `Path` refuses such a request. In a
/// router that is nested in another one, the path begins after the prefix.
///
/// ```
/// use axum::http::request::Parts;
/// use redlatch_tower::{LockLayer, path_parameters};
///
/// # fn example(client: redlatch::Client) -> LockLayer {
/// LockLayer::new(move |request: &Parts| {
///     let [shop, order] = path_parameters(request, "/shops/{shop}/orders/{id}")?;
///     Some(client.lock(format!("order:{shop}:{order}")))
/// })
/// # }
/// ```
///
/// # Panics
///
/// If the route has not exactly `N` parameters.
#[must_use]
#[track_caller]
pub fn path_parameters<const N: usize>(request: &Parts, route: &str) -> Option<[String; N]> {
    let wanted: Vec<_> = route.split('/').map(Part::of).collect();
    let parameters = wanted.iter().filter(|part| part.is_parameter()).count();
    assert!(
        parameters == N,
        "the route {route:?} has {parameters} parameters, and {N} are taken from it"
    );
    let values = values(&wanted, request.uri.path())?;
    values.try_into().ok()
}

/// A part of a route, between two slashes.
enum Part<'a> {
    Fixed(&'a str),
    One,
    Rest,
}

impl<'a> Part<'a> {
    fn of(part: &'a str) -> Self {
        match part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'))
        {
            Some(name) if name.starts_with('*') => Self::Rest,
            Some(_) => Self::One,
            None => Self::Fixed(part),
        }
    }

    const fn is_parameter(&self) -> bool {
        !matches!(self, Self::Fixed(_))
    }
}

/// Returns the decoded values of the parameters, if the path has this shape.
fn values(wanted: &[Part<'_>], path: &str) -> Option<Vec<String>> {
    let mut rest = Some(path);
    let mut values = Vec::new();
    for part in wanted {
        let left = rest?;
        let (first, behind) = match left.split_once('/') {
            Some((first, behind)) if !matches!(part, Part::Rest) => (first, Some(behind)),
            _ => (left, None),
        };
        match part {
            Part::Fixed(text) if *text == first => {}
            Part::One | Part::Rest if !first.is_empty() => {
                let decoded = percent_decode_str(first).decode_utf8_lossy();
                values.push(decoded.into_owned());
            }
            _ => return None,
        }
        rest = behind;
    }
    rest.is_none().then_some(values)
}
