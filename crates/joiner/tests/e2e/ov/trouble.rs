//! What is wrong is said in a sentence, in a condition and in an event; and all goes on by itself when it is mended.

use std::time::Duration;

use joiner_sim::clouds::ovhcloud::{OvhCloudOptions, documented_rules};
use serde_json::{Value, json};

use super::cluster::{Cluster, NAMESPACE, flavors};
use crate::harness::{Sight, Story, paths, text};

/// Waits until an event about an object says something.
async fn said(cluster: &Cluster, name: &str, part: &str) {
    let about = |event: &Value| {
        text(event, "/involvedObject/name") == name && text(event, "/message").contains(part)
    };
    let limit = Duration::from_mins(1);
    let mirror = cluster.world.mirror();
    let so = mirror
        .until(limit, |seen| {
            seen.list(paths::EVENTS).any(|event| about(event))
        })
        .await;
    let seen = mirror.seen();
    let events = seen.list(paths::EVENTS);
    let events = events.filter(|event| text(event, "/involvedObject/name") == name);
    let events: Vec<&str> = events.map(|event| text(event, "/message")).collect();
    assert!(
        so,
        "nothing was said about {name} with {part:?}: {events:#?}"
    );
}

fn ready_says(class: &Value, part: &str) -> bool {
    let all = class["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    all.any(|one| {
        one["type"] == "Ready" && one["status"] == "False" && text(one, "/message").contains(part)
    })
}

pub(super) async fn ov_12_what_is_wrong_with_a_class_is_said_and_heals_when_it_is_mended() {
    let mut options = OvhCloudOptions::calm(6).quick();
    options.rules = documented_rules(&options.service_name, &options.kube_id);
    let cluster = Cluster::start(options.clone()).await;
    let plane = cluster.world.plane();
    cluster
        .service
        .secret(plane, "wrong", "not-the-consumer-key")
        .await;
    // The Secret is there before its key is right; another is not there at all.
    let secret = |name: &str| json!({"credentialsSecretRef": {"name": name}});
    cluster.class("key", secret("wrong")).await;
    cluster.class("secret", secret("none")).await;
    let nowhere = "f".repeat(32);
    cluster
        .class("project", json!({"serviceName": nowhere}))
        .await;
    cluster
        .class("region", json!({"region": "NOWHERE-1"}))
        .await;
    cluster
        .class("cluster", json!({"kubeId": "no-such-cluster"}))
        .await;
    cluster.join(&["--catalog-period=10s"]);
    let story = cluster.story("ill", "key", flavors(&["b3-8"])).await;
    story.deploy("web", 1, "500m", json!({})).await;
    for (name, part) in [
        ("key", "the OVHcloud credentials are not accepted"),
        ("secret", "secret karpenter/none cannot be read"),
        ("project", "/cloud/project/ffff"),
        ("region", "region mismatch: spec.region is \"NOWHERE-1\""),
        ("cluster", "/kube/no-such-cluster"),
    ] {
        cluster
            .class_until(name, part, |class| ready_says(class, part))
            .await;
        said(&cluster, name, part).await;
    }
    // The pool of a class that cannot be used says so as well.
    story
        .until("the pool says why it buys nothing", |sight| {
            let pool = sight.pool().unwrap();
            pool["status"]["conditions"]
                .to_string()
                .contains("not accepted")
        })
        .await;
    said(&cluster, "ill", "not accepted").await;
    assert!(
        !cluster.world.logs(400).contains("not-the-consumer-key"),
        "a key is in the log"
    );

    let key = json!({"stringData": {"consumerKey": options.consumer_key}});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/wrong");
    cluster.world.patch(&path, &key).await;
    cluster
        .service
        .secret(plane, "none", &options.consumer_key)
        .await;
    for (name, change) in [
        (
            "project",
            json!({"spec": {"serviceName": options.service_name}}),
        ),
        ("region", json!({"spec": {"region": null}})),
        ("cluster", json!({"spec": {"kubeId": options.kube_id}})),
    ] {
        let path = format!("{}/{name}", paths::OVH_CLASSES);
        cluster.world.patch(&path, &change).await;
    }
    for name in ["key", "secret", "project", "region", "cluster"] {
        cluster.class_ready(name).await;
        said(&cluster, name, "can be used again").await;
    }
    story.runs("web", 1).await;
    cluster.end(story).await;
}

/// All conditions of all machines of a story, and what was said about them.
fn heard(sight: &Sight) -> String {
    let mut all = String::new();
    for claim in sight.claims() {
        all += &claim["status"]["conditions"].to_string();
        all += &sight.said(text(&claim, "/metadata/name")).join("\n");
    }
    all
}

/// Waits until a machine of the story says something in a condition or an event, however soon it goes again.
async fn machine_says(story: &Story, part: &str) {
    story
        .until(&format!("a machine says {part:?}"), |sight| {
            heard(sight).contains(part) || sight.everything_said().contains(part)
        })
        .await;
}

pub(super) async fn ov_12_quota_and_stock_that_are_used_up_show_and_heal() {
    let mut options = OvhCloudOptions::calm(7).quick();
    let documented = documented_rules(&options.service_name, &options.kube_id);
    options.rules.clone_from(&documented);
    let quota = format!("/cloud/project/{}/region/*", options.service_name);
    options.rules.push(("GET".to_owned(), quota));
    let cluster = Cluster::start(options).await;
    let cloud = &cluster.service.cloud;
    cluster.join(&["--catalog-period=5s"]);
    let story = cluster
        .story("scarce", "default", flavors(&["b3-8", "b3-16"]))
        .await;
    cluster.class_ready("default").await;

    // A permission that is missing: the very call is named, and the machine is bought once it is granted.
    let create = "/nodepool";
    cloud.change(|options| {
        options
            .rules
            .retain(|(method, path)| method != "POST" || !path.ends_with(create));
    });
    story.deploy("denied", 1, "500m", json!({})).await;
    machine_says(&story, "may not call POST /cloud/project/").await;
    cloud.change(|options| {
        options
            .rules
            .extend(documented.iter().filter(|one| one.0 == "POST").cloned());
    });
    story.runs("denied", 1).await;

    // Out of stock: the next flavour is bought.
    cloud.change(|options| {
        let flavor = options.flavors.iter_mut().find(|one| one.name == "b3-8");
        flavor.unwrap().stock = Some(0);
    });
    let large = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "none",
        "resources": {"requests": {"cpu": "1500m"}}}]}}}});
    story.deploy("sold-out", 1, "0", large).await;
    machine_says(&story, "out of stock").await;
    let sight = story.runs("sold-out", 1).await;
    let kind = "node.kubernetes.io/instance-type";
    assert_eq!(sight.homes_by("sold-out", kind), ["b3-16"]);

    // No core is left: nothing is asked for, the pod is told, and it runs once there is more.
    cloud.change(|options| options.quota_cores = Some(6));
    tokio::time::sleep(Duration::from_secs(11)).await;
    let huge = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "none",
        "resources": {"requests": {"cpu": "3"}}}]}}}});
    story.deploy("limited", 1, "0", huge).await;
    story
        .until("the pod is told about the quota", |sight| {
            let pod = sight.pods("limited").pop();
            pod.is_some_and(|pod| {
                let said = sight.said(text(&pod, "/metadata/name"));
                said.iter().any(|words| words.contains("quota"))
            })
        })
        .await;
    cloud.change(|options| options.quota_cores = None);
    story.runs("limited", 1).await;

    // A flavour that is not sold.
    let unknown = json!({"spec": {"template": {"spec": {"nodeSelector": {kind: "b9-1"}}}}});
    story.deploy("unknown", 1, "100m", unknown).await;
    super::told(&story, "unknown", "b9-1").await;
    let known = json!({"spec": {"template": {"spec": {"nodeSelector": {kind: "b3-16"}}}}});
    let path = story.path("apps/v1", "Deployment", "unknown");
    cluster.world.patch(&path, &known).await;
    story.runs("unknown", 1).await;
    // A pod runs as soon as its node lets it; a machine is ready a moment later. Those that failed are gone by then.
    story
        .until("all machines are ready", |sight| {
            !sight.claims().is_empty() && sight.all_ready()
        })
        .await;
    cluster.end(story).await;
}
