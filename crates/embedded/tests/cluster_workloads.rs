//! Workload controllers together with scheduler and kubelets, on virtual time.

mod common;

use common::{
    cluster, condition, deployment, edit, name, pass, pods, ready, rolled_out, template, text,
    until,
};
use joiner_embedded::api::{DeleteOptions, Propagation};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_to_a_new_image_without_losing_a_replica_and_back() {
    let cluster = cluster(3).await;
    let api = cluster.api();
    api.create("deployments.apps", "default", deployment("web", 3))
        .unwrap();
    rolled_out(&api, "web", 3).await;
    let first = api.list("replicasets.apps");
    assert_eq!(first.len(), 1);
    assert_eq!(
        first[0]["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "1"
    );

    let image = "/spec/template/spec/containers/0/image";
    edit(&api, "deployments.apps", "web", |web| {
        *web.pointer_mut(image).unwrap() = json!("example.com/app:2");
    });
    let mut fewest = usize::MAX;
    let mut most = 0;
    until("the second revision serves alone", || {
        fewest = fewest.min(ready(&api, "web").len());
        most = most.max(
            pods(&api, "web")
                .iter()
                .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
                .count(),
        );
        let serving = ready(&api, "web");
        serving.len() == 3
            && serving
                .iter()
                .all(|pod| text(pod, "/spec/containers/0/image").ends_with(":2"))
    })
    .await;
    assert_eq!(
        (fewest, most),
        (3, 4),
        "no replica is missed and one more is allowed"
    );
    rolled_out(&api, "web", 3).await;

    edit(&api, "deployments.apps", "web", |web| {
        *web.pointer_mut(image).unwrap() = json!("example.com/app:1");
    });
    rolled_out(&api, "web", 3).await;
    let sets = api.list("replicasets.apps");
    assert_eq!(
        sets.len(),
        2,
        "going back takes the old replica set up again"
    );
    let revisions: Vec<_> = sets
        .iter()
        .map(|set| {
            text(
                set,
                "/metadata/annotations/deployment.kubernetes.io~1revision",
            )
        })
        .collect();
    assert!(
        revisions.contains(&"2") && revisions.contains(&"3"),
        "{revisions:?}"
    );
    let web = api.get("deployments.apps", "default", "web").unwrap();
    assert_eq!(
        condition(&web, "Progressing")["reason"],
        "NewReplicaSetAvailable"
    );
    assert_eq!(condition(&web, "Available")["status"], "True");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn recreate_ends_the_old_before_it_starts_the_new() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut web = deployment("web", 2);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    api.create("deployments.apps", "default", web).unwrap();
    rolled_out(&api, "web", 2).await;
    edit(&api, "deployments.apps", "web", |web| {
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/app:2");
    });
    let mut mixed = false;
    until("the new pods serve", || {
        let all = pods(&api, "web");
        let new = all
            .iter()
            .filter(|pod| text(pod, "/spec/containers/0/image").ends_with(":2"))
            .count();
        mixed |= new > 0 && new < all.len();
        ready(&api, "web").len() == 2 && new == 2
    })
    .await;
    assert!(!mixed, "old and new pods were never there together");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_cannot_progress_says_so_and_a_paused_one_waits() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut big = deployment("big", 1);
    big["spec"]["progressDeadlineSeconds"] = json!(60);
    big["spec"]["template"] = template("big", "example.com/app:1", "64");
    api.create("deployments.apps", "default", big).unwrap();
    pass(30).await;
    let reason = || {
        let big = api.get("deployments.apps", "default", "big").unwrap();
        text(condition(&big, "Progressing"), "/reason").to_owned()
    };
    assert_ne!(reason(), "ProgressDeadlineExceeded");
    pass(60).await;
    assert_eq!(reason(), "ProgressDeadlineExceeded");

    let mut paused = deployment("paused", 1);
    paused["spec"]["paused"] = json!(true);
    api.create("deployments.apps", "default", paused).unwrap();
    pass(30).await;
    assert!(pods(&api, "paused").is_empty());
    edit(&api, "deployments.apps", "paused", |object| {
        object["spec"]["paused"] = json!(false);
    });
    rolled_out(&api, "paused", 1).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scaling_a_deployment_makes_and_ends_pods() {
    let cluster = cluster(2).await;
    let api = cluster.api();
    api.create("deployments.apps", "default", deployment("web", 2))
        .unwrap();
    rolled_out(&api, "web", 2).await;
    for replicas in [5, 1] {
        edit(&api, "deployments.apps", "web", |web| {
            web["spec"]["replicas"] = json!(replicas);
        });
        rolled_out(&api, "web", replicas).await;
        until("surplus pods are gone", || {
            pods(&api, "web").len() == replicas
        })
        .await;
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stateful_pods_come_in_order_with_their_claims_and_are_replaced_from_the_last() {
    let cluster = cluster(2).await;
    let api = cluster.api();
    api.create(
        "storageclasses.storage.k8s.io",
        "",
        json!({
            "metadata": {"name": "fast"}, "provisioner": "disks.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }),
    )
    .unwrap();
    api.create(
        "statefulsets.apps",
        "default",
        json!({
            "metadata": {"name": "db"},
            "spec": {
                "replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
                "template": template("db", "example.com/db:1", "100m"),
                "volumeClaimTemplates": [{
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }],
            },
        }),
    )
    .unwrap();
    let mut order: Vec<String> = Vec::new();
    until("three pods are ready", || {
        for pod in ready(&api, "db") {
            if !order.iter().any(|held| held == name(&pod)) {
                order.push(name(&pod).to_owned());
            }
        }
        order.len() == 3
    })
    .await;
    assert_eq!(order, ["db-0", "db-1", "db-2"]);
    let claims = api.list("persistentvolumeclaims");
    assert_eq!(
        claims.iter().map(|claim| name(claim)).collect::<Vec<_>>(),
        ["data-db-0", "data-db-1", "data-db-2"]
    );
    assert!(
        claims
            .iter()
            .all(|claim| claim["status"]["phase"] == "Bound")
    );

    edit(&api, "statefulsets.apps", "db", |db| {
        db["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/db:2");
    });
    let mut replaced: Vec<String> = Vec::new();
    until("three pods are new", || {
        for pod in ready(&api, "db") {
            if text(&pod, "/spec/containers/0/image").ends_with(":2")
                && !replaced.iter().any(|held| held == name(&pod))
            {
                replaced.push(name(&pod).to_owned());
            }
        }
        replaced.len() == 3
    })
    .await;
    assert_eq!(replaced, ["db-2", "db-1", "db-0"]);
    until("the update is the current revision", || {
        let db = api.get("statefulsets.apps", "default", "db").unwrap();
        db["status"]["currentRevision"] == db["status"]["updateRevision"]
            && db["status"]["currentReplicas"] == 3
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_to_its_end_and_is_gone_after_its_time_to_live() {
    let cluster = cluster(2).await;
    let api = cluster.api();
    let mut work = template("sum", "example.com/sum:1", "100m");
    work["metadata"]["annotations"] = json!({"sim.joiner.dev/run-seconds": "20"});
    work["spec"]["restartPolicy"] = json!("Never");
    api.create("jobs.batch", "default", json!({
        "metadata": {"name": "sum"},
        "spec": {"parallelism": 2, "completions": 5, "backoffLimit": 3, "ttlSecondsAfterFinished": 100, "template": work},
    }))
    .unwrap();
    let mut most = 0;
    until("the job is complete", || {
        most = most.max(
            pods(&api, "sum")
                .iter()
                .filter(|pod| pod["status"]["phase"] == "Running")
                .count(),
        );
        let job = api.get("jobs.batch", "default", "sum").unwrap();
        condition(&job, "Complete")["status"] == "True"
    })
    .await;
    assert_eq!(most, 2);
    let job = api.get("jobs.batch", "default", "sum").unwrap();
    assert_eq!(job["status"]["succeeded"], 5);
    assert_eq!(pods(&api, "sum").len(), 5);
    pass(101).await;
    until("the job and its pods are gone", || {
        api.list("jobs.batch").is_empty() && pods(&api, "sum").is_empty()
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_pods_fail_gives_up_after_its_backoff_limit() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut work = template("bad", "example.com/bad:1", "100m");
    work["metadata"]["annotations"] =
        json!({"sim.joiner.dev/run-seconds": "1", "sim.joiner.dev/exit-code": "1"});
    work["spec"]["restartPolicy"] = json!("Never");
    api.create("jobs.batch", "default", json!({
        "metadata": {"name": "bad"}, "spec": {"backoffLimit": 2, "completions": 1, "parallelism": 1, "template": work},
    }))
    .unwrap();
    until("the job has failed", || {
        let job = api.get("jobs.batch", "default", "bad").unwrap();
        condition(&job, "Failed")["reason"] == "BackoffLimitExceeded"
    })
    .await;
    let job = api.get("jobs.batch", "default", "bad").unwrap();
    assert_eq!(job["status"]["failed"], 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_follows_nodes_as_they_come_and_change() {
    let cluster = cluster(2).await;
    let api = cluster.api();
    api.create("daemonsets.apps", "default", json!({
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "example.com/agent:1", "50m")},
    }))
    .unwrap();
    until("an agent on each node", || ready(&api, "agent").len() == 2).await;
    let tainted =
        joiner_embedded::cluster::kubelet::NodeSpec::named("n3").taint("team", "x", "NoSchedule");
    cluster.kubelets().boot(tainted);
    cluster
        .kubelets()
        .boot(joiner_embedded::cluster::kubelet::NodeSpec::named("n4"));
    until("an agent on the new node", || {
        ready(&api, "agent").len() == 3
    })
    .await;
    pass(60).await;
    let nodes: Vec<_> = ready(&api, "agent")
        .iter()
        .map(|pod| text(pod, "/spec/nodeName").to_owned())
        .collect();
    assert!(!nodes.contains(&"n3".to_owned()), "{nodes:?}");
    edit(&api, "daemonsets.apps", "agent", |agent| {
        agent["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/agent:2");
    });
    let mut fewest = usize::MAX;
    until("all agents are new", || {
        let serving = ready(&api, "agent");
        fewest = fewest.min(serving.len());
        serving.len() == 3
            && serving
                .iter()
                .all(|pod| text(pod, "/spec/containers/0/image").ends_with(":2"))
    })
    .await;
    assert_eq!(fewest, 2, "one at a time");
    let agent = api.get("daemonsets.apps", "default", "agent").unwrap();
    assert_eq!(agent["status"]["desiredNumberScheduled"], 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_owned_goes_with_its_owner_in_each_of_the_three_ways() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let with = |propagation| DeleteOptions {
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    for app in ["background", "foreground", "orphan"] {
        api.create("deployments.apps", "default", deployment(app, 2))
            .unwrap();
        rolled_out(&api, app, 2).await;
    }
    api.delete(
        "deployments.apps",
        "default",
        "background",
        with(Propagation::Background),
    )
    .unwrap();
    assert!(
        api.get("deployments.apps", "default", "background")
            .is_err()
    );
    until("the pods went afterwards", || {
        pods(&api, "background").is_empty()
    })
    .await;

    api.delete(
        "deployments.apps",
        "default",
        "foreground",
        with(Propagation::Foreground),
    )
    .unwrap();
    let held = api
        .get("deployments.apps", "default", "foreground")
        .unwrap();
    assert!(
        !held["metadata"]["deletionTimestamp"].is_null(),
        "it waits for what it owns"
    );
    until("the pods went first", || {
        let gone = api
            .get("deployments.apps", "default", "foreground")
            .is_err();
        assert!(
            !gone || pods(&api, "foreground").is_empty(),
            "the owner goes last"
        );
        gone
    })
    .await;

    api.delete(
        "deployments.apps",
        "default",
        "orphan",
        with(Propagation::Orphan),
    )
    .unwrap();
    until("the owner is gone", || {
        api.get("deployments.apps", "default", "orphan").is_err()
    })
    .await;
    pass(60).await;
    assert_eq!(ready(&api, "orphan").len(), 2, "the pods stay");
    let sets = api.list("replicasets.apps");
    assert_eq!(sets.len(), 1);
    assert!(
        sets[0]["metadata"]["ownerReferences"]
            .as_array()
            .is_none_or(Vec::is_empty)
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_content_with_it() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    api.create("namespaces", "", json!({"metadata": {"name": "shop"}}))
        .unwrap();
    until("it has a service account", || {
        api.get("serviceaccounts", "shop", "default").is_ok()
    })
    .await;
    api.create("deployments.apps", "shop", deployment("web", 2))
        .unwrap();
    api.create(
        "configmaps",
        "shop",
        json!({"metadata": {"name": "settings"}}),
    )
    .unwrap();
    until("pods run", || ready(&api, "web").len() == 2).await;
    api.delete("namespaces", "", "shop", DeleteOptions::default())
        .unwrap();
    until("the namespace is gone", || {
        api.get("namespaces", "", "shop").is_err()
    })
    .await;
    assert!(pods(&api, "web").is_empty());
    assert!(api.get("configmaps", "shop", "settings").is_err());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replica_sets_adopt_what_matches_and_release_what_does_not() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    api.create("deployments.apps", "default", deployment("web", 2))
        .unwrap();
    rolled_out(&api, "web", 2).await;
    let loose = name(&ready(&api, "web")[0]).to_owned();
    edit(&api, "pods", &loose, |pod| {
        pod["metadata"]["labels"]["app"] = json!("debug");
    });
    until("the released pod is replaced", || {
        ready(&api, "web").len() == 2
    })
    .await;
    let freed: Value = Value::clone(&api.get("pods", "default", &loose).unwrap());
    assert!(
        freed["metadata"]["ownerReferences"]
            .as_array()
            .is_none_or(Vec::is_empty)
    );
    edit(&api, "pods", &loose, |pod| {
        pod["metadata"]["labels"]["app"] = json!("web");
    });
    until("three are one too many", || pods(&api, "web").len() == 2).await;
    cluster.stop().await;
}
