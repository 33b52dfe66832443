//! `plumb http URL`: one measurement without a comparison, the everyday replacement for ab, wrk and k6.

use plumb_host::signals::Interrupts;
use plumb_http::settings::LoadSettings;
use plumb_http::{Http, Target};
use plumb_model::{Evidence, Measurement, Reading};
use plumb_path::{Family, Settings};

use super::connecting;
use super::single::{self, Watch};
use crate::args::{HttpArguments, keys};
use crate::exit::{FAILED, Failure, HOLDS, Outcome, REFUTED};
use crate::live::{Course, Goal};

/// Measures and prints.
pub fn http(arguments: &HttpArguments) -> Outcome {
    let mut settings = arguments.keys.settings()?;
    settings.check().map_err(|fault| keys::fault::<Http>(&fault))?;
    let window = single::window(&mut settings);
    let (url, spec) = (settings.system.ingress.url.clone().unwrap_or_default(), settings.load.clone());
    plumb_host::limits::raise_open_files_limit();
    let connections = plumb_report::plural(spec.connections as usize, "connection");
    single::headline(&arguments.shown, &format!("{url} · {connections}"));
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    if !arguments.places.on.is_empty() {
        let hosts = connecting::loads(&arguments.places, None)?;
        let course = course(&spec);
        let judged = |measurement: &Measurement, _: &mut Vec<Evidence>| Ok(code(measurement));
        return single::from_hosts::<Http>(
            hosts,
            settings,
            (window, course),
            &interrupts,
            &arguments.shown,
            judged,
        );
    }
    let mut watch = Watch::new(&arguments.shown, plumb_http::system::service_at(&url));
    let mut load =
        plumb_http::load::interruptible(&spec, &Target { url, ..Target::default() }, interrupts.flag())
            .map_err(|error| Failure::usage(format!("failed to {error}")))?;
    let course = course(&spec);
    let measured = load.measure(window, &mut |mark| watch.mark(mark, course));
    let measurement = watch.finish(measured).map_err(Failure::harness)?;
    if interrupts.is_interrupted() && measurement.window_ns == 0 {
        return Ok(single::interrupted(&measurement));
    }
    single::print(&measurement, Http::METRICS, &[], &arguments.shown)?;
    if interrupts.is_interrupted() {
        return Ok(single::interrupted(&measurement));
    }
    Ok(single::code(&measurement, &arguments.shown, code(&measurement)))
}

fn course(spec: &LoadSettings) -> Course<'static> {
    let goal = Goal::of(spec.duration, spec.requests);
    Course { job: "", goal, unit: "requests", in_flight: spec.in_flight() }
}

/// Without any answer nothing was measured, which is an error. A failed check refutes what the user asked for.
fn code(measurement: &Measurement) -> u8 {
    if measurement.work == 0 {
        return FAILED;
    }
    match measurement.readings.get("checks") {
        Some(Reading::Share { no, .. }) if *no > 0 => REFUTED,
        _ => HOLDS,
    }
}
