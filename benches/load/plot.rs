//! Throughput against connections, as an SVG.

use std::path::Path;

use plotters::prelude::*;

type Curve = (&'static str, [(u32, f64); 5]);

/// Of Okabe and Ito: told apart by everybody.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(120, 120, 120),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

pub fn draw(file: &Path, curves: &[Curve]) {
    let root = SVGBackend::new(file, (880, 520)).into_drawing_area();
    root.fill(&WHITE).unwrap();
    let most = curves.iter().flat_map(|(_, points)| points).map(|(_, speed)| *speed).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .caption("counted fetches of 2 KB, SQLite, every count synced", ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(72)
        .build_cartesian_2d((1_u32..256_u32).log_scale().with_key_points(vec![1, 4, 16, 64, 256]), 0.0..most * 1.05)
        .unwrap();
    let mesh = &mut chart.configure_mesh();
    mesh.x_desc("connections").y_desc("requests a second").y_label_formatter(&|speed| format!("{speed:.0}"));
    mesh.light_line_style(TRANSPARENT).draw().unwrap();
    for ((name, points), colour) in curves.iter().zip(COLOURS) {
        let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3);
        let series = chart.draw_series(line).unwrap().label(*name);
        series.legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let labels = &mut chart.configure_series_labels();
    labels
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()
        .unwrap();
    root.present().unwrap();
}
