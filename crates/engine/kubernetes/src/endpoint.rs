//! The URL that a Service, an Ingress, a Route or a Gateway leads to, read from its specification and status.
//!
//! The formats are those of `v1`, `networking.k8s.io/v1`, `route.openshift.io/v1` and `gateway.networking.k8s.io/v1`.

use plumb_model::{ClusterObject, ClusterObjectKind, Endpoint};
use serde_json::Value;

use crate::api::Cluster;
use crate::error::{Error, Unfound};

const HTTP: u16 = 80;
const HTTPS: u16 = 443;
const GATEWAYS: &str = "/apis/gateway.networking.k8s.io/v1";

impl Cluster {
    /// The endpoint that an object leads to. A load in the cluster (`is_inside`) reaches a Service by the
    /// Service's own address. Any other load reaches it by its load balancer, if it has one.
    ///
    /// # Errors
    /// When the cluster has no such object, or the object has no address.
    pub fn endpoint(&self, object: &ClusterObject, is_inside: bool) -> Result<Endpoint, Error> {
        let of = |cause| Error::NoEndpoint { object: object.to_string(), cause };
        let namespace = object.namespace.as_deref().unwrap_or(self.namespace());
        let (group, plural) = location(object.kind);
        let found = self.get(&format!("{group}/namespaces/{namespace}/{plural}/{}", object.name));
        let found = match found {
            Err(error) if error.is_not_found() => {
                let has_kind = self.get(group).is_ok();
                return Err(of(if has_kind {
                    Unfound::NotThere { namespace: namespace.to_owned() }
                } else {
                    Unfound::NoKind { plural, group: group.trim_start_matches("/apis/") }
                }));
            }
            found => found?,
        };
        let port = object.port.as_deref();
        let endpoint = match object.kind {
            ClusterObjectKind::Service => of_service(&found, port, is_inside),
            ClusterObjectKind::Ingress => of_ingress(&found),
            ClusterObjectKind::Route => of_route(&found),
            ClusterObjectKind::Gateway => {
                let routes = self.get(&format!("{GATEWAYS}/namespaces/{namespace}/httproutes"))?;
                of_gateway(&found, port, &routes)
            }
        };
        endpoint.map_err(of)
    }
}

/// The group's path and the plural of a kind.
fn location(kind: ClusterObjectKind) -> (&'static str, &'static str) {
    match kind {
        ClusterObjectKind::Service => ("/api/v1", "services"),
        ClusterObjectKind::Ingress => ("/apis/networking.k8s.io/v1", "ingresses"),
        ClusterObjectKind::Route => ("/apis/route.openshift.io/v1", "routes"),
        ClusterObjectKind::Gateway => (GATEWAYS, "gateways"),
    }
}

fn of_service(service: &Value, port: Option<&str>, is_inside: bool) -> Result<Endpoint, Unfound> {
    let spec = &service["spec"];
    let port = chosen(items(&spec["ports"]), port, |port| port["name"].as_str(), |port| &port["port"])?;
    let number = number(&port["port"]).ok_or(Unfound::NoNumber)?;
    let protocol = port["appProtocol"].as_str().unwrap_or_default();
    let is_tls = number == HTTPS || protocol == "https" || text(&port["name"]).starts_with("https");
    let own = Some(text(&spec["clusterIP"])).filter(|address| !address.is_empty());
    let host = match (text(&spec["type"]), balancer(service), own) {
        ("ExternalName", ..) => text(&spec["externalName"]),
        (_, Some(balancer), _) if !is_inside => balancer,
        (.., Some("None")) => return Err(Unfound::Headless),
        (.., Some(own)) => own,
        _ => return Err(Unfound::NoAddress),
    };
    Ok(Endpoint { is_tls, host: host.to_owned(), port: number, path: "/".to_owned(), connect: None })
}

fn of_ingress(ingress: &Value) -> Result<Endpoint, Unfound> {
    let spec = &ingress["spec"];
    let address = balancer(ingress).ok_or(Unfound::NoBalancer)?;
    let rule = &spec["rules"][0];
    let host = Some(text(&rule["host"])).filter(|host| is_exact(host));
    let mut of_tls = items(&spec["tls"]);
    let is_tls = of_tls.any(|tls| {
        let mut hosts = items(&tls["hosts"]).peekable();
        hosts.peek().is_none() || hosts.any(|name| host.is_some_and(|host| name == host))
    });
    let path = &rule["http"]["paths"][0];
    // Implementations may read other paths as regular expressions.
    let path = Some(text(&path["path"])).filter(|_| path["pathType"] != "ImplementationSpecific");
    Ok(named(host, address, is_tls, if is_tls { HTTPS } else { HTTP }, path))
}

fn of_route(route: &Value) -> Result<Endpoint, Unfound> {
    let admitted = items(&route["status"]["ingress"]).find(|ingress| {
        items(&ingress["conditions"]).any(|one| one["type"] == "Admitted" && one["status"] == "True")
    });
    let router = admitted.ok_or(Unfound::NotAdmitted)?;
    let host = Some(text(&router["host"])).filter(|host| is_exact(host)).ok_or(Unfound::NoHost)?;
    let is_tls = !route["spec"]["tls"].is_null();
    let canonical = Some(text(&router["routerCanonicalHostname"])).filter(|name| !name.is_empty());
    let port = if is_tls { HTTPS } else { HTTP };
    Ok(named(Some(host), canonical.unwrap_or(host), is_tls, port, Some(text(&route["spec"]["path"]))))
}

fn of_gateway(gateway: &Value, port: Option<&str>, routes: &Value) -> Result<Endpoint, Unfound> {
    let address = items(&gateway["status"]["addresses"]).find_map(|address| address["value"].as_str());
    let address = address.ok_or(Unfound::NoStatus)?;
    let speaks_http = |listener: &&Value| matches!(text(&listener["protocol"]), "HTTP" | "HTTPS" | "TLS");
    let listeners = items(&gateway["spec"]["listeners"]).filter(speaks_http);
    let listener = chosen(listeners, port, |one| one["name"].as_str(), |one| &one["port"])?;
    let is_tls = listener["protocol"] != "HTTP";
    let number = number(&listener["port"]).ok_or(Unfound::NoListenerPort)?;
    let name = &gateway["metadata"]["name"];
    let is_of_it = |parent: &Value| {
        let section = &parent["sectionName"];
        parent["name"] == *name && (section.is_null() || *section == listener["name"])
    };
    let attached = items(&routes["items"]).filter(|route| items(&route["spec"]["parentRefs"]).any(is_of_it));
    let attached: Vec<&Value> = attached.collect();
    let of_routes = attached.iter().flat_map(|route| items(&route["spec"]["hostnames"])).map(text);
    let host = of_routes.chain([text(&listener["hostname"])]).find(|host| is_exact(host));
    let path = attached.first().map(|route| &route["spec"]["rules"][0]["matches"][0]["path"]);
    let path = path.filter(|path| path["type"] != "RegularExpression").map(|path| text(&path["value"]));
    Ok(named(host, address, is_tls, number, path))
}

/// A server with the name to ask for and the address to connect to.
fn named(host: Option<&str>, address: &str, is_tls: bool, port: u16, path: Option<&str>) -> Endpoint {
    let connect = host.filter(|host| *host != address).map(|_| address.to_owned());
    let path = path.filter(|path| path.starts_with('/')).unwrap_or("/").to_owned();
    Endpoint { is_tls, host: host.unwrap_or(address).to_owned(), port, path, connect }
}

/// The port or listener with this number or name; without either, the only one.
fn chosen<'v>(
    all: impl Iterator<Item = &'v Value>,
    wanted: Option<&str>,
    name: fn(&Value) -> Option<&str>,
    number: fn(&Value) -> &Value,
) -> Result<&'v Value, Unfound> {
    let all: Vec<&Value> = all.collect();
    let by_number = wanted.and_then(|wanted| wanted.parse::<u64>().ok());
    let is_wanted = |one: &&&Value| {
        (wanted.is_some() && name(one) == wanted)
            || (by_number.is_some() && number(one).as_u64() == by_number)
    };
    let words = |one: &&Value| match name(one) {
        Some(name) => format!("{} ({name})", number(one)),
        None => number(one).to_string(),
    };
    match (all.as_slice(), wanted) {
        ([], _) => Err(Unfound::NoPort),
        ([only], None) => Ok(*only),
        (several, None) => Err(Unfound::SeveralPorts { ports: several.iter().map(words).collect() }),
        (all, Some(wanted)) => all.iter().find(is_wanted).copied().ok_or_else(|| Unfound::OtherPorts {
            wanted: wanted.to_owned(),
            ports: all.iter().map(words).collect(),
        }),
    }
}

/// The address that a load balancer has given an object.
fn balancer(object: &Value) -> Option<&str> {
    let given = items(&object["status"]["loadBalancer"]["ingress"]);
    given.flat_map(|one| [&one["ip"], &one["hostname"]]).find_map(Value::as_str)
}

/// Whether a host is one exact name: neither empty nor a pattern.
fn is_exact(host: &str) -> bool {
    !host.is_empty() && !host.contains('*')
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoint_in_words(found: Result<Endpoint, Unfound>) -> String {
        found.map_or_else(|reason| format!("error: {reason}"), |endpoint| endpoint.to_string())
    }

    #[test]
    fn a_service_leads_to_its_own_address_or_to_its_balancers() {
        let service = |kind: &str, address: &str, ports: Value| {
            json!({ "spec": { "type": kind, "clusterIP": address, "ports": ports },
                    "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }] } } })
        };
        let one = service("LoadBalancer", "10.96.0.7", json!([{ "port": 8080 }]));
        assert_eq!(endpoint_in_words(of_service(&one, None, true)), "http://10.96.0.7:8080/");
        assert_eq!(endpoint_in_words(of_service(&one, None, false)), "http://192.0.2.9:8080/");
        let ports = json!([{ "name": "http", "port": 80 }, { "name": "https", "port": 8443 }]);
        let two = service("ClusterIP", "10.96.0.7", ports);
        assert_eq!(endpoint_in_words(of_service(&two, Some("https"), true)), "https://10.96.0.7:8443/");
        assert_eq!(endpoint_in_words(of_service(&two, Some("80"), true)), "http://10.96.0.7/");
        assert_eq!(
            endpoint_in_words(of_service(&two, None, true)),
            "error: it has several ports, so one has to be named as `NAME:PORT`: 80 (http), 8443 (https)"
        );
        assert_eq!(
            endpoint_in_words(of_service(&two, Some("81"), true)),
            "error: it has no port `81`, but 80 (http), 8443 (https)"
        );
        let headless = service("ClusterIP", "None", json!([{ "port": 80 }]));
        assert_eq!(
            endpoint_in_words(of_service(&headless, None, true)),
            "error: the Service is headless, so it has no address"
        );
    }

    #[test]
    fn an_ingress_leads_to_its_host_at_the_balancers_address() {
        let ingress = |tls: Value, status: Value| {
            json!({ "spec": { "tls": tls, "rules": [{ "host": "shop.example", "http": { "paths": [
                        { "path": "/cart", "pathType": "Prefix" }] } }] }, "status": status })
        };
        let status = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }] } });
        let plain = ingress(Value::Null, status.clone());
        assert_eq!(endpoint_in_words(of_ingress(&plain)), "http://shop.example/cart at 192.0.2.9");
        let tls = ingress(json!([{ "hosts": ["shop.example"] }]), status.clone());
        assert_eq!(endpoint_in_words(of_ingress(&tls)), "https://shop.example/cart at 192.0.2.9");
        let of_other = ingress(json!([{ "hosts": ["other.example"] }]), status);
        assert!(endpoint_in_words(of_ingress(&of_other)).starts_with("http://"));
        let without = ingress(Value::Null, json!({}));
        assert!(
            endpoint_in_words(of_ingress(&without))
                .starts_with("error: no controller has given it an address")
        );
    }

    #[test]
    fn a_route_leads_to_the_host_that_a_router_admitted() {
        let route = |admitted: &str| {
            json!({ "spec": { "host": "shop.apps.example", "tls": { "termination": "edge" } },
                    "status": { "ingress": [{ "host": "shop.apps.example", "routerCanonicalHostname": "router.apps.example",
                        "conditions": [{ "type": "Admitted", "status": admitted }] }] } })
        };
        assert_eq!(
            endpoint_in_words(of_route(&route("True"))),
            "https://shop.apps.example/ at router.apps.example"
        );
        assert_eq!(endpoint_in_words(of_route(&route("False"))), "error: no router has admitted it");
    }

    #[test]
    fn a_gateway_leads_to_the_hosts_of_its_routes() {
        let gateway = json!({
            "metadata": { "name": "edge" },
            "spec": { "listeners": [
                { "name": "web", "port": 80, "protocol": "HTTP", "hostname": "*.example" },
                { "name": "dns", "port": 53, "protocol": "UDP" },
                { "name": "tls", "port": 8443, "protocol": "HTTPS" },
            ] },
            "status": { "addresses": [{ "type": "IPAddress", "value": "192.0.2.9" }] },
        });
        let routes = json!({ "items": [
            { "spec": { "parentRefs": [{ "name": "other" }], "hostnames": ["no.example"] } },
            { "spec": { "parentRefs": [{ "name": "edge", "sectionName": "tls" }], "hostnames": ["*.example", "shop.example"],
                        "rules": [{ "matches": [{ "path": { "type": "PathPrefix", "value": "/cart" } }] }] } },
        ] });
        assert_eq!(
            endpoint_in_words(of_gateway(&gateway, Some("tls"), &routes)),
            "https://shop.example:8443/cart at 192.0.2.9"
        );
        assert_eq!(endpoint_in_words(of_gateway(&gateway, Some("80"), &routes)), "http://192.0.2.9/");
        assert!(endpoint_in_words(of_gateway(&gateway, None, &routes)).contains("several ports"));
        let pending = json!({ "spec": {}, "status": {} });
        assert!(
            endpoint_in_words(of_gateway(&pending, None, &routes))
                .starts_with("error: no controller has given it")
        );
    }
}
