//! The in-process interface: what the cluster's own components rely on.

use joiner_embedded::{
    api::{ApiServer, ChangeKind, DeleteOptions, Local, Options, Propagation},
    clock::Clock,
};
use serde_json::{Value, json};

fn server() -> Local {
    ApiServer::new(Clock::virtual_time(), &Options::default()).local()
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test(start_paused = true)]
async fn created_objects_carry_what_the_server_sets() {
    let api = server();
    let created = api.create("pods", "default", pod("a")).unwrap();
    assert_eq!(created["kind"], "Pod");
    assert_eq!(created["apiVersion"], "v1");
    assert_eq!(
        created["metadata"]["creationTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["status"]["phase"], "Pending");
    assert_eq!(created["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert_eq!(api.get("pods", "default", "a").unwrap(), created);
    let again = api.create("pods", "default", pod("a")).unwrap_err();
    assert_eq!((again.code, again.reason), (409, "AlreadyExists"));
    let nowhere = api.create("pods", "nowhere", pod("a")).unwrap_err();
    assert_eq!(nowhere.message, "namespaces \"nowhere\" not found");
}

#[tokio::test(start_paused = true)]
async fn generated_names_are_different_each_time() {
    let api = server();
    let mut object = pod("");
    object["metadata"] = json!({"generateName": "web-"});
    let one = api.create("pods", "default", object.clone()).unwrap();
    let two = api.create("pods", "default", object).unwrap();
    assert_ne!(one["metadata"]["name"], two["metadata"]["name"]);
    assert!(
        one["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("web-")
    );
}

#[tokio::test(start_paused = true)]
async fn stale_updates_conflict_and_empty_ones_commit_nothing() {
    let api = server();
    let first = api.create("pods", "default", pod("a")).unwrap();
    let mut changed = (*first).clone();
    changed["metadata"]["labels"] = json!({"a": "b"});
    let second = api.update("pods", changed.clone()).unwrap();
    assert_eq!(second["metadata"]["labels"]["a"], "b");
    assert_eq!(api.update("pods", changed).unwrap_err().reason, "Conflict");
    assert_eq!(api.update("pods", (*second).clone()).unwrap(), second);
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_apart() {
    let api = server();
    let created = api.create("pods", "default", pod("a")).unwrap();
    let mut changed = (*created).clone();
    changed["status"]["phase"] = json!("Running");
    changed["metadata"]["labels"] = json!({"a": "b"});
    let after = api.update_status("pods", changed).unwrap();
    assert_eq!(after["status"]["phase"], "Running");
    assert_eq!(after["metadata"].get("labels"), None);
    let mut changed = (*after).clone();
    changed["status"]["phase"] = json!("Failed");
    changed["metadata"]["labels"] = json!({"a": "b"});
    let after = api.update("pods", changed).unwrap();
    assert_eq!(after["status"]["phase"], "Running");
    assert_eq!(after["metadata"]["labels"]["a"], "b");
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_is_marked_and_its_kubelet_ends_it() {
    let api = server();
    api.create("pods", "default", pod("a")).unwrap();
    api.bind("default", "a", "n1").unwrap();
    assert_eq!(api.bind("default", "a", "n2").unwrap_err().code, 409);
    api.delete("pods", "default", "a", DeleteOptions::default())
        .unwrap();
    let marked = api.get("pods", "default", "a").unwrap();
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:30Z"
    );
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    api.delete("pods", "default", "a", DeleteOptions::default())
        .unwrap();
    assert_eq!(api.get("pods", "default", "a").unwrap(), marked);
    let now = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    api.delete("pods", "default", "a", now).unwrap();
    assert_eq!(api.get("pods", "default", "a").unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let api = server();
    let object = json!({"metadata": {"name": "c", "finalizers": ["example.com/hold"]}});
    api.create("configmaps", "default", object).unwrap();
    let foreground = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        ..DeleteOptions::default()
    };
    api.delete("configmaps", "default", "c", foreground)
        .unwrap();
    let mut held = (*api.get("configmaps", "default", "c").unwrap()).clone();
    assert_eq!(
        held["metadata"]["finalizers"],
        json!(["example.com/hold", "foregroundDeletion"])
    );
    held["metadata"]["finalizers"] = json!([]);
    api.update("configmaps", held).unwrap();
    assert_eq!(api.get("configmaps", "default", "c").unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn evictions_stop_when_the_budget_is_spent() {
    let api = server();
    for name in ["a", "b"] {
        let mut object = pod(name);
        object["metadata"]["labels"] = json!({"app": "web"});
        let mut object = (*api.create("pods", "default", object).unwrap()).clone();
        object["status"] = json!({
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        api.update_status("pods", object).unwrap();
    }
    let budget = json!({
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    let mut budget = (*api
        .create("poddisruptionbudgets.policy", "default", budget)
        .unwrap())
    .clone();
    let early = api.evict("default", "a").unwrap_err();
    assert_eq!(
        (early.code, early.details.unwrap().retry_after_seconds),
        (429, 10)
    );
    budget["status"] = json!({
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2,
        "desiredHealthy": 1, "expectedPods": 2,
    });
    api.update_status("poddisruptionbudgets.policy", budget)
        .unwrap();
    api.evict("default", "a").unwrap();
    let refused = api.evict("default", "b").unwrap_err();
    assert_eq!(refused.code, 429);
    assert_eq!(
        refused.details.unwrap().causes[0].message,
        "The disruption budget web needs 1 healthy pods and has 2 currently"
    );
    let after = api
        .get("poddisruptionbudgets.policy", "default", "web")
        .unwrap();
    assert_eq!(after["status"]["disruptionsAllowed"], 0);
    assert!(after["status"]["disruptedPods"]["a"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_with_what_is_there_and_then_follows() {
    let api = server();
    api.create("pods", "default", pod("a")).unwrap();
    let mut watch = api.watch("pods");
    api.create("pods", "default", pod("b")).unwrap();
    api.delete("pods", "default", "a", DeleteOptions::default())
        .unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let change = watch.next().await;
        seen.push((
            change.kind,
            change.object["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned(),
        ));
    }
    assert_eq!(
        seen,
        [
            (ChangeKind::Added, "a".to_owned()),
            (ChangeKind::Added, "b".to_owned()),
            (ChangeKind::Modified, "a".to_owned()),
            (ChangeKind::Deleted, "a".to_owned()),
        ]
    );
    assert!(watch.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_writes_the_same_log() {
    let run = |seed| {
        let server = ApiServer::new(
            Clock::virtual_time(),
            &Options {
                seed,
                ..Options::default()
            },
        );
        let api = server.local();
        let mut object = pod("");
        object["metadata"] = json!({"generateName": "web-"});
        api.create("pods", "default", object).unwrap();
        server.event_log_hash()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
