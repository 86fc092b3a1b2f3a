//! The promises of karpenter-provider-ovhcloud, each under its id: the real binary on a real control plane, buying node
//! pools from the simulated OVHcloud over HTTP, every call signed.

mod cluster;
mod install;
mod trouble;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use joiner_sim::clouds::ovhcloud::{Flavor, OvhCloudOptions, built_in};
use reqwest::Method;
use serde_json::{Value, json};

use self::cluster::{Cluster, flavors, repository};
use crate::harness::{STORY, Sight, Story, collection, in_zone, merge, paths, tests, text};

use self::install::{
    ov_03_ov_08_the_quick_start_of_the_document_word_for_word,
    ov_07_what_is_missing_at_the_start_is_said, ov_08_every_value_of_the_chart_has_its_effect,
    ov_08_mock_mode_needs_no_account,
};
use self::trouble::{
    ov_12_quota_and_stock_that_are_used_up_show_and_heal,
    ov_12_what_is_wrong_with_a_class_is_said_and_heals_when_it_is_mended,
};

tests![
    ov_01_the_manifests_of_the_document_are_taken_as_they_stand,
    ov_02_a_region_of_one_zone_has_the_zone_nova_and_so_have_its_volumes,
    ov_02_pods_get_the_zones_they_ask_for_in_a_region_of_three,
    ov_03_ov_08_the_quick_start_of_the_document_word_for_word,
    ov_04_what_is_bought_is_cheapest_by_the_catalogue_and_gpus_can_be_had,
    ov_05_months_are_bought_of_the_second_generation_only,
    ov_05_nodes_that_are_to_be_apart_are_five_to_a_pool,
    ov_06_cluster_and_region_are_found_by_themselves,
    ov_07_what_is_missing_at_the_start_is_said,
    ov_08_every_value_of_the_chart_has_its_effect,
    ov_08_mock_mode_needs_no_account,
    ov_09_a_limit_on_pools_does_not_stop_scaling,
    ov_10_removing_one_node_removes_that_node_and_no_other,
    ov_11_nodes_that_have_drifted_or_are_too_old_are_replaced,
    ov_11_underused_nodes_make_way_and_budgets_hold,
    ov_12_quota_and_stock_that_are_used_up_show_and_heal,
    ov_12_what_is_wrong_with_a_class_is_said_and_heals_when_it_is_mended,
];

const ZONE: &str = "topology.kubernetes.io/zone";
const TYPE: &str = "node.kubernetes.io/instance-type";
const HOST: &str = "kubernetes.io/hostname";
const CINDER_ZONE: &str = "topology.cinder.csi.openstack.org/zone";

/// A change of a deployment that only concerns the spec of its pods.
fn pods(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

/// Pods of an app that are spread over a topology.
fn spread(app: &str, key: &str) -> Value {
    pods(
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}]}),
    )
}

/// A container that requests so much.
fn requests(amounts: Value) -> Value {
    pods(
        json!({"containers": [{"name": "main", "image": "none", "resources": {"requests": amounts}}]}),
    )
}

async fn ov_01_the_manifests_of_the_document_are_taken_as_they_stand() {
    let cluster = Cluster::shared().await;
    let (world, service) = (&cluster.world, &cluster.service);
    let manifests = service.documented();
    // What is applied from the repository is what the document shows.
    let sample = repository().join("config/samples/karpenter_ovhcloud.yaml");
    let sample = std::fs::read_to_string(sample).unwrap();
    let sample = sample
        .replace("your-project-id", &service.options.service_name)
        .replace("your-cluster-id", &service.options.kube_id);
    let sample: Vec<Value> = sample
        .split("\n---\n")
        .map(|one| serde_saphyr::from_str(one).unwrap())
        .collect();
    assert_eq!(sample, manifests[..2]);
    let client = world.plane().client().unwrap();
    for mut manifest in manifests {
        manifest["metadata"]["name"] = "word-for-word".into();
        let path = collection(&manifest, "default");
        let path = format!("{path}?dryRun=All&fieldValidation=Strict");
        client
            .send(Method::POST, &path, Some(&manifest))
            .await
            .unwrap();
    }
    // Every field but serviceName may be left out; nonsense is refused where it is written.
    let class = |spec: Value| {
        json!({"apiVersion": "karpenter.ovhcloud.sh/v1alpha1", "kind": "OVHNodeClass",
            "metadata": {"name": "least"}, "spec": spec})
    };
    let path = format!("{}?dryRun=All&fieldValidation=Strict", paths::OVH_CLASSES);
    let least = class(json!({"serviceName": service.options.service_name}));
    let made = client
        .send(Method::POST, &path, Some(&least))
        .await
        .unwrap();
    assert_eq!(made["spec"]["monthlyBilled"], false);
    assert_eq!(made["spec"]["antiAffinity"], false);
    for bad in [
        json!({}),
        json!({"serviceName": 5}),
        json!({"serviceName": "x", "zone": "a"}),
    ] {
        let refused = client
            .send(Method::POST, &path, Some(&class(bad.clone())))
            .await;
        assert!(refused.is_err(), "{bad} was accepted");
    }
    let class = cluster.class_ready("default").await;
    assert_eq!(class["status"]["region"], "EU-WEST-PAR");
    let sold = class["status"]["discoveredFlavors"].to_string();
    assert!(sold.contains("b3-8") && sold.contains("r2-15"), "{sold}");
    for name in ["ovhnc", "ovhncs", "ovhnodeclasses"] {
        let table = world.plane().kubectl(["get", name]).await.unwrap();
        assert!(table.contains("EU-WEST-PAR"), "{table}");
    }
}

async fn ov_02_pods_get_the_zones_they_ask_for_in_a_region_of_three() {
    let cluster = Cluster::shared().await;
    let some = flavors(&["b3-8", "b3-16", "b3-32"]);
    let story = cluster.story("three", "default", some).await;
    volume(&story, "three-disk", "eu-west-par-c").await;
    story
        .deploy("picky", 1, "500m", in_zone("eu-west-par-b"))
        .await;
    // Without `minDomains` the scheduler knows only zones that have nodes already, and may fill the first one.
    let mut over_three = spread("spread", ZONE);
    over_three["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["minDomains"] = 3.into();
    story.deploy("spread", 6, "500m", over_three).await;
    let beside = pods(
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "picky"}}, "topologyKey": ZONE}]}}}),
    );
    story.deploy("beside", 2, "500m", beside).await;
    let large = pods(
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "karpenter.ovhcloud.sh/instance-cpu", "operator": "Gt", "values": ["4"]},
            {"key": ZONE, "operator": "NotIn", "values": ["eu-west-par-a", "eu-west-par-b"]}]}]}}}}),
    );
    story.deploy("large", 1, "500m", large).await;
    let disk = pods(
        json!({"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "three-disk"}}]}),
    );
    story.deploy("db", 1, "500m", disk).await;
    story
        .deploy("astray", 1, "500m", in_zone("eu-west-par-z"))
        .await;
    for (app, count) in [
        ("picky", 1),
        ("spread", 6),
        ("beside", 2),
        ("large", 1),
        ("db", 1),
    ] {
        story.runs(app, count).await;
    }
    let sight = story.sight();
    let zones = |app: &str| sight.homes_by(app, ZONE);
    let [a, b, c] = ["a", "b", "c"].map(|one| format!("eu-west-par-{one}"));
    assert_eq!(zones("picky"), [&*b]);
    assert_eq!(zones("spread"), [&*a, &*a, &*b, &*b, &*c, &*c]);
    assert_eq!(zones("beside"), [&*b, &*b]);
    assert_eq!(zones("large"), [&*c]);
    assert_eq!(sight.homes_by("large", TYPE), ["b3-32"]);
    assert_eq!(zones("db"), [&*c]);
    told(&story, "astray", "eu-west-par-z").await;
    world_without(&story, "three-disk").await;
    cluster.end(story).await;
}

async fn ov_02_a_region_of_one_zone_has_the_zone_nova_and_so_have_its_volumes() {
    let options = OvhCloudOptions::calm(2).quick().single_zone();
    let cluster = Cluster::start(options).await;
    cluster.join(&[]);
    let some = flavors(&["b3-8", "b3-16", "b3-32"]);
    let story = cluster.story("nova", "default", some).await;
    volume(&story, "nova-disk", "nova").await;
    let client = story.world.plane().client().unwrap();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "nova"},
        "provisioner": "cinder.csi.openstack.org", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": CINDER_ZONE, "values": ["nova"]}]}]});
    let path = "/apis/storage.k8s.io/v1/storageclasses";
    client.send(Method::POST, path, Some(&class)).await.unwrap();
    let wanted = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "new"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "nova",
            "resources": {"requests": {"storage": "1Gi"}}}});
    story.create(wanted).await;
    story.deploy("picky", 1, "500m", in_zone("nova")).await;
    story
        .deploy("spread", 3, "500m", spread("spread", ZONE))
        .await;
    let mounts = |claim: &str| {
        pods(json!({"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}]}))
    };
    story.deploy("old", 1, "500m", mounts("nova-disk")).await;
    story.deploy("new", 1, "500m", mounts("new")).await;
    story.deploy("astray", 1, "500m", in_zone("gra11-a")).await;
    provision(&story, "new", "nova").await;
    for (app, count) in [("picky", 1), ("spread", 3), ("old", 1), ("new", 1)] {
        let sight = story.runs(app, count).await;
        assert_eq!(sight.homes_by(app, ZONE), vec!["nova"; count], "{app}");
        assert_eq!(
            sight.homes_by(app, "topology.kubernetes.io/region"),
            vec!["GRA11"; count]
        );
    }
    assert!(
        cluster
            .service
            .cloud
            .pools()
            .iter()
            .all(|pool| pool["availabilityZones"] == json!([]))
    );
    told(&story, "astray", "gra11-a").await;
    for name in ["nova-disk", "made-new"] {
        world_without(&story, name).await;
    }
    cluster.end(story).await;
}

/// A volume of the Cinder driver that is there already, and the claim on it.
async fn volume(story: &Story, name: &str, zone: &str) {
    let object = persistent(
        name,
        zone,
        json!({"namespace": story.name, "name": name}),
        "",
    );
    story.create(object).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name,
            "resources": {"requests": {"storage": "1Gi"}}}});
    story.create(claim).await;
}

fn persistent(name: &str, zone: &str, claim: Value, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": claim,
        "csi": {"driver": "cinder.csi.openstack.org", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": CINDER_ZONE, "operator": "In", "values": [zone]}]}]}}}})
}

/// Does what the Cinder driver does once the scheduler has chosen a node: makes the volume.
async fn provision(story: &Story, claim: &str, zone: &str) {
    let path = story.path("v1", "PersistentVolumeClaim", claim);
    for _ in 0..900 {
        let found = story.world.get(&path).await.unwrap();
        if !text(
            &found,
            "/metadata/annotations/volume.kubernetes.io~1selected-node",
        )
        .is_empty()
        {
            let owner = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": story.name,
                "name": claim, "uid": found["metadata"]["uid"]});
            story
                .create(persistent(&format!("made-{claim}"), zone, owner, "nova"))
                .await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    story.fail("no node was chosen for the claim");
}

/// Volumes belong to no namespace and go last.
async fn world_without(story: &Story, volume: &str) {
    story
        .world
        .delete(&format!("/api/v1/persistentvolumes/{volume}"))
        .await;
}

/// Waits until a pod that fits nowhere is told why.
async fn told(story: &Story, app: &str, word: &str) {
    story
        .until(&format!("{app} is told about {word}"), |sight| {
            let pod = sight.pods(app).pop();
            pod.is_some_and(|pod| {
                let said = sight.said(text(&pod, "/metadata/name"));
                said.iter()
                    .any(|words| words.contains("Failed to schedule pod") && words.contains(word))
            })
        })
        .await;
}

/// What pods can have of a flavour: cores in thousandths and MiB of memory.
fn room(flavor: &Flavor) -> (u32, u32) {
    let memory = flavor.ram * 1024 * 945 / 1000;
    (flavor.vcpus * 995 - 150, memory.saturating_sub(1840))
}

async fn ov_04_what_is_bought_is_cheapest_by_the_catalogue_and_gpus_can_be_had() {
    let cluster = Cluster::shared().await;
    let anything = json!({"spec": {"template": {"spec": {"requirements": []}}}});
    let story = cluster.story("cheap", "default", anything).await;
    let cheapest = |fits: &dyn Fn(&Flavor) -> bool| {
        let all = built_in().into_iter().filter(|one| fits(one));
        all.min_by_key(|one| one.hourly).unwrap().name
    };
    story
        .deploy(
            "small",
            1,
            "0",
            requests(json!({"cpu": "500m", "memory": "512Mi"})),
        )
        .await;
    story.runs("small", 1).await;
    story
        .deploy(
            "large",
            1,
            "0",
            requests(json!({"cpu": "6", "memory": "20Gi"})),
        )
        .await;
    // Only then the model: a node with a GPU has cores to spare, and what waits beside it would run there for nothing.
    story.runs("large", 1).await;
    let gpu = json!({"containers": [{"name": "main", "image": "none", "resources": {
        "requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}]});
    story.deploy("model", 1, "0", pods(gpu)).await;
    let sight = story.runs("model", 1).await;
    let fits = |cores: u32, memory: u32| {
        move |one: &Flavor| room(one).0 >= cores && room(one).1 >= memory && one.gpus == 0
    };
    assert_eq!(sight.homes_by("small", TYPE), [cheapest(&fits(500, 512))]);
    assert_eq!(
        sight.homes_by("large", TYPE),
        [cheapest(&fits(6000, 20 * 1024))]
    );
    assert_eq!(
        sight.homes_by("model", TYPE),
        [cheapest(&|one| one.gpus > 0)]
    );
    let asked = cluster.service.cloud.calls();
    assert!(
        asked
            .iter()
            .any(|call| call.contains("/order/catalog/public/cloud"))
    );
    // The same prices for people.
    let ended = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args(["prices", "--provider", "ovhcloud", "--output", "json"])
        .env("OVH_ENDPOINT", cluster.service.endpoint())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&ended.stdout);
    let shown: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{ended:?}"));
    assert_eq!(shown["currency"], "EUR");
    let all = shown["flavours"].as_array().unwrap();
    let one = all.iter().find(|one| one["flavour"] == "b3-8").unwrap();
    assert_eq!(one["hour"], 0.0512);
    cluster.end(story).await;
}

/// The service's pools of a story.
fn pools_of(cluster: &Cluster, story: &Story) -> Vec<Value> {
    let mut all = cluster.service.cloud.pools();
    all.retain(|pool| pool["template"]["metadata"]["labels"][STORY] == *story.name);
    all
}

async fn ov_05_months_are_bought_of_the_second_generation_only() {
    let cluster = Cluster::shared().await;
    let secret = json!({"monthlyBilled": true, "credentialsSecretRef": {"name": "monthlykey"}});
    cluster.class("monthly", secret).await;
    let story = cluster
        .story("months", "monthly", flavors(&["b2-7", "b3-8"]))
        .await;
    for flavor in ["b2-7", "b3-8"] {
        story
            .deploy(
                flavor,
                1,
                "500m",
                pods(json!({"nodeSelector": {TYPE: flavor}})),
            )
            .await;
    }
    for flavor in ["b2-7", "b3-8"] {
        story.runs(flavor, 1).await;
    }
    for pool in pools_of(&cluster, &story) {
        assert_eq!(pool["monthlyBilled"], pool["flavor"] == "b2-7", "{pool:#}");
    }
    // A class that asks for hours again replaces what is paid by the month, and nothing else.
    let before = story.sight().homes_by("b3-8", HOST);
    story
        .world
        .patch(
            &format!("{}/monthly", paths::OVH_CLASSES),
            &json!({"spec": {"monthlyBilled": false}}),
        )
        .await;
    story
        .until("the node of the month is replaced", |sight| {
            let node = sight.homes_by("b2-7", HOST);
            let pools = cluster.service.cloud.nodes();
            let by_hour = |name: &String| {
                let mut nodes = pools.iter().filter(|one| one.name == *name);
                nodes.any(|node| {
                    let mut pools = pools_of(&cluster, &story).into_iter();
                    pools.any(|pool| pool["name"] == *node.pool && pool["monthlyBilled"] == false)
                })
            };
            node.len() == 1 && node.iter().all(by_hour) && sight.claims().len() == 2
        })
        .await;
    assert_eq!(story.sight().homes_by("b3-8", HOST), before);
    cluster.end(story).await;
}

async fn ov_05_nodes_that_are_to_be_apart_are_five_to_a_pool() {
    let cluster = Cluster::shared().await;
    let secret = json!({"antiAffinity": true, "credentialsSecretRef": {"name": "apartkey"}});
    cluster.class("apart", secret).await;
    let story = cluster.story("apart", "apart", flavors(&["b3-8"])).await;
    let mut change = apart("web");
    merge(&mut change, in_zone("eu-west-par-a"));
    story.deploy("web", 6, "500m", change).await;
    story.runs("web", 6).await;
    let pools = pools_of(&cluster, &story);
    let mut sizes: Vec<u64> = pools
        .iter()
        .filter_map(|pool| pool["desiredNodes"].as_u64())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 5], "{pools:#?}");
    assert!(
        pools
            .iter()
            .all(|pool| pool["antiAffinity"] == true && pool["maxNodes"] == 5)
    );
    cluster.end(story).await;
}

/// Pods of an app that share no host.
fn apart(app: &str) -> Value {
    pods(
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}]}}}),
    )
}

async fn ov_06_cluster_and_region_are_found_by_themselves() {
    let cluster = Cluster::shared().await;
    let secret =
        json!({"kubeId": null, "region": null, "credentialsSecretRef": {"name": "foundkey"}});
    cluster.class("found", secret).await;
    let class = cluster.class_ready("found").await;
    let status = &class["status"];
    assert_eq!(
        status["kubeId"], *cluster.service.options.kube_id,
        "{status:#}"
    );
    assert_eq!(status["region"], "EU-WEST-PAR");
    let wide = cluster
        .world
        .plane()
        .kubectl(["get", "ovhnc", "found", "-o", "wide"])
        .await
        .unwrap();
    assert!(wide.contains(&cluster.service.options.kube_id), "{wide}");
    let story = cluster.story("found", "found", flavors(&["b3-8"])).await;
    story.deploy("web", 1, "500m", json!({})).await;
    story.runs("web", 1).await;
    cluster.end(story).await;
}

async fn ov_09_a_limit_on_pools_does_not_stop_scaling() {
    let mut options = OvhCloudOptions::calm(3).quick();
    options.max_pools = 10;
    let cluster = Cluster::start(options).await;
    // A pool of another owner counts as well, and stays.
    cluster.service.cloud.plant(
        &json!({"name": "theirs", "flavorName": "b3-8", "desiredNodes": 0,
        "availabilityZones": ["eu-west-par-a"],
        "template": {"metadata": {"labels": {}, "annotations": {}, "finalizers": []},
            "spec": {"taints": [], "unschedulable": false}}}),
    );
    cluster.join(&["--ovh-max-node-pools=10"]);
    let story = cluster.story("limit", "default", flavors(&["b3-8"])).await;
    // Labels of their own make shapes of their own.
    for number in 0..12 {
        let name = format!("limit-{number}");
        let mut pool = flavors(&["b3-8"]);
        merge(
            &mut pool,
            json!({"spec": {"template": {"metadata": {"labels": {"team": name}}, "spec": {"nodeClassRef":
                {"group": "karpenter.ovhcloud.sh", "kind": "OVHNodeClass", "name": "default"}}}}}),
        );
        story.pool_named(&name, pool).await;
        let mut change = in_zone("eu-west-par-a");
        merge(&mut change, pods(json!({"nodeSelector": {"team": name}})));
        story.deploy(&name, 1, "500m", change).await;
    }
    for number in 0..12 {
        let name = format!("limit-{number}");
        let sight = story.runs(&name, 1).await;
        assert_eq!(sight.homes_by(&name, "team"), [&*name]);
    }
    let peak = cluster.service.cloud.peaks().0;
    assert!(peak <= 10, "{peak}");
    cluster.end(story).await;
    // Where pools are short, empty ones go at once.
    for left in (0..60).rev() {
        let pools = cluster.service.cloud.pools();
        if pools.len() < 9 && pools.iter().all(|pool| pool["desiredNodes"] == 0) {
            assert!(pools.iter().any(|pool| pool["name"] == "theirs"));
            break;
        }
        assert!(
            left > 0,
            "pools are left: {pools:#?}\n{}",
            cluster.world.logs(40)
        );
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn ov_10_removing_one_node_removes_that_node_and_no_other() {
    let cluster = Cluster::shared().await;
    let story = cluster.story("one", "default", flavors(&["b3-8"])).await;
    let mut change = apart("web");
    merge(&mut change, in_zone("eu-west-par-b"));
    story.deploy("web", 4, "500m", change).await;
    // Nodes of the service take pods as soon as they join; a machine says a moment later which node is its own.
    let sight = story
        .until("4 pods run, and every machine has its node", |sight| {
            sight.running("web").len() == 4 && sight.claims().len() == 4 && sight.all_ready()
        })
        .await;
    assert_eq!(pools_of(&cluster, &story).len(), 1);
    let victim = sight.claim_names().remove(2);
    let node = |name: &str| {
        let claim = story.sight().claim(name);
        claim
            .map(|claim| text(&claim, "/status/nodeName").to_owned())
            .unwrap_or_default()
    };
    let gone = node(&victim);
    assert!(!gone.is_empty(), "{victim} has no node");
    let kept: BTreeSet<String> = sight
        .homes_by("web", HOST)
        .into_iter()
        .filter(|one| *one != gone)
        .collect();
    story.scale("web", 3).await;
    let path = format!("{}/{victim}", paths::CLAIMS);
    let plane = story.world.plane();
    plane
        .kubectl(["delete", "nodeclaim", &victim, "--wait=false"])
        .await
        .unwrap();
    story
        .until("it is gone", |sight| {
            sight.claim(&victim).is_none()
                && sight.node(&gone).is_none()
                && sight.running("web").len() == 3
        })
        .await;
    assert!(story.world.get(&path).await.is_none());
    let sight = story.sight();
    let mut left: BTreeSet<String> = sight
        .nodes()
        .iter()
        .map(|one| text(one, "/metadata/name").to_owned())
        .collect();
    assert!(kept.is_subset(&left), "{kept:?} {left:?}");
    left.retain(|one| *one == gone);
    assert!(left.is_empty());
    let cloud = &cluster.service.cloud;
    assert!(
        cloud.removals().iter().all(|(_, named)| *named),
        "the service chose: {:?}",
        cloud.removals()
    );
    cluster.end(story).await;
}

fn disruption(settings: Value) -> Value {
    json!({"spec": {"disruption": settings}})
}

async fn ov_11_underused_nodes_make_way_and_budgets_hold() {
    let cluster = Cluster::shared().await;
    let mut pool = flavors(&["b3-8", "b3-16", "b3-32"]);
    let closed = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s",
        "budgets": [{"nodes": "0"}]});
    merge(&mut pool, disruption(closed));
    let story = cluster.story("shrink", "default", pool).await;
    story.deploy("web", 5, "1", json!({})).await;
    story.runs("web", 5).await;
    story.scale("web", 1).await;
    let first = story.always(
        "the new one is in use before the old one goes",
        Sight::replacement_first,
    );
    // Nothing goes while the budget is nothing.
    let before = story.sight().claim_names();
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(story.sight().claim_names(), before);
    story
        .change_pool(disruption(json!({"budgets": [{"nodes": "100%"}]})))
        .await;
    story
        .until("one of the smallest is left", |sight| {
            sight.types() == ["b3-8"] && sight.running("web").len() == 1
        })
        .await;
    first.check();
    drop(first);
    story.scale("web", 0).await;
    story
        .until("nothing is left", |sight| sight.claims().is_empty())
        .await;
    cluster.end(story).await;
}

async fn ov_11_nodes_that_have_drifted_or_are_too_old_are_replaced() {
    let cluster = Cluster::shared().await;
    let mut pool = flavors(&["b3-8"]);
    merge(
        &mut pool,
        disruption(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})),
    );
    let story = cluster.story("renew", "default", pool).await;
    story.deploy("web", 1, "500m", json!({})).await;
    let sight = story.runs("web", 1).await;
    let first = sight.claim_names();
    story
        .change_pool(json!({"spec": {"template": {"metadata": {"labels": {"generation": "two"}}}}}))
        .await;
    let sight = story
        .until("another has taken its place", |sight| {
            sight.claim_names().len() == 1
                && sight.claim_names() != first
                && sight.running("web").len() == 1
        })
        .await;
    assert_eq!(sight.homes_by("web", "generation"), ["two"]);
    let second = sight.claim_names();
    // Machines that are bought from now on are old after a minute.
    let old = json!({"spec": {"template": {"metadata": {"labels": {"generation": "three"}},
        "spec": {"expireAfter": "60s"}}}});
    story.change_pool(old).await;
    let third = story
        .until("a third has", |sight| {
            sight.claim_names().len() == 1
                && sight.claim_names() != second
                && sight.running("web").len() == 1
        })
        .await
        .claim_names();
    story
        .until("which is followed by a fourth", |sight| {
            let names = sight.claim_names();
            names.len() == 1 && names != third && sight.running("web").len() == 1
        })
        .await;
    let never = json!({"spec": {"template": {"spec": {"expireAfter": "Never"}}}});
    story.change_pool(never).await;
    assert!(
        cluster
            .service
            .cloud
            .removals()
            .iter()
            .all(|(_, named)| *named)
    );
    cluster.end(story).await;
}
