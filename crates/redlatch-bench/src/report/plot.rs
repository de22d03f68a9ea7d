//! Plots in SVG: bars of medians with a line from the lowest to the highest round.

use super::{Report, Series};
use crate::stats::{number, quantile};

/// Draws some measures of a report, one panel each.
pub(super) fn plot(report: &Report) -> String {
    let mut measures = report.measures();
    if report.plotted.is_empty() {
        measures.truncate(PANELS);
    } else {
        measures.retain(|measure| report.plotted.contains(measure));
    }
    let panel = report.series.len() as f64 * BAR + HEAD;
    let height = HEAD + panel * measures.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let large = "font-size=\"15\" font-weight=\"bold\"";
    svg += &text(8.0, 20.0, large, &report.heading());
    for (at, measure) in measures.iter().enumerate() {
        svg += &drawn(report, measure, HEAD + panel * at as f64);
    }
    svg + "</svg>\n"
}

/// Draws the panel of one measure, from `top` on.
fn drawn(report: &Report, measure: &str, top: f64) -> String {
    let scale = Scale::of(report.series.iter().flat_map(|one| finite(one, measure)));
    let kind = ["", ", logarithmic"][usize::from(scale.is_logarithmic())];
    let heading = format!("{measure}{kind}");
    let mut svg = text(8.0, top + 22.0, "font-weight=\"bold\"", &heading);
    for (at, series) in report.series.iter().enumerate() {
        let y = (at as f64).mul_add(BAR, top + HEAD);
        let label = format!("{} · {}", series.case, series.contender);
        svg += &text(LEFT - 6.0, y + 13.0, "text-anchor=\"end\"", &label);
        let values = finite(series, measure);
        if values.is_empty() {
            continue;
        }
        let [low, middle, high] = [0.0, 0.5, 1.0].map(|share| quantile(&values, share));
        let (from, to) = (LEFT + scale.length(low), LEFT + scale.length(high));
        let (width, colour) = (scale.length(middle), colour(report, series));
        let (bar, line) = (y + 3.0, y + 9.0);
        svg += &format!(
            "<rect x=\"{LEFT}\" y=\"{bar}\" width=\"{width:.1}\" height=\"12\" fill=\"{colour}\"/>\n\
             <line x1=\"{from:.1}\" y1=\"{line}\" x2=\"{to:.1}\" y2=\"{line}\" stroke=\"black\"/>\n"
        );
        svg += &text(to + 6.0, y + 13.0, "", &number(middle));
    }
    svg
}

fn text(x: f64, y: f64, style: &str, content: &str) -> String {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{y}\" {style}>{content}</text>\n")
}

/// The scale of the bars.
#[derive(Clone, Copy, Debug)]
struct Scale {
    lowest: f64,
    highest: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let positive: Vec<_> = values.filter(|&value| value > 0.0).collect();
        Self {
            lowest: quantile(&positive, 0.0),
            highest: quantile(&positive, 1.0).max(f64::MIN_POSITIVE),
        }
    }

    /// Tells whether the scale is logarithmic. If values differ that much, most bars of a linear
    /// scale would be too short to see.
    fn is_logarithmic(self) -> bool {
        self.highest / self.lowest > 100.0
    }

    fn length(self, value: f64) -> f64 {
        // The shortest bar of a logarithmic scale is that of the lowest value. It must be visible.
        let base = self.lowest / 2.0;
        let share = if self.is_logarithmic() {
            (value / base).max(1.0).ln() / (self.highest / base).ln()
        } else {
            value / self.highest
        };
        share * (WIDTH - LEFT - RIGHT)
    }
}

fn finite(series: &Series, measure: &str) -> Vec<f64> {
    let values = series.values(measure).into_iter();
    values.filter(|value| value.is_finite()).collect()
}

/// Returns the colour of a contender, which is the same everywhere in a report.
fn colour(report: &Report, series: &Series) -> &'static str {
    let mut names: Vec<_> = report.series.iter().map(|one| &one.contender).collect();
    names.sort();
    names.dedup();
    let at = names.iter().position(|name| **name == series.contender);
    COLOURS[at.unwrap_or(0) % COLOURS.len()]
}

const PANELS: usize = 4;
const WIDTH: f64 = 820.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 80.0;
const HEAD: f64 = 30.0;
const BAR: f64 = 18.0;
const COLOURS: [&str; 7] = [
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_as_long_as_there_is_room() {
        for values in [[1.0, 50.0], [0.5, 5_000.0]] {
            let scale = Scale::of([0.0, values[0], values[1]].into_iter());
            let lengths = values.map(|value| scale.length(value));
            assert!((lengths[1] - (WIDTH - LEFT - RIGHT)).abs() < 1e-6);
            assert!(lengths[0] > 5.0 && lengths[0] < 60.0, "{lengths:?}");
            assert!(scale.length(0.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_series_without_a_value_is_no_bar() {
        let mut report = Report::new("W0", "a < b", std::time::Duration::ZERO);
        let mut series = Series::new("1 task", "x");
        series.samples = vec![[("pairs/s", 5.0), ("max/min", f64::INFINITY)].into()];
        report.series = vec![series, Series::new("1 task", "y")];
        let svg = plot(&report);
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("<rect x").count(), 1, "{svg}");
    }
}
