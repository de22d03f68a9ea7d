//! What every script does first: the server's time is read once, before anything else, so that all
//! of a script happens at one instant.

#[test]
fn time_is_read_once_and_first() {
    let mut scripts = 0;
    for source in redlatch_lua::all() {
        let name = source.name;
        let code: Vec<_> = source.text.lines().map(without_comment).collect();
        let reads = code.iter().filter(|line| line.contains("'TIME'")).count();
        assert_eq!(reads, 1, "{name} reads TIME {reads} times");
        // What is indented belongs to a function, which runs when it is called.
        let first = code
            .iter()
            .filter(|line| !line.starts_with(char::is_whitespace))
            .find(|line| line.contains("call('"));
        let is_time = first.is_some_and(|line| line.contains("call('TIME')"));
        assert!(is_time, "{name} calls something else first: {first:?}");
        scripts += 1;
    }
    assert!(scripts >= 6, "only {scripts} scripts were found");
}

#[test]
fn a_script_that_reads_late_would_be_noticed() {
    let code = without_comment("local a = 1 -- call('TIME')");
    assert_eq!(code, "local a = 1 ");
    assert_eq!(without_comment("-- 'TIME'"), "");
}

fn without_comment(line: &str) -> &str {
    line.split_once("--").map_or(line, |(code, _)| code)
}
