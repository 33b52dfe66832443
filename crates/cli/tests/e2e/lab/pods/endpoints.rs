//! Systems that exist in the cluster, found by the name of what leads to them.

use std::process::Stdio;

use crate::common::{signal, slots_on_disk, stderr, stdout, wait, wait_until, write};
use crate::lab::cluster::{IMAGE, Namespace};
use crate::lab::places::slots;

use super::{TWO_NODES, report, text, variant};

/// The kinds that the test cluster lacks, as far as a test needs them.
const KINDS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: routes.route.openshift.io }
spec:
  group: route.openshift.io
  scope: Namespaced
  names: { plural: routes, singular: route, kind: Route }
  versions: [{ name: v1, served: true, storage: true,
    schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } } }]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: gateways.gateway.networking.k8s.io, annotations: { api-approved.kubernetes.io: unapproved } }
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: { plural: gateways, singular: gateway, kind: Gateway }
  versions: [{ name: v1, served: true, storage: true,
    schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } } }]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: httproutes.gateway.networking.k8s.io, annotations: { api-approved.kubernetes.io: unapproved } }
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: { plural: httproutes, singular: httproute, kind: HTTPRoute }
  versions: [{ name: v1, served: true, storage: true,
    schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } } }]
";

/// nginx in a pod, and a Service in front of it.
fn web() -> String {
    let config = "pid /tmp/p; events {} http { access_log off; client_body_temp_path /tmp/a; proxy_temp_path /tmp/b; \
                  fastcgi_temp_path /tmp/c; uwsgi_temp_path /tmp/d; scgi_temp_path /tmp/e; server { listen 8080; return 200 hello; } }";
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: web, labels: {{ app: web }} }}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
         securityContext: {{ runAsUser: 65532, runAsNonRoot: true, seccompProfile: {{ type: RuntimeDefault }} }}\n  containers:\n  \
         - name: web\n    image: \"{IMAGE}\"\n    imagePullPolicy: Never\n    \
         securityContext: {{ allowPrivilegeEscalation: false, capabilities: {{ drop: [ALL] }} }}\n    \
         command: [sh, -c, \"echo '{config}' >/tmp/n; exec nginx -e stderr -c /tmp/n -g 'daemon off;'\"]\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {{ name: web }}\nspec:\n  selector: {{ app: web }}\n  \
         ports: [{{ name: web, port: 80, targetPort: 8080 }}, {{ name: other, port: 81, targetPort: 8080 }}]\n"
    )
}

fn fronts(address: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: web }}\nspec:\n  rules:\n  - host: shop.example\n    \
         http: {{ paths: [{{ path: /, pathType: Prefix, backend: {{ service: {{ name: web, port: {{ number: 80 }} }} }} }}] }}\n---\n\
         apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {{ name: web }}\nspec: {{ host: web.apps.example }}\n\
         status: {{ ingress: [{{ host: web.apps.example, routerCanonicalHostname: \"{address}\",\n  \
         conditions: [{{ type: Admitted, status: \"True\" }}] }}] }}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: edge }}\nspec: {{ listeners: [{{ name: web, port: 80, \
         protocol: HTTP }}] }}\nstatus: {{ addresses: [{{ type: IPAddress, value: \"{address}\" }}] }}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: web }}\n\
         spec: {{ parentRefs: [{{ name: edge }}], hostnames: [shop.gateway.example] }}\n"
    )
}

const EXPERIMENT: &str = "apiVersion: plumbline.dev/v1alpha1
kind: Experiment
metadata: { name: found }
spec:
  path: http
  noise: { others_max: 100% }
  system: { ingress: { kind: external } }
  load: { connections: 2, duration: 200 ms, warmup: 50 ms, checks: [status == 200] }
  baseline: service
  variants:
    service: { system: { ingress: { service: \"web:web\" } } }
    ingress: { system: { ingress: { ingress: web } } }
    route: { system: { ingress: { route: web } } }
    gateway: { system: { ingress: { gateway: edge } } }
    none: { system: { ingress: { service: no-such-service } } }
    unclear: { system: { ingress: { service: web } } }
    pending: { system: { ingress: { ingress: pending } } }
    elsewhere: { system: { ingress: { service: \"web:web\", namespace: no-such-namespace } } }
  blocks: 2
";

/// A front that nobody has taken up.
const PENDING: &str = "apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: pending }
spec: { rules: [{ host: pending.example }] }
";

fn prepared(namespace: &Namespace) -> String {
    namespace.apply(KINDS);
    namespace.apply(&web());
    for kind in [
        "routes.route.openshift.io",
        "gateways.gateway.networking.k8s.io",
        "httproutes.gateway.networking.k8s.io",
    ] {
        namespace.kubectl(&["wait", "--for=condition=Established", "crd", kind, "--timeout=30s"]);
    }
    let address = namespace.object("service", "web")["spec"]["clusterIP"].as_str().unwrap().to_owned();
    namespace.apply(&fronts(&address));
    namespace.apply(PENDING);
    lead(namespace, &address);
    namespace.kubectl(&["wait", "--for=condition=Ready", "pod/web", "-n", namespace.name(), "--timeout=60s"]);
    address
}

/// Does what a controller does: says where the Ingress is to be reached.
fn lead(namespace: &Namespace, address: &str) {
    let status = format!("{{\"status\":{{\"loadBalancer\":{{\"ingress\":[{{\"ip\":\"{address}\"}}]}}}}}}");
    let patch = [
        "patch",
        "ingress",
        "web",
        "-n",
        namespace.name(),
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    namespace.kubectl(&patch);
}

#[test]
fn a_system_is_found_by_what_leads_to_it() {
    let Some(namespace) = Namespace::new("restricted") else {
        return;
    };
    let address = prepared(&namespace);
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", EXPERIMENT);
    let places = namespace.places(directory.path(), TWO_NODES);
    let into = directory.path().join("run");
    let output = namespace.run(&["run", text(&file), "--places", text(&places), "--output", text(&into)]);
    let report = report(&into);
    let evidence = |name: &str| {
        let evidence =
            variant(&report, name)["evidence"].as_array().unwrap_or_else(|| panic!("{}", stderr(&output)));
        let found = evidence.iter().find(|one| one["what"].as_str().unwrap().starts_with("endpoint of "));
        let found = found.unwrap_or_else(|| panic!("{name}: {evidence:?} {}", stderr(&output)));
        assert_eq!(found["holds"], true, "{found}");
        (found["what"].as_str().unwrap().to_owned(), found["observed"].as_str().unwrap().to_owned())
    };
    let words = |what: &str, observed: String| (format!("endpoint of {what}"), observed);
    assert_eq!(evidence("service"), words("Service web:web", format!("http://{address}/")));
    assert_eq!(evidence("ingress"), words("Ingress web", format!("http://shop.example/ at {address}")));
    assert_eq!(evidence("route"), words("Route web", format!("http://web.apps.example/ at {address}")));
    assert_eq!(
        evidence("gateway"),
        words("Gateway edge", format!("http://shop.gateway.example/ at {address}"))
    );
    let reason = |name: &str| variant(&report, name)["reason"].as_str().unwrap().to_owned();
    let none = format!("find Service no-such-service: namespace {} has none of that name", namespace.name());
    assert_eq!(reason("none"), none);
    assert!(reason("unclear").contains("80 (web), 81 (other)"), "{}", reason("unclear"));
    assert!(reason("pending").contains("no controller has given it an address"), "{}", reason("pending"));
    assert!(
        reason("elsewhere").starts_with("find Service web:web of namespace no-such-namespace: "),
        "{}",
        reason("elsewhere")
    );
    assert_eq!(namespace.made(), Vec::<String>::new());
}

#[test]
fn a_front_that_leads_elsewhere_during_a_run_is_found_out() {
    let Some(namespace) = Namespace::new("restricted") else { return };
    let address = prepared(&namespace);
    let directory = tempfile::tempdir().unwrap();
    let two = "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: { name: moved }\nspec:\n  path: http\n  \
               system: { ingress: { kind: external, ingress: web } }\n  load: { connections: 2, duration: 500 ms, warmup: 50 ms }\n  \
               baseline: kept\n  variants: { kept: {}, fresh: { load: { reuse: none } } }\n  blocks: { min: 6, max: 6 }\n";
    let file = write(directory.path(), "test.yaml", two);
    let places = namespace.places(directory.path(), TWO_NODES);
    let into = directory.path().join("run");
    let mut runner = namespace.plumb();
    runner.args(["run", text(&file), "--places", text(&places), "--output", text(&into)]);
    let runner = runner.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a slot", || slots_on_disk(&into) > 2);
    lead(&namespace, "192.0.2.1");
    let moved = "http://shop.example/ at 192.0.2.1";
    let text_of_slots = || std::fs::read_to_string(into.join("slots.jsonl")).unwrap();
    wait_until("a slot that says so", || text_of_slots().contains(moved));
    signal(runner.id(), "INT");
    let output = wait(runner);
    let all = slots(&into);
    let found = all.iter().find(|slot| slot.to_string().contains(moved)).unwrap();
    let evidence = found["outcome"]["measured"]["evidence"].as_array().unwrap().clone();
    let line = evidence.iter().find(|one| one["what"] == "endpoint of Ingress web").unwrap();
    assert_eq!(line["holds"], false, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(line["expected"], format!("http://shop.example/ at {address}"));
    namespace.wait_until_empty(super::SOON);
}
