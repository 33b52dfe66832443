//! A measurement in the form in which qperf prints it: the tests' names, and below them values with three digits.
//!
//! Latencies are means, as qperf's are; amounts of data go by powers of ten.

use std::fmt::Write;

use plumb_model::{Measurement, Reading, Statistic, Unit};
use plumb_network::settings::{LoadSettings, Test};

/// A name, a number, and its unit.
type Row = (&'static str, String, String);

/// All tests of a measurement, with the size of the messages where several are measured.
pub fn text(spec: &LoadSettings, measurement: &Measurement, with_size: bool) -> String {
    let mut text = String::new();
    for test in &spec.tests {
        let mut rows = rows(*test, measurement);
        if with_size {
            rows.push(("msg_size", spec.size_of(*test).0.to_string(), "bytes".to_owned()));
        }
        let width = |of: fn(&Row) -> &str| rows.iter().map(|row| of(row).len()).max().unwrap_or(0);
        let (names, numbers) = (width(|row| row.0), width(|row| &row.1));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}:", test.name());
        for (name, number, unit) in &rows {
            let _ = writeln!(text, "    {name:names$}  =  {number:>numbers$} {unit}");
        }
    }
    text
}

fn rows(test: Test, measurement: &Measurement) -> Vec<Row> {
    let number = |name: &str, unit| {
        let reading = measurement.readings.get(name)?;
        let statistic = matches!(reading, Reading::Trend(_)).then_some(Statistic::Avg);
        reading.number(statistic, unit)
    };
    let time = |name: &str| {
        scaled(number(name, Unit::Seconds), &[(1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "sec")])
    };
    let bandwidth = |name: &str| {
        let units = [(1.0, "bytes/sec"), (1e3, "KB/sec"), (1e6, "MB/sec"), (1e9, "GB/sec"), (1e12, "TB/sec")];
        scaled(number(name, Unit::BytesPerSecond), &units)
    };
    let row = |name, (number, unit): (String, String)| (name, number, unit);
    match test {
        Test::TcpLat | Test::UdpLat => vec![row("latency", time(test.name()))],
        Test::TcpBw => vec![row("bw", bandwidth("tcp_bw"))],
        Test::UdpBw => {
            vec![row("send_bw", bandwidth("udp_send_bw")), row("recv_bw", bandwidth("udp_bw"))]
        }
        Test::TcpCrr => {
            let rate =
                scaled(number("tcp_crr", Unit::PerSecond), &[(1.0, "/sec"), (1e3, "K/sec"), (1e6, "M/sec")]);
            vec![row("rate", rate), row("latency", time("tcp_crr_latency"))]
        }
    }
}

/// Three digits in the largest unit that leaves something before the point.
fn scaled(value: Option<f64>, units: &[(f64, &str)]) -> (String, String) {
    let Some(value) = value else { return ("-".to_owned(), String::new()) };
    let rounded = |scale: f64| {
        let scaled = value / scale;
        let digits = if scaled <= 0.0 { 0 } else { 2 - (scaled.log10().floor() as i32) };
        let shift = 10_f64.powi(digits);
        (scaled * shift).round() / shift
    };
    let fitting = units.iter().rev().find(|(scale, _)| rounded(*scale) >= 1.0).or(units.first());
    fitting.map_or_else(Default::default, |(scale, unit)| (rounded(*scale).to_string(), (*unit).to_owned()))
}

#[cfg(test)]
mod tests {
    use plumb_model::{Bytes, Histogram};

    use super::*;

    fn check(value: f64, expected: &str) {
        let units = [(1.0, "bytes/sec"), (1e3, "KB/sec"), (1e6, "MB/sec")];
        let (number, unit) = scaled(Some(value), &units);
        assert_eq!(format!("{number} {unit}"), expected);
    }

    #[test]
    fn numbers_have_three_digits() {
        check(0.0, "0 bytes/sec");
        check(7.0, "7 bytes/sec");
        check(999.4, "999 bytes/sec");
        check(999.6, "1 KB/sec");
        check(95_700.0, "95.7 KB/sec");
        check(2_774_000.0, "2.77 MB/sec");
        check(12_345_678_900.0, "12300 MB/sec");
    }

    #[test]
    fn it_is_qperf_s_form() {
        let mut latency = Histogram::new();
        latency.record_many(3_450, 9);
        let mut measurement = Measurement::default();
        let mut put = |name: &str, reading| measurement.readings.insert(name.to_owned(), reading);
        put("tcp_lat", Reading::Trend(latency));
        put("tcp_bw", Reading::Rate { value: 2.77e9, count: 1 });
        put("udp_bw", Reading::Rate { value: 4.11e9, count: 1 });
        put("udp_send_bw", Reading::Rate { value: 10.4e9, count: 1 });
        let tests = vec![Test::TcpLat, Test::TcpBw, Test::UdpBw];
        let spec = LoadSettings { tests, msg_size: Some(Bytes(1024)), ..LoadSettings::default() };
        assert_eq!(
            text(&spec, &measurement, false),
            "tcp_lat:\n    latency  =  3.45 us\ntcp_bw:\n    bw  =  2.77 GB/sec\nudp_bw:\n    send_bw  =  10.4 GB/sec\n    \
             recv_bw  =  4.11 GB/sec\n"
        );
        let sized = text(&LoadSettings { tests: vec![Test::TcpLat], ..spec }, &measurement, true);
        assert_eq!(sized, "tcp_lat:\n    latency   =  3.45 us\n    msg_size  =  1024 bytes\n");
    }
}
