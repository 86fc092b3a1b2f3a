use std::fs;

use joiner_controllers::dialects::karpenter;
use joiner_controllers::view::pods::{Specs, lower_pod};
use joiner_core::pack::{Options, solve};
use joiner_core::plan::check;
use joiner_core::problem::{Pool, Problem};
use joiner_core::resources::{CPU, MEMORY};

use super::problem;
use crate::failure::Failure;

const TYPES: &str = r#"[
 {"name":"c-4x-amd64-linux","architecture":"amd64","operatingSystems":["linux"],"resources":{"cpu":"4","memory":"8Gi"},
  "offerings":[
   {"Price":0.2,"Available":true,"Requirements":[
     {"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]},
     {"key":"topology.kubernetes.io/zone","operator":"In","values":["zone-a"]}]},
   {"Price":0.1,"Available":true,"Requirements":[
     {"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},
     {"key":"topology.kubernetes.io/zone","operator":"In","values":["zone-b"]}]}]}]"#;

const POOL: &str = r#"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  weight: 10
  limits: {cpu: "100", nodes: "5"}
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 30s
    budgets: [{nodes: "20%", reasons: [Drifted], schedule: "0 6 * * mon-fri", duration: 14h}]
  template:
    metadata: {labels: {team: web}}
    spec:
      expireAfter: 720h
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: shop}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
"#;

const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: web}}
    spec:
      topologySpreadConstraints:
      - {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      initContainers:
      - {name: mesh, restartPolicy: Always, resources: {requests: {cpu: 100m}}}
      containers:
      - {name: main, resources: {requests: {cpu: 900m, memory: 1Gi}, limits: {memory: 2Gi}}, ports: [{containerPort: 80, hostPort: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: fast}}]
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: main, resources: {limits: {cpu: 1}}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-db-0}
spec: {volumeName: disk-0, storageClassName: fast}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-0}
spec:
  csi: {driver: disk.example.com, volumeHandle: x}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-b]}]}]}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: disk.example.com
allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [zone-a]}]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: crunch}
spec: {parallelism: 4, completions: 2, template: {spec: {containers: [{name: main, resources: {requests: {cpu: 500m}}}]}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {template: {spec: {tolerations: [{operator: Exists}], containers: [{name: main, resources: {limits: {memory: 64Mi}}}]}}}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: c-4x-amd64-linux, karpenter.sh/capacity-type: on-demand, topology.kubernetes.io/zone: zone-a}}
spec: {unschedulable: true}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}, allocatable: {cpu: 3900m, memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: lonely, annotations: {karpenter.sh/do-not-disrupt: "true"}}
spec: {nodeName: n1, containers: [{name: main, resources: {requests: {cpu: 1}}}]}
"#;

fn read(files: &[(&str, &str)]) -> Result<Problem, Failure> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    problem(&[folder.path().to_owned()], None).map(|(problem, _)| problem)
}

#[test]
fn manifests_become_a_problem() {
    let problem = read(&[
        ("pool.yaml", POOL),
        ("work.yaml", WORKLOADS),
        ("shop.json", TYPES),
    ])
    .unwrap();
    let names: Vec<String> = problem
        .pods
        .iter()
        .map(|pod| format!("{}×{}", pod.name, pod.count))
        .collect();
    assert_eq!(names, ["web×3", "db-0×1", "db-1×1", "crunch×2"]);
    let web = &problem.pods[0].spec;
    assert_eq!(
        (
            &*web.namespace,
            web.requests.get(CPU),
            web.requests.get(MEMORY)
        ),
        ("shop", 1000, 1 << 30)
    );
    assert_eq!(web.host_ports[0].port, 8080);
    assert_eq!(web.spread.len(), 1);
    let zones: Vec<String> = problem.pods[1..3]
        .iter()
        .map(|pod| pod.spec.volumes[0].topology[0][0].values[0].to_string())
        .collect();
    assert_eq!(
        zones,
        ["zone-b", "zone-a"],
        "bound where it is, unbound where its class allows"
    );
    assert_eq!(
        problem.pods[1].spec.requests.get(CPU),
        1000,
        "limits stand in for requests"
    );
    assert_eq!(problem.daemon_sets[0].spec.requests.get(MEMORY), 64 << 20);
    let node = &problem.nodes[0];
    assert!(node.pods[0].do_not_disrupt && node.taints.len() == 1);
    assert_eq!(node.price.unwrap().to_string(), "$0.2000");
    let pool = &problem.pools[0];
    assert_eq!(
        (
            pool.weight,
            pool.limits.nodes,
            pool.limits.resources.get(CPU)
        ),
        (10, Some(5), 100_000)
    );
    assert_eq!(pool.disruption.budgets[0].duration.unwrap().as_hours(), 14);
    let kind = &problem.catalogs[0].types[0];
    assert_eq!(kind.allocatable().get(CPU), 3900);
    assert_eq!(&*kind.labels["karpenter.kwok.sh/instance-family"], "c");
}

#[test]
fn pods_of_a_running_cluster_are_what_they_are_there() {
    let pod = |name: &str, more: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}{more}\n\
             spec: {{nodeName: n1, containers: [{{name: main}}]}}\n"
        )
    };
    let owned = |version: &str, kind: &str| {
        format!(", ownerReferences: [{{apiVersion: {version}, kind: {kind}, name: x, uid: u}}]")
    };
    let going = ", deletionTimestamp: 2026-01-01T00:00:00Z";
    let pods = [
        pod("done", "}\nstatus: {phase: Succeeded}"),
        pod("agent", &format!("{}}}", owned("apps/v1", "DaemonSet"))),
        pod("static", &format!("{}}}", owned("v1", "Node"))),
        pod(
            "going",
            &format!("{going}{}}}", owned("apps/v1", "ReplicaSet")),
        ),
        pod(
            "again",
            &format!("{going}{}}}", owned("apps/v1", "StatefulSet")),
        ),
    ];
    let problem = read(&[
        ("pool.yaml", POOL),
        ("work.yaml", WORKLOADS),
        ("running.yaml", &pods.concat()),
        ("shop.json", TYPES),
    ])
    .unwrap();
    let here = problem.nodes[0].pods.iter();
    let mut here: Vec<_> = here
        .map(|pod| (&*pod.name, pod.daemon, pod.ending, pod.stays_behind))
        .collect();
    here.sort_unstable();
    let expected = [
        ("again", false, true, false),
        ("agent", true, false, true),
        ("going", false, true, true),
        ("lonely", false, false, false),
        ("static", false, false, true),
    ];
    assert_eq!(here, expected);
}

#[test]
fn what_is_read_can_be_planned() {
    let problem = read(&[
        ("pool.yaml", POOL),
        ("work.yaml", WORKLOADS),
        ("shop.json", TYPES),
    ])
    .unwrap();
    let plan = solve(&problem, &Options::default());
    assert!(plan.unplaced.is_empty(), "{:?}", plan.unplaced);
    assert_eq!(check(&problem, &plan), []);
}

#[test]
fn the_samples_are_planned_and_what_a_plan_takes_no_account_of_is_named() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples");
    let (problem, notes) = problem(&[samples.into()], None).unwrap();
    assert!(!problem.pools.is_empty());
    let plan = solve(&problem, &Options::default());
    assert!(!plan.launches.is_empty());
    assert_eq!(check(&problem, &plan), []);
    for kind in ["SpotNodePool", "LeftoverNodePool", "NodeSmithPool"] {
        let said = format!("passed over: {kind} ");
        assert!(notes.iter().any(|one| one.starts_with(&said)), "{notes:#?}");
    }
    let pool = format!("{samples}/karpetrack_v1alpha1_spotnodepool.yaml");
    let refused = super::problem(&[pool.into()], None)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("passed over: SpotNodePool "), "{refused}");
}

#[test]
fn what_is_missing_or_wrong_is_named_with_the_way_out() {
    for (files, words) in [
        (
            vec![("work.yaml", WORKLOADS)],
            "there is no NodePool, so nothing can be bought; add one",
        ),
        (
            vec![("pool.yaml", POOL)],
            "pool.yaml: NodePool default: nothing says what KWOKNodeClass shop sells; give --catalog FILE",
        ),
        (
            vec![("pool.yaml", POOL), ("shop.json", "[{\"name\": 3}]")],
            "shop.json: line 1, column 11: [0].name: invalid type: integer `3`",
        ),
        (vec![("bad.yaml", "a: [1\n")], "bad.yaml: "),
        (
            vec![("bad.yaml", "metadata: {name: x}\n")],
            "bad.yaml: a document has no kind",
        ),
        (
            vec![(
                "bad.yaml",
                "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{resources: {requests: {cpu: lots}}}]}\n",
            )],
            "bad.yaml: Pod p: cpu: \"lots\" is not a quantity",
        ),
        (
            vec![(
                "bad.yaml",
                "kind: Pod\nmetadata: {name: p}\nspec: {nodeName: n}\n",
            )],
            "Pod p: there is no node n; add it, or leave nodeName out",
        ),
        (
            vec![("bad.yaml", BY_UID)],
            "Pod p: matchFields: metadata.uid In [\"x\"]: Kubernetes knows metadata.name with In or NotIn and one value",
        ),
        (
            vec![("pool.yaml", POOL), ("shop.json", GIVEN_AWAY)],
            "shop.json: type c: -1 is not a price (write dollars per hour",
        ),
    ] {
        let failure = read(&files).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        let text = failure.to_string();
        assert!(text.contains(words), "{words:?} is not in {text:?}");
    }
}

const BY_UID: &str = r"
kind: Pod
metadata: {name: p}
spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchFields: [{key: metadata.uid, operator: In, values: [x]}]}]}}}}
";

const GIVEN_AWAY: &str = r#"[{"name":"c","architecture":"amd64","resources":{"cpu":"4"},"offerings":[
 {"Price":-1,"Requirements":[{"key":"topology.kubernetes.io/zone","operator":"In","values":["zone-a"]}]}]}]"#;

/// Two nodes that are alike, and a pod that names one of them.
fn naming_a_node(operator: &str, name: &str) -> String {
    let node = |name: &str| {
        format!(
            r#"
---
kind: Node
metadata: {{name: {name}}}
status: {{capacity: {{cpu: "4", memory: 8Gi, pods: "110"}}, allocatable: {{cpu: "4", memory: 8Gi, pods: "110"}}}}"#
        )
    };
    format!(
        r"
kind: Pod
metadata: {{name: p}}
spec:
  affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [
    {{matchFields: [{{key: metadata.name, operator: {operator}, values: [{name}]}}]}}]}}}}}}
  containers: [{{name: main, resources: {{requests: {{cpu: 500m}}}}}}]{}{}
",
        node("n1"),
        node("n2")
    )
}

#[test]
fn a_pod_may_name_its_node_by_a_field() {
    for (operator, name, goes_to) in [
        ("In", "n2", "n2"),
        ("NotIn", "n1", "n2"),
        ("NotIn", "n2", "n1"),
    ] {
        let work = naming_a_node(operator, name);
        let problem = read(&[
            ("pool.yaml", POOL),
            ("shop.json", TYPES),
            ("work.yaml", &work),
        ])
        .unwrap();
        let plan = solve(&problem, &Options::default());
        assert_eq!(check(&problem, &plan), []);
        let nodes: Vec<&str> = plan.placements.iter().map(|one| &*one.node).collect();
        assert_eq!(nodes, [goes_to], "{operator} {name}");
    }
    let work = naming_a_node("In", "gone");
    let problem = read(&[
        ("pool.yaml", POOL),
        ("shop.json", TYPES),
        ("work.yaml", &work),
    ])
    .unwrap();
    let plan = solve(&problem, &Options::default());
    assert_eq!(
        plan.unplaced.len(),
        1,
        "no machine that is bought has that name"
    );
}

const RICH: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: rich, namespace: shop, labels: {app: web, tier: front}}
spec:
  priority: 7
  nodeSelector: {kubernetes.io/arch: amd64}
  tolerations: [{key: team, operator: Exists, effect: NoSchedule}, {key: gpu, value: "true"}]
  overhead: {cpu: 50m}
  initContainers: [{name: mesh, restartPolicy: Always, resources: {requests: {cpu: 100m}}}]
  containers:
  - {name: main, ports: [{containerPort: 53, hostPort: 53, protocol: UDP, hostIP: 10.0.0.1}], resources: {requests: {cpu: 0.5, memory: 1Gi}}}
  topologySpreadConstraints:
  - {topologyKey: topology.kubernetes.io/zone, maxSkew: 2, minDomains: 3, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [tier],
     nodeTaintsPolicy: Honor, labelSelector: {matchExpressions: [{key: app, operator: In, values: [web, api]}]}}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
        {matchExpressions: [{key: cores, operator: Gt, values: ["2"]}, {key: local, operator: DoesNotExist}]}]}
      preferredDuringSchedulingIgnoredDuringExecution: [
        {weight: 3, preference: {matchExpressions: [{key: disk, operator: NotIn, values: [slow]}]}}]
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [
        {topologyKey: topology.kubernetes.io/zone, namespaces: [shop], labelSelector: {matchLabels: {app: db}}}]
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution: [
        {weight: 9, podAffinityTerm: {topologyKey: kubernetes.io/hostname, namespaceSelector: {}, labelSelector: {matchLabels: {app: web}}}}]
"#;

#[test]
fn pods_and_pools_of_files_are_what_a_running_joiner_reads_in_a_cluster() {
    let problem = read(&[
        ("pool.yaml", POOL),
        ("rich.yaml", RICH),
        ("shop.json", TYPES),
    ])
    .unwrap();
    // The API server keeps amounts as texts.
    let kept = RICH.replace("cpu: 0.5", "cpu: \"0.5\"");
    let pod = serde_saphyr::from_str(&kept).unwrap();
    let in_cluster = lower_pod(pod, &mut Specs::default());
    assert_eq!(problem.pods[0].spec, in_cluster.spec);
    assert_eq!(problem.pods[0].spec.requests.get(CPU), 650);
    let pool = karpenter::read_pool(&serde_saphyr::from_str(POOL).unwrap()).unwrap();
    let catalog = problem.pools[0].catalog.clone();
    assert_eq!(problem.pools[0], Pool { catalog, ..pool });
    let refused = POOL.replace("schedule: \"0 6 * * mon-fri\", ", "");
    let refused = read(&[("pool.yaml", &refused), ("shop.json", TYPES)]);
    let said = refused.unwrap_err().to_string();
    assert!(
        said.contains("NodePool default: ") && said.contains("schedule"),
        "{said}"
    );
}
