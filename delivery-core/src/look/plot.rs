//! A bar chart of daily counts, as SVG without a script.

use std::fmt::Write;

use super::grouped;

/// The size of the drawing in units of the SVG. The page stretches the drawing to the available width.
const WIDTH: usize = 600;
const HEIGHT: usize = 120;

/// Returns a chart of the counts of `days`. A day with the count 0 has no bar. `label` describes the chart to screen
/// readers. Beside the chart, the page shows the highest count and the first and the last day as text, and all counts
/// in a table.
pub(crate) fn plot(label: &str, days: &[(String, u64)]) -> String {
    let most = days.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let mut svg = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\
            <path d=\"M0 .5H{WIDTH}M0 {}H{WIDTH}M0 {}H{WIDTH}\"/>",
        escaped(label),
        HEIGHT / 2,
        HEIGHT - 1
    );
    let of = days.len().max(1);
    for (index, (day, count)) in days.iter().enumerate().filter(|(_, (_, count))| *count > 0) {
        // Every count above 0 gets a visible bar.
        let height = usize::try_from(u128::from(*count) * HEIGHT as u128 / u128::from(most)).unwrap_or(HEIGHT).max(2);
        let (begin, end) = (index * WIDTH / of, (index + 1) * WIDTH / of);
        let (y, width) = (HEIGHT - height, (end - begin).saturating_sub(if of > 60 { 0 } else { 2 }).max(1));
        let _ = write!(
            svg,
            "<rect x=\"{begin}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"><title>{}: {}</title></rect>",
            escaped(day),
            grouped(&count.to_string())
        );
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

    fn days(counts: &[u64]) -> Vec<(String, u64)> {
        (1..).zip(counts).map(|(day, count)| (format!("{day} May"), *count)).collect()
    }

    #[test]
    fn a_bar_is_as_high_as_its_share_of_the_highest() {
        let svg = plot("Sales \"x\" <b>", &days(&[0, 1, 5, 1_000_000]));
        assert_eq!(svg.matches("<rect").count(), 3, "a day without anything has no bar");
        assert!(svg.contains("height=\"120\"") && svg.contains("height=\"2\""), "{svg}");
        assert!(svg.contains("aria-label=\"Sales &quot;x&quot; &lt;b>\""), "{svg}");
        assert!(svg.contains("<title>3 May: 5</title>"), "{svg}");
        for counts in [&[][..], &[0], &[0, 0], &[u64::MAX, u64::MAX, 1], &[1; 365]] {
            let svg = plot("x", &days(counts));
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{counts:?}");
        }
    }
}
