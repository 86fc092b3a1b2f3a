//! KubeNodeSmith's promises, each under its id: the real binary on a real control plane in mock mode, where every
//! `NodeSmithProvider` is a simulated Proxmox cluster or a rack of simulated BMCs.

mod forge;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use joiner_testing::{Program, Seen};
use serde_json::{Value, json};

use self::forge::{
    DEPLOYED, Forge, GROUP, HOME, LIMIT, boot, claims, condition, config, machines, powered,
    running, within,
};
use crate::harness::{World, is_true, label, paths, tests, text};

tests![
    ns_01_the_manifests_of_the_document_are_taken_as_they_stand,
    ns_02_only_pools_that_a_control_plane_names_are_managed,
    ns_03_a_pod_leads_to_a_claim_a_machine_and_a_node,
    ns_04_limits_hold_at_every_instant_and_the_least_is_kept_up,
    ns_04_limits_on_cores_and_memory_hold_while_several_claims_are_on_their_way,
    ns_05_windows_up_and_down_are_waited_for,
    ns_06_nodes_carry_the_labels_of_template_and_pool,
    ns_08_a_secret_that_is_missing_is_named_and_healed_by_itself,
    ns_09_a_machine_that_does_not_join_says_why_and_another_is_tried,
    ns_10_a_deleted_claim_is_cordoned_drained_and_deprovisioned,
    ns_11_bare_metal_is_powered_on_and_off_for_a_pool,
    ns_12_what_make_deploy_installs_is_where_the_document_has_it,
    ns_12_the_account_of_the_deployment_suffices_for_a_whole_life_of_nodes,
    ns_13_the_sample_workload_leads_to_a_node_and_its_deletion_to_its_removal,
    ns_14_pods_that_come_together_share_machines,
];

async fn ns_01_the_manifests_of_the_document_are_taken_as_they_stand() {
    let forge = Forge::start().await;
    let apply = ["apply", "--validate=strict", "-k", &config("samples")];
    forge
        .world
        .plane()
        .kubectl(apply.map(str::to_owned))
        .await
        .unwrap();
    let claim = config("samples/kubenodesmith_v1alpha1_nodesmithclaim.yaml");
    let apply = [
        "apply",
        "--validate=strict",
        "--dry-run=server",
        "-f",
        &claim,
    ];
    forge
        .world
        .plane()
        .kubectl(apply.map(str::to_owned))
        .await
        .unwrap();
    let pool = forge.get("nodesmithpools", "proxmox-small").await;
    assert_eq!(pool["spec"]["limits"]["memoryMiB"], 30720);
    let table = ["get", "nsp,nscp,nspr", "--namespace", HOME].map(str::to_owned);
    let table = forge.world.plane().kubectl(table).await.unwrap();
    for column in [
        "PROVIDER",
        "MIN",
        "MAX",
        "NODES",
        "AVAILABLE",
        "POOLS",
        "TYPE",
    ] {
        assert!(table.contains(column), "{column} in {table}");
    }
}

async fn ns_02_only_pools_that_a_control_plane_names_are_managed() {
    let forge = Forge::start().await;
    forge.secret().await;
    forge.provider().await;
    forge.pool("small", json!({})).await;
    forge.deploy("web", 1, "500m").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let seen = forge.world.mirror().seen();
    assert!(claims(&seen).is_empty());
    let pool = forge.get("nodesmithpools", "small").await;
    assert!(
        pool["status"].is_null() && pool["metadata"]["finalizers"].is_null(),
        "{pool:#}"
    );
    forge.plane(&["small"]).await;
    forge.until("the pod runs", |seen| running(seen) == 1).await;
    let plane = forge.get("nodesmithcontrolplanes", "kubenodesmith").await;
    assert!(is_true(&plane, "Ready"), "{plane:#}");
}

async fn ns_03_a_pod_leads_to_a_claim_a_machine_and_a_node() {
    let forge = Forge::ready(json!({})).await;
    forge.deploy("web", 1, "1500m").await;
    let seen = forge
        .until("the pod runs and the claim is ready", |seen| {
            running(seen) == 1 && claims(seen).iter().all(|one| is_true(one, "Ready"))
        })
        .await;
    let all = claims(&seen);
    let claim = &all[0];
    assert_eq!(all.len(), 1);
    assert_eq!(claim["spec"]["requirements"]["cpuCores"], 2);
    for kind in ["Launched", "Registered", "Initialized", "Ready"] {
        assert!(is_true(claim, kind), "{claim:#}");
        assert_eq!(condition(claim, kind).0, kind);
    }
    let id = text(claim, "/status/providerID");
    let number = id
        .strip_prefix("proxmox://")
        .and_then(|rest| rest.split_once("/vms/"));
    let number: u32 = number.unwrap().1.parse().unwrap();
    assert!((1250..=1300).contains(&number), "{id}");
    let node = text(claim, "/status/nodeName");
    assert!(seen.get(paths::NODES, "", node).is_some(), "{node}");
}

async fn ns_04_limits_hold_at_every_instant_and_the_least_is_kept_up() {
    let limits =
        json!({"limits": {"minNodes": 1, "maxNodes": 2, "cpuCores": 64, "memoryMiB": 16384}});
    let forge = Forge::ready(limits).await;
    let watch = forge
        .world
        .mirror()
        .always("limits hold", |seen| within(seen, [2, 64, 16384]));
    forge
        .until("one node is there without pods", |seen| {
            seen.list(paths::NODES).count() == 1
        })
        .await;
    forge.deploy("web", 60, "900m").await;
    forge
        .until("there are two", |seen| seen.list(paths::NODES).count() == 2)
        .await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let pool = forge.get("nodesmithpools", "small").await;
    assert_eq!(
        condition(&pool, "Available").0,
        "MaxNodesReached",
        "{pool:#}"
    );
    forge.undeploy("web").await;
    forge
        .until("one of them goes", |seen| claims(seen).len() == 1)
        .await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(claims(&forge.world.mirror().seen()).len(), 1);
    watch.check();
}

async fn ns_04_limits_on_cores_and_memory_hold_while_several_claims_are_on_their_way() {
    let limits =
        json!({"limits": {"minNodes": 0, "maxNodes": 8, "cpuCores": 12, "memoryMiB": 32768}});
    let forge = Forge::ready(limits).await;
    let watch = forge
        .world
        .mirror()
        .always("limits hold", |seen| within(seen, [8, 12, 32768]));
    forge.deploy_apart("web", 12, "1900m").await;
    forge
        .until("several are on their way at once", |seen| {
            let begun = |one: &&Arc<Value>| !is_true(one, "Registered");
            claims(seen).iter().filter(begun).count() >= 3
        })
        .await;
    let seen = forge
        .until("what fits runs", |seen| {
            running(seen) >= 4 && claims(seen).iter().all(|one| is_true(one, "Ready"))
        })
        .await;
    assert!(running(&seen) < 12);
    tokio::time::sleep(Duration::from_secs(15)).await;
    let pool = forge.get("nodesmithpools", "small").await;
    assert_eq!(
        condition(&pool, "Available").0,
        "ResourceLimitReached",
        "{pool:#}"
    );
    watch.check();
}

async fn ns_05_windows_up_and_down_are_waited_for() {
    let windows = json!({"scaleUp": {"stabilizationWindow": "25s"}, "scaleDown": {"stabilizationWindow": "25s"}});
    let forge = Forge::ready(windows).await;
    forge
        .until("the pool is available", |seen| {
            let mut pools = seen.list(paths::SMITH_POOLS);
            pools.any(|pool| is_true(pool, "Available"))
        })
        .await;
    forge.deploy("web", 1, "500m").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(claims(&forge.world.mirror().seen()).is_empty());
    forge.until("the pod runs", |seen| running(seen) == 1).await;
    forge.undeploy("web").await;
    forge
        .until("the pod is gone", |seen| running(seen) == 0)
        .await;
    tokio::time::sleep(Duration::from_secs(18)).await;
    let left = claims(&forge.world.mirror().seen());
    assert!(
        left.iter()
            .all(|one| one["metadata"]["deletionTimestamp"].is_null())
            && left.len() == 1
    );
    forge
        .until("the node goes", |seen| claims(seen).is_empty())
        .await;
}

async fn ns_06_nodes_carry_the_labels_of_template_and_pool() {
    let forge = Forge::ready(json!({"machineTemplate": {"labels": {"team": "shop"}}})).await;
    forge.deploy("web", 1, "500m").await;
    let seen = forge.until("the pod runs", |seen| running(seen) == 1).await;
    let node = seen.list(paths::NODES).next().unwrap();
    assert_eq!(label(node, "topology.kubenodesmith.io/pool"), "small");
    assert_eq!(label(node, "team"), "shop");
    assert_eq!(
        node["metadata"]["labels"]["node-role.kubernetes.io/worker"],
        ""
    );
}

async fn ns_08_a_secret_that_is_missing_is_named_and_healed_by_itself() {
    let forge = Forge::start().await;
    forge.provider().await;
    forge.plane(&["small"]).await;
    forge.pool("small", json!({})).await;
    forge.deploy("web", 1, "500m").await;
    forge
        .until("the pool names the Secret", |seen| {
            let mut pools = seen.list(paths::SMITH_POOLS);
            pools.any(|pool| {
                condition(pool, "Available")
                    .1
                    .contains("proxmox-api-secret")
            })
        })
        .await;
    forge.secret().await;
    forge.until("the pod runs", |seen| running(seen) == 1).await;
}

async fn ns_09_a_machine_that_does_not_join_says_why_and_another_is_tried() {
    let forge = Forge::start().await;
    forge.secret().await;
    // There is no such disk: machines run and never become nodes.
    forge.provider_booting("order=scsi0").await;
    forge.plane(&["small"]).await;
    forge
        .pool("small", json!({"registrationTimeout": "20s"}))
        .await;
    forge.deploy("web", 1, "500m").await;
    let late = |claim: &Arc<Value>| condition(claim, "Registered").0 == "RegistrationTimeout";
    let seen = forge
        .until("the claim says why while its machine goes", |seen| {
            claims(seen).iter().any(late)
        })
        .await;
    let first = claims(&seen).into_iter().find(late).unwrap();
    let said = condition(&first, "Registered").1;
    assert!(said.contains("did not join the cluster in time"), "{said}");
    let name = text(&first, "/metadata/name");
    let is_told = |event: &Arc<Value>| {
        text(event, "/involvedObject/name") == name && event["reason"] == "RegistrationTimeout"
    };
    forge
        .until("another is tried, and the first is gone", |seen| {
            let all = claims(seen);
            let other = |one: &Arc<Value>| text(one, "/metadata/name") != name;
            all.iter().any(other) && all.iter().all(other) && seen.list(paths::EVENTS).any(is_told)
        })
        .await;
    // Mended, it heals by itself.
    let path = format!("{GROUP}/namespaces/{HOME}/nodesmithproviders/proxmox-production");
    let mended = json!({"spec": {"proxmox": {"vmOptions": boot("order=net0")}}});
    forge.world.patch(&path, &mended).await;
    forge
        .until("the pod runs and one machine is left", |seen| {
            running(seen) == 1 && machines(seen) == 1 && claims(seen).len() == 1
        })
        .await;
}

async fn ns_10_a_deleted_claim_is_cordoned_drained_and_deprovisioned() {
    let forge = Forge::ready(json!({})).await;
    forge.deploy("web", 1, "500m").await;
    let seen = forge.until("the pod runs", |seen| running(seen) == 1).await;
    let claim = claims(&seen)[0].clone();
    let name = text(&claim, "/metadata/name");
    let node = text(&claim, "/status/nodeName").to_owned();
    let path = format!("{GROUP}/namespaces/{HOME}/nodesmithclaims/{name}");
    forge.world.delete(&path).await;
    let mut cordoned = false;
    forge
        .until("its node is gone and the pod runs elsewhere", |seen| {
            let old = seen.get(paths::NODES, "", &node);
            cordoned |= old.is_some_and(|node| node["spec"]["unschedulable"] == true);
            old.is_none() && running(seen) == 1 && machines(seen) == 1
        })
        .await;
    assert!(cordoned);
}

async fn ns_11_bare_metal_is_powered_on_and_off_for_a_pool() {
    let forge = Forge::start().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rack-a-bmc"},
        "stringData": {"username": "root", "password": "calvin"}});
    forge.world.create(HOME, &secret).await;
    let host = |number: u32| {
        json!({"name": format!("metal-{number}"), "address": format!("https://10.0.9.1{number}"),
            "cpuCores": 8, "memoryMiB": 32768})
    };
    let spec = json!({"type": "redfish", "credentialsSecretRef": {"name": "rack-a-bmc"},
        "redfish": {"hosts": [host(1), host(2)], "powerOff": {"timeout": "10s"}}});
    forge.create("NodeSmithProvider", "rack-a", spec).await;
    forge.plane(&["metal"]).await;
    forge.pool("metal", json!({"providerRef": "rack-a"})).await;
    forge.deploy("web", 2, "5").await;
    let seen = forge
        .until("both pods run on hosts that are on", |seen| {
            running(seen) == 2 && powered(seen) == ["10.0.9.11", "10.0.9.12"]
        })
        .await;
    for claim in claims(&seen) {
        let id = text(&claim, "/status/providerID");
        assert!(id.starts_with("redfish://10.0.9.1"), "{id}");
    }
    forge.undeploy("web").await;
    forge
        .until("both hosts are given back", |seen| {
            claims(seen).is_empty() && seen.list(paths::NODES).count() == 0
        })
        .await;
    forge
        .until("their power is off and no claim on them is left", |seen| {
            let mut maps = seen.list(paths::CONFIG_MAPS);
            let claimed = maps.any(|map| text(map, "/metadata/name").starts_with("joiner-ledger-"));
            powered(seen).is_empty() && !claimed
        })
        .await;
    // What is off can be powered on again.
    forge.deploy("again", 1, "5").await;
    forge
        .until("one host is on again", |seen| {
            running(seen) == 1 && powered(seen).len() == 1
        })
        .await;
}

async fn ns_12_what_make_deploy_installs_is_where_the_document_has_it() {
    let world = World::start().await;
    // The document's command, as it stands, with kubectl on this control plane.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kubectl = format!(
        "KUBECTL={} --kubeconfig={}",
        world.plane().program(Program::Kubectl).display(),
        world.plane().kubeconfig().display()
    );
    let image = "registry.example/kubenodesmith:tag";
    let made = std::process::Command::new("make")
        .args(["deploy", &format!("IMG={image}"), &kubectl])
        .current_dir(root)
        .output()
        .unwrap();
    let said = [made.stdout, made.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(made.status.success(), "{said}");
    for applied in [
        "customresourcedefinition.apiextensions.k8s.io/nodesmithpools.kubenodesmith.parawell.cloud",
        "namespace/kubenodesmith-system",
        "deployment.apps/kubenodesmith-",
        "serviceaccount/kubenodesmith-",
        "clusterrole.rbac.authorization.k8s.io/kubenodesmith-",
        "clusterrolebinding.rbac.authorization.k8s.io/kubenodesmith-",
        "role.rbac.authorization.k8s.io/kubenodesmith-",
    ] {
        assert!(said.contains(applied), "{applied} in {said}");
    }
    let created = |seen: &Seen| {
        let ours = |pod: &&Arc<Value>| {
            text(pod, "/metadata/namespace") == "kubenodesmith-system"
                && label(pod, "control-plane") == "controller-manager"
        };
        seen.list(paths::PODS).any(|pod| ours(&pod))
    };
    assert!(
        world.mirror().until(LIMIT, created).await,
        "no pods in kubenodesmith-system"
    );
    let seen = world.mirror().seen();
    let pod = seen
        .list(paths::PODS)
        .find(|pod| text(pod, "/metadata/namespace") == "kubenodesmith-system");
    let manager = &pod.unwrap()["spec"]["containers"][0];
    let arguments = manager["args"].to_string();
    for argument in ["--leader-elect", "--health-probe-bind-address=:8081"] {
        assert!(arguments.contains(argument), "{arguments}");
    }
    assert_eq!(manager["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(manager["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(manager["image"], image);
}

/// The account that `make deploy` makes is enough: a pod leads to a machine, and its deletion to its removal, by a Joiner
/// that may do no more than the deployment may.
async fn ns_12_the_account_of_the_deployment_suffices_for_a_whole_life_of_nodes() {
    let world = World::start().await;
    let rendered = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--validate=strict",
        "-k",
        &config("kubenodesmith"),
    ];
    let rendered = rendered.map(str::to_owned);
    world.plane().kubectl(rendered).await.unwrap();
    // Here the one that is tested runs beside the cluster and not in it.
    let path = format!("/apis/apps/v1/namespaces/{DEPLOYED}/deployments/kubenodesmith-joiner");
    world.patch(&path, &json!({"spec": {"replicas": 0}})).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}});
    world.create("", &namespace).await;
    let directory = tempfile::tempdir().unwrap();
    let account = world.account(directory.path(), "kubenodesmith-joiner", DEPLOYED);
    let account = account.await;
    let forge = Forge {
        world: Arc::clone(&world),
    };
    let mock = ["--dialect=nodesmith", "--mock-mode"].map(str::to_owned);
    world.join_as("deployed", &account, DEPLOYED, &mock);
    forge.secret().await;
    forge.provider().await;
    forge.plane(&["small"]).await;
    forge
        .pool("small", json!({"limits": {"minNodes": 1}}))
        .await;
    forge.deploy("web", 2, "500m").await;
    forge
        .until("both pods run", |seen| running(seen) == 2)
        .await;
    forge.undeploy("web").await;
    let path = format!("{GROUP}/namespaces/{HOME}/nodesmithpools/small");
    world.delete(&path).await;
    forge
        .until("nothing is left", |seen| {
            claims(seen).is_empty()
                && seen.list(paths::SMITH_POOLS).count() == 0
                && seen.list(paths::NODES).count() == 0
                && machines(seen) == 0
        })
        .await;
    let log = world.logs(usize::MAX);
    let refused: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("forbidden"))
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

async fn ns_13_the_sample_workload_leads_to_a_node_and_its_deletion_to_its_removal() {
    let forge = Forge::ready(json!({})).await;
    let sample = config("samples/test-workloads/echoserver.yaml");
    let kubectl = |verb: &str| [verb, "-f", &sample, "--namespace=default"].map(str::to_owned);
    forge.world.plane().kubectl(kubectl("apply")).await.unwrap();
    forge.until("it runs", |seen| running(seen) == 1).await;
    forge
        .world
        .plane()
        .kubectl(kubectl("delete"))
        .await
        .unwrap();
    forge
        .until("nothing is left", |seen| {
            claims(seen).is_empty() && seen.list(paths::NODES).count() == 0 && machines(seen) == 0
        })
        .await;
}

async fn ns_14_pods_that_come_together_share_machines() {
    let forge = Forge::ready(json!({})).await;
    forge
        .until("the pool is available", |seen| {
            let mut pools = seen.list(paths::SMITH_POOLS);
            pools.any(|pool| is_true(pool, "Available"))
        })
        .await;
    forge.deploy("web", 20, "200m").await;
    let seen = forge
        .until("all pods run", |seen| running(seen) == 20)
        .await;
    assert!(claims(&seen).len() <= 3, "{}", claims(&seen).len());
}
