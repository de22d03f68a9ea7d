//! The number of public items of the core, counted in its documentation.
//!
//! An item is a type, trait, function, constant or method that a user of the crate sees. Fields,
//! variants, implementations of traits, and what is hidden from the documentation do not count.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use crate::command::{self, cargo, root};

/// The largest accepted number of items. Whoever adds one decides whether users need it.
const CEILING: usize = 186;

/// Documents the core, and checks the number of its items.
pub(crate) fn run() -> Result<(), String> {
    command::run(&mut cargo(&[
        "doc",
        "--package",
        "redlatch-core",
        "--no-deps",
        "--all-features",
    ]))?;
    check()
}

/// Checks the number of items in the documentation that exists.
pub(crate) fn check() -> Result<(), String> {
    let folder = documentation().join("redlatch_core");
    let read = |page: &str| {
        let path = folder.join(page);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let all = read("all.html")?;
    let pages = pages(&all);
    let mut count = 0;
    for page in &pages {
        count += methods(&read(page)?).len();
    }
    let items = pages.len() + count;
    println!(
        "redlatch-core: {items} public items, of which {count} are methods; at most {CEILING}"
    );
    if pages.is_empty() || items > CEILING {
        return Err(format!("{items} public items instead of {CEILING} at most"));
    }
    Ok(())
}

/// Returns the folder with the documentation of all crates.
pub(crate) fn documentation() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target).join("doc")
}

/// Returns the pages of the items that rustdoc's list of all items names.
fn pages(all: &str) -> Vec<&str> {
    let kinds = [
        "struct.",
        "enum.",
        "union.",
        "trait.",
        "fn.",
        "type.",
        "constant.",
        "static.",
        "macro.",
    ];
    let links = all.split("<a href=\"").skip(1);
    let links = links.filter_map(|rest| rest.split('"').next());
    let is_item = |link: &&str| {
        let file = link.rsplit('/').next().unwrap_or(link);
        kinds.iter().any(|kind| file.starts_with(kind))
    };
    links.filter(is_item).collect()
}

/// Returns the anchors of the methods and constants that an item's page documents itself.
fn methods(page: &str) -> BTreeSet<&str> {
    let others = [
        "id=\"deref-methods",
        "id=\"trait-implementations\"",
        "id=\"synthetic-implementations\"",
        "id=\"blanket-implementations\"",
        "id=\"foreign-impls\"",
        "id=\"implementors\"",
    ];
    let ends = others.iter().filter_map(|other| page.find(other));
    let own = &page[..ends.min().unwrap_or(page.len())];
    let anchors = own.split("<section id=\"").skip(1);
    let anchors = anchors.filter_map(|rest| rest.split('"').next());
    let kinds = ["method.", "tymethod.", "associatedconstant."];
    anchors
        .filter(|anchor| kinds.iter().any(|kind| anchor.starts_with(kind)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_those_of_the_list() {
        let all = "<a href=\"../index.html\">x</a><ul><li><a href=\"struct.A.html\">A</a></li>\
                   <li><a href=\"runtime/trait.B.html\">runtime::B</a></li></ul>";
        assert_eq!(pages(all), ["struct.A.html", "runtime/trait.B.html"]);
    }

    #[test]
    fn methods_of_traits_that_an_item_implements_do_not_count() {
        let page = "<section id=\"method.new\" class=\"method\"></section>\
                    <section id=\"associatedconstant.MAX\"></section>\
                    <section id=\"impl-A\"></section>\
                    <h2 id=\"trait-implementations\"></h2><section id=\"method.fmt\"></section>";
        let expected = BTreeSet::from(["associatedconstant.MAX", "method.new"]);
        assert_eq!(methods(page), expected);
    }
}
