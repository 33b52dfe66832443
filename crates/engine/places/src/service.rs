//! A system's target for loads that reach it through a Service: other addresses, the same ports.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

/// The ports that a target has with an address: `ADDRESS:PORT` in a text, and `port` beside the address.
pub(super) fn ports(target: &Value, address: IpAddr) -> BTreeSet<u16> {
    let mut found = BTreeSet::new();
    collect(target, &address.to_string(), &mut found);
    found
}

fn collect(value: &Value, address: &str, found: &mut BTreeSet<u16>) {
    match value {
        Value::String(text) => found.extend(text.match_indices(address).filter_map(|(at, _)| {
            let after = text[at + address.len()..].strip_prefix(':')?;
            let digits = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
            after[..digits].parse::<u16>().ok()
        })),
        Value::Array(items) => items.iter().for_each(|item| collect(item, address, found)),
        Value::Object(entries) => {
            let is_beside = entries.values().any(|value| value == address);
            let port = entries.get("port").and_then(Value::as_u64).filter(|_| is_beside);
            found.extend(port.and_then(|port| u16::try_from(port).ok()));
            entries.values().for_each(|value| collect(value, address, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The target with another address.
pub(super) fn readdressed(target: Value, from: IpAddr, to: IpAddr) -> Value {
    let again = |value| readdressed(value, from, to);
    match target {
        Value::String(text) => Value::String(text.replace(&from.to_string(), &to.to_string())),
        Value::Array(items) => items.into_iter().map(again).collect(),
        Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, again(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_leads_through_the_service_at_the_same_ports() {
        let (pod, service) = ("10.244.1.5".parse().unwrap(), "10.96.0.7".parse().unwrap());
        let target = json!({
            "address": "10.244.1.5", "port": 4000, "url": "https://10.244.1.5:4001/a", "other": ["10.244.1.55:9"],
        });
        assert_eq!(ports(&target, pod).into_iter().collect::<Vec<_>>(), [4000, 4001]);
        let there = readdressed(target, pod, service);
        assert_eq!(there["address"], "10.96.0.7");
        assert_eq!(there["url"], "https://10.96.0.7:4001/a");
    }
}
