//! The chart: each peer's median as a multiple of ours, on a logarithmic scale.

use crate::{Outcome, Row, bytes, duration, ratio};

/// Grey and the two colours read on a light and on a dark page.
const GREY: &str = "#808890";
const BEHIND: &str = "#d64550";
const AHEAD: &str = "#c77f11";

const NAMES: f64 = 290.0; // where the names end
const LEFT: f64 = 304.0;
const RIGHT: f64 = 920.0;
const LINE: f64 = 19.0;

pub fn draw(measured: &[(Row, Vec<Outcome>)]) -> String {
    let drawn = || measured.iter().filter(|(row, _)| row.drawn);
    let all = drawn().flat_map(|(_, outcomes)| peers(outcomes)).map(|(_, _, times)| times.log10());
    let all: Vec<_> = all.collect();
    let first = all.iter().copied().fold(0.0, f64::min).floor();
    let last = all.iter().copied().fold(1.0, f64::max).ceil();
    let x = |times: f64| LEFT + (times.log10() - first) / (last - first) * (RIGHT - LEFT);
    let decades = || (0..).map(|i| first + f64::from(i)).take_while(|decade| *decade <= last);

    let mut body = String::new();
    for decade in decades() {
        let label = if decade < 6.0 { ratio(10_f64.powf(decade)) } else { format!("1e{decade}") };
        body +=
            &text(x(10_f64.powf(decade)), 76.0, r#"text-anchor="middle" font-size="12""#, &label);
    }
    let mut y = 104.0;
    for (row, outcomes) in drawn() {
        let shown = if row.is_memory() { bytes } else { duration };
        let ours = outcomes[0].median().unwrap_or_default();
        let heading = format!("{}: {}", row.heading(), shown(ours));
        body += &text(16.0, y, r#"font-weight="600""#, &heading);
        y += LINE + 2.0;
        let peers = peers(outcomes);
        let bottom = y + LINE * peers.len() as f64 - 14.0;
        for decade in decades() {
            let opacity = if decade.abs() < 0.5 { 1.0 } else { 0.25 };
            let (x, top) = (x(10_f64.powf(decade)), y - 13.0);
            let line = format!("M{x:.1} {top:.1}V{bottom:.1}");
            body += &shape(
                "path",
                &format!("d=\"{line}\" stroke=\"{GREY}\" stroke-opacity=\"{opacity}\""),
            );
        }
        for (name, median, times) in peers {
            let colour = if times < 1.0 { AHEAD } else { BEHIND };
            let (from, to) = (x(times.min(1.0)), x(times.max(1.0)));
            body += &text(NAMES, y, r#"text-anchor="end" font-size="12""#, name);
            let (top, width) = (y - 10.0, (to - from).max(1.5));
            let place = format!(
                "x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"12\" rx=\"2\""
            );
            body += &shape("rect", &format!("{place} fill=\"{colour}\""));
            let label = format!("{}, {} ×", shown(median), ratio(times));
            body += &text(to + 6.0, y, r#"font-size="12""#, &label);
            y += LINE;
        }
        y += LINE / 2.0;
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1080 {y:.0}\" fill=\"{GREY}\"\n\
         font-family=\"system-ui, 'Segoe UI', Helvetica, 'DejaVu Sans', sans-serif\" font-size=\"14\">\n",
    );
    svg += &text(
        16.0,
        28.0,
        r#"font-size="19" font-weight="600""#,
        "What the same work costs the peers",
    );
    svg += &text(16.0, 48.0, "", SCALE);
    svg + &body + "</svg>\n"
}

const SCALE: &str =
    "In multiples of memory-prompt, whose own figure stands in each heading; logarithmic";

/// Name, median, and multiple of ours.
fn peers(outcomes: &[Outcome]) -> Vec<(&str, f64, f64)> {
    let ours = outcomes[0].median().unwrap_or(1.0);
    let peers = outcomes[1..].iter();
    peers
        .filter_map(|peer| peer.median().map(|median| (&*peer.name, median, median / ours)))
        .collect()
}

fn shape(name: &str, attributes: &str) -> String {
    format!("<{name} {attributes}/>\n")
}

fn text(x: f64, y: f64, style: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{text}</text>\n")
}
