//! The links of the facade's documentation. A reader of the pages of `redlatch` knows no other
//! crate of the family, so its links stay inside of it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::command::root;

/// Returns the folder of the documentation.
pub(crate) fn documentation() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target).join("doc")
}

/// Checks the documentation that exists.
pub(crate) fn check() -> Result<(), String> {
    let (mut pages, mut outside) = (0, Vec::new());
    let mut folders = vec![documentation().join("redlatch")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| cannot_read(&folder, &error))?;
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "html") {
                pages += 1;
                let html = fs::read_to_string(&path).map_err(|error| cannot_read(&path, &error))?;
                let links = outside_links(&html).into_iter();
                outside.extend(links.map(|link| format!("{}: {link}", path.display())));
            }
        }
    }
    println!(
        "redlatch: {pages} pages, {} links to other crates of the family",
        outside.len()
    );
    if pages == 0 || !outside.is_empty() {
        return Err(format!("links that leave the facade's pages: {outside:#?}"));
    }
    Ok(())
}

/// Returns the links to pages of other crates of the family. Links to sources are none.
fn outside_links(html: &str) -> Vec<&str> {
    let links = html.split("href=\"").skip(1);
    let links = links.filter_map(|rest| rest.split('"').next());
    let leaves = |link: &&str| {
        let path = link.trim_start_matches("../");
        path.len() < link.len() && path.starts_with("redlatch_")
    };
    links.filter(leaves).collect()
}

fn cannot_read(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_other_crates_are_found_and_others_are_not() {
        let html = "<a href=\"struct.Lock.html\">a</a><a href=\"../redlatch_core/x.html\">b</a>\
                    <a href=\"../../redlatch_core/y.html#m\">c</a>\
                    <a href=\"../src/redlatch_core/lib.rs.html\">d</a>\
                    <a href=\"https://docs.rs/redlatch_core/z\">e</a>";
        let found = ["../redlatch_core/x.html", "../../redlatch_core/y.html#m"];
        assert_eq!(outside_links(html), found);
    }
}
