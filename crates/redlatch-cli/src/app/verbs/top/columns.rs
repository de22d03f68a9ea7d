//! Which columns a display of some width has, and how wide they are. Pure.

/// The place of the bar among the titles of [`TITLES`].
pub(super) const BAR: usize = 5;

/// The titles of all columns.
pub(super) const TITLES: [&str; 8] = [
    "NAME", "KIND", "HELD BY", "FOR", "LEFT", "", "WAITING", "STATE",
];

const NAME: usize = 0;
const HELD_BY: usize = 2;
const STATE: usize = 7;

/// The columns that a narrow display goes without, in order. Name and holder stay.
const SPARED: [usize; 6] = [BAR, 3, 6, 1, STATE, 4];

/// The width up to which a column keeps others out. A longer text is cut if there is no more room.
const fn enough(column: usize) -> usize {
    match column {
        NAME => 32,
        HELD_BY => 40,
        STATE => 14,
        _ => usize::MAX,
    }
}

/// Returns the columns to show on `width` characters, each with its width. `needs` are the longest
/// cells of all columns.
pub(super) fn choose(width: usize, needs: [usize; 8]) -> Vec<(usize, usize)> {
    let asked = |column: usize| needs[column].max(TITLES[column].len()).min(enough(column));
    let mut shown: Vec<usize> = (0..TITLES.len()).collect();
    let sum = |shown: &[usize]| {
        let widths: usize = shown.iter().map(|&column| asked(column)).sum();
        widths + shown.len().saturating_sub(1)
    };
    for column in SPARED {
        if sum(&shown) <= width {
            break;
        }
        shown.retain(|&other| other != column);
    }
    let mut rest = width.saturating_sub(sum(&shown));
    let mut chosen: Vec<_> = shown
        .iter()
        .map(|&column| (column, asked(column)))
        .collect();
    // What is left goes to the texts that were cut.
    for wanting in [HELD_BY, NAME, STATE] {
        for (column, wide) in &mut chosen {
            if *column == wanting {
                let more = rest.min(needs[wanting].saturating_sub(*wide));
                *wide += more;
                rest -= more;
            }
        }
    }
    if let [(NAME, name), (HELD_BY, holder)] = &mut chosen[..]
        && *name + *holder + 1 > width
    {
        let both = width.saturating_sub(1);
        *name = (*name).min(both.saturating_sub(*holder).max(both * 2 / 5));
        *holder = both - *name;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest cells of some objects: name, kind, holder with its note, age, rest, bar, number
    /// of waiters, state.
    const NEEDS: [usize; 8] = [17, 9, 46, 5, 5, 10, 7, 29];

    #[test]
    fn bar_goes_first_and_then_age_and_name_and_holder_stay() {
        let shown = |width| {
            let chosen = choose(width, NEEDS);
            let sum: usize = chosen.iter().map(|(_, wide)| wide).sum();
            assert!(sum + chosen.len() - 1 <= width, "{width}: {chosen:?}");
            let titles = chosen.iter().map(|(column, _)| match *column {
                BAR => "bar",
                column => TITLES[column],
            });
            titles.collect::<Vec<_>>().join(" ")
        };
        for (width, titles) in [
            (160, "NAME KIND HELD BY FOR LEFT bar WAITING STATE"),
            (114, "NAME KIND HELD BY FOR LEFT bar WAITING STATE"),
            (110, "NAME KIND HELD BY FOR LEFT WAITING STATE"),
            (100, "NAME KIND HELD BY LEFT WAITING STATE"),
            (80, "NAME HELD BY LEFT STATE"),
            (64, "NAME HELD BY LEFT"),
            (46, "NAME HELD BY"),
            (10, "NAME HELD BY"),
        ] {
            assert_eq!(shown(width), titles, "{width}");
        }
        assert_eq!(choose(46, NEEDS), [(0, 17), (2, 28)]);
        assert_eq!(choose(160, NEEDS)[2], (2, 46), "the note has room");
    }
}
