//! Recordings as what the page draws.

use super::{super::page, *};

fn line(at: u64, event: &str, token: u64) -> String {
    format!(
        "{{\"v\":1,\"at_ms\":{at},\"event\":\"{event}\",\"name\":\"a</script>\",\
         \"kind\":\"lock\",\"holder\":{{\"owner\":\"c1:{token}\",\"token\":{token},\
         \"age_ms\":50,\"remaining_ms\":9}}}}"
    )
}

/// Reads a recording of these lines.
fn recorded(lines: impl IntoIterator<Item = String>) -> Timeline {
    let mut recording = Recording::default();
    for line in lines {
        recording.add(&line).unwrap();
    }
    recording.end()
}

#[test]
fn holds_begin_by_their_age_and_end_when_they_are_gone() {
    let timeline = recorded([
        line(1_000, "held", 7),
        line(2_000, "renewed", 7),
        line(3_000, "gone", 7),
        line(3_000, "held", 8),
        line(4_000, "renewed", 8),
    ]);
    assert_eq!((timeline.from, timeline.to), (950, 4_000));
    assert_eq!(timeline.lanes, ["client c1"]);
    let spans: Vec<_> = timeline
        .holds
        .iter()
        .map(|hold| (hold.from, hold.to, hold.renewals.len(), hold.open))
        .collect();
    // The second one has it, so the first one had ended before the look that missed it.
    assert_eq!(spans, [(950, 2_950, 1, false), (2_950, 4_000, 1, true)]);
}

#[test]
fn nothing_ends_before_it_begins_although_the_clock_is_set_back() {
    let timeline = recorded([
        line(2_000, "held", 7),
        line(2_100, "unanswered", 7),
        line(1_000, "answered", 7),
        line(1_100, "gone", 7),
    ]);
    assert_eq!(timeline.silences, [(1_000, 1_000)]);
    let hold = &timeline.holds[0];
    assert_eq!((hold.from, hold.to), (1_100, 1_100));
}

#[test]
fn deadlines_follow_renewals_and_end_holds_without_a_recorded_end() {
    let exact = |at, event, token, valid: u64| {
        line(at, event, token).replace("\"remaining_ms\"", &format!("\"valid_ms\":{valid},\"r\""))
    };
    let timeline = recorded([
        exact(1_000, "held", 7, 500),
        exact(1_400, "renewed", 7, 600),
        exact(1_500, "held", 8, 500),
        exact(1_600, "held", 9, 900),
        exact(2_300, "gone", 8, 0).replace("\"valid_ms\":0,", ""),
    ]);
    let holds = timeline.holds;
    let spans: Vec<_> = holds.iter().map(|hold| (hold.to, hold.deadline)).collect();
    assert_eq!(
        spans,
        [
            // Its process was killed.
            (2_000, Some(2_000)),
            // Its guard lived for longer than the hold.
            (2_300, Some(2_000)),
            (2_300, Some(2_500)),
        ]
    );
}

#[test]
fn losses_and_silences_are_kept() {
    let mut recording = Recording::default();
    recording.add(&line(1_000, "held", 7)).unwrap();
    for (at, event) in [
        (1_110, "unanswered"),
        (1_200, "unanswered"),
        (1_500, "answered"),
        (1_710, "unanswered"),
    ] {
        // The server did not answer from the beginning of the look on.
        let began = at - 10;
        let line = format!("{{\"v\":1,\"at_ms\":{at},\"event\":\"{event}\",\"began_ms\":{began}}}");
        recording.add(&line).unwrap();
    }
    let lost = line(1_800, "lost", 7).replace("\"v\":1", "\"v\":1,\"cause\":\"expired\"");
    recording.add(&lost).unwrap();
    let timeline = recording.end();
    assert_eq!(timeline.silences, [(1_100, 1_500), (1_700, 1_800)]);
    assert_eq!(timeline.holds[0].lost, Some((1_800, "expired".to_owned())));
    assert!(timeline.holds[0].open);
    let nobody = "{\"v\":1,\"at_ms\":1,\"event\":\"held\"}";
    assert!(Recording::default().add(nobody).is_err());
}

#[test]
fn two_who_rely_on_one_name_are_marked() {
    let hold = |owner: &str, access: &str, (from, to, valid): (u64, u64, u64)| {
        let line = |at: u64, event: &str| {
            format!(
                "{{\"v\":1,\"at_ms\":{at},\"event\":\"{event}\",\"name\":\"a\",\"kind\":\"rw\",\
                 \"holder\":{{\"owner\":\"{owner}:1\",\"access\":\"{access}\",\"token\":1{}}}}}",
                if valid > 0 {
                    format!(",\"valid_ms\":{valid}")
                } else {
                    String::new()
                }
            )
        };
        [(from, line(from, "held")), (to, line(to, "gone"))]
    };
    let overlaps = |holds: &[[(u64, String); 2]]| {
        let mut lines = holds.concat();
        lines.sort();
        recorded(lines.into_iter().map(|(_, line)| line))
    };
    let write = |owner, times| hold(owner, "write", times);
    let both = overlaps(&[
        write("c1", (0, 900, 5_000)),
        write("c2", (500, 2_000, 5_000)),
    ]);
    assert_eq!(both.overlaps, [(0, 1, 500, 900)]);
    // The deadline of the first one has passed, so it does not rely on the name any more.
    let late = overlaps(&[write("c1", (0, 900, 400)), write("c2", (500, 2_000, 5_000))]);
    assert_eq!((late.overlaps.len(), late.holds[0].relied), (0, 400));
    let readers = [("c1", (0, 900, 5_000)), ("c2", (500, 2_000, 5_000))];
    let readers = readers.map(|(owner, times)| hold(owner, "read", times));
    assert_eq!(overlaps(&readers).overlaps, []);
    // A look has seen the end of the first one late.
    let seen = overlaps(&[write("c1", (0, 900, 0)), write("c2", (500, 2_000, 0))]);
    assert_eq!((seen.overlaps.len(), seen.holds[0].to), (0, 500));
}

#[test]
fn names_cannot_end_the_data_of_the_page() {
    let page = page(&recorded([line(1, "held", 7)]));
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.contains("a\\u003c/script>"), "the name is there");
}

#[test]
fn other_lines_are_refused() {
    let mut recording = Recording::default();
    let newer = line(1, "held", 7).replace("\"v\":1", "\"v\":2");
    for wrong in ["", "{}", "[1]", newer.as_str()] {
        assert!(recording.add(wrong).is_err(), "{wrong}");
    }
}
