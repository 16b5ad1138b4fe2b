//! A bar chart of daily counts, as SVG without a script.

use std::fmt::Write;

const WIDTH: usize = 600;
const HEIGHT: usize = 120;
/// The heights of the space above the bars, which shows the highest count, and of the space below them, which shows the
/// labels of the first and the last day.
const ABOVE: usize = 30;
const BELOW: usize = 28;

/// Returns a chart with a bar for each count in `days`. `label` describes the chart to screen readers. `first` and
/// `last` are the labels of the first and the last day. The bars have no text, because the page also shows the counts
/// in a table.
pub(crate) fn plot(label: &str, (first, last): (&str, &str), days: &[u64]) -> String {
    let most = days.iter().copied().max().unwrap_or(0);
    let step = WIDTH / days.len().max(1);
    let mut svg = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
        HEIGHT + ABOVE + BELOW,
        escaped(label)
    );
    let _ = write!(
        svg,
        "<text x=\"0\" y=\"21\">{most}</text><path d=\"M0 {ABOVE}H{WIDTH}M0 {0}H{WIDTH}\"/><text x=\"0\" y=\"{1}\">{2}</text>\
            <text x=\"{WIDTH}\" y=\"{1}\" text-anchor=\"end\">{3}</text>",
        HEIGHT + ABOVE,
        HEIGHT + ABOVE + BELOW - 4,
        escaped(first),
        escaped(last)
    );
    for (index, count) in days.iter().enumerate().filter(|(_, count)| **count > 0) {
        // Every count above 0 gets a visible bar.
        let height = usize::try_from(u128::from(*count) * HEIGHT as u128 / u128::from(most)).unwrap_or(HEIGHT).max(2);
        let (x, y, width) = (index * step + 1, ABOVE + HEIGHT - height, step.saturating_sub(2).max(1));
        let _ = write!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>");
    }
    svg.push_str("</svg>");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_high_as_its_share_of_the_highest() {
        let svg = plot("Sales \"x\" <b>", ("1 May", "4 May"), &[0, 1, 5, 1_000_000]);
        assert_eq!(svg.matches("<rect").count(), 3, "a day without anything has no bar");
        assert!(svg.contains("height=\"120\"") && svg.contains("height=\"2\""), "{svg}");
        assert!(svg.contains("aria-label=\"Sales &quot;x&quot; &lt;b>\""), "{svg}");
        for days in [&[][..], &[0], &[0, 0], &[u64::MAX, u64::MAX, 1]] {
            let svg = plot("x", ("", ""), days);
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{days:?}");
        }
    }
}
