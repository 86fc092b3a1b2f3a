//! What the API server lets in, and what it refuses by name. The rules are in the definitions of the kinds: there is
//! nothing in between that could fail.

use std::path::Path;

use joiner_testing::{Client, ControlPlane};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::harness::{Story, collection, create, install, tests};

tests![
    every_documented_nodepool_is_accepted_as_it_is,
    every_sample_is_accepted,
    what_is_wrong_is_refused_with_its_field,
    labels_of_ones_own_are_made_up_from_what_pods_ask_for,
    pods_are_split_between_pools_as_the_documentation_does_it,
];

/// All documents of a file, or of all files below a folder.
fn documents(path: &Path) -> Vec<Value> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap();
        let mut entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        return entries.iter().flat_map(|path| documents(path)).collect();
    }
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A file of the repository.
fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
}

/// A server without anybody who acts: what is there for a moment must not be bought for.
async fn server() -> Client {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await.expect("an API server");
    let client = plane.client().unwrap();
    READY
        .get_or_init(|| async {
            install(&client).await;
            // Samples go where they say.
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubenodesmith"}});
            create(&client, "", &namespace).await;
        })
        .await;
    client
}

/// What the server said, as a person would read it.
fn words(refused: &anyhow::Error) -> String {
    let said = format!("{refused:#}");
    let status = said
        .find('{')
        .and_then(|at| serde_json::from_str::<Value>(&said[at..]).ok());
    let message = status.and_then(|status| status["message"].as_str().map(str::to_owned));
    message.unwrap_or(said)
}

/// What the server says to an object that is not meant to stay.
async fn admit(server: &Client, object: &Value) -> Result<Value, String> {
    let namespace = object["metadata"]["namespace"]
        .as_str()
        .unwrap_or("default");
    let path = format!(
        "{}?dryRun=All&fieldValidation=Strict",
        collection(object, namespace)
    );
    let answer = server.send(Method::POST, &path, Some(object)).await;
    answer.map_err(|refused| words(&refused))
}

async fn every_documented_nodepool_is_accepted_as_it_is() {
    let server = server().await;
    let pools = documents(&file("crates/joiner/tests/e2e/documented.yaml"));
    assert!(pools.len() > 8);
    for pool in pools {
        let admitted = admit(&server, &pool).await.unwrap();
        assert_eq!(
            admitted["spec"]["template"]["spec"]["requirements"],
            pool["spec"]["template"]["spec"]["requirements"]
        );
        // What is left out means what it means to Karpenter.
        let disruption = &admitted["spec"]["disruption"];
        if pool["spec"]["disruption"].is_null() {
            assert_eq!(
                disruption["consolidationPolicy"], "WhenEmptyOrUnderutilized",
                "{admitted:#}"
            );
            assert_eq!(disruption["budgets"], json!([{"nodes": "10%"}]));
        }
        if pool["spec"]["template"]["spec"]["expireAfter"].is_null() {
            assert_eq!(admitted["spec"]["template"]["spec"]["expireAfter"], "720h");
        }
    }
}

async fn every_sample_is_accepted() {
    let server = server().await;
    let mut problems = Vec::new();
    let mut all = documents(&file("config/samples"));
    all.extend(documents(&file("crates/api/tests/manifests/accepted.yaml")));
    for object in all {
        // Files for kustomize and for `joiner plan` are no objects.
        if object["kind"] == "Kustomization" || object["kind"].is_null() {
            continue;
        }
        if let Err(refused) = admit(&server, &object).await {
            problems.push(refused);
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A manifest that must be refused; see `crates/api/tests/manifests/refused.yaml`.
#[derive(Deserialize)]
struct Refused {
    what: String,
    field: String,
    says: String,
    before: Option<Value>,
    manifest: Value,
}

/// What the server says to a change of an object that is there for a moment.
async fn change(server: &Client, before: &Value, after: &Value) -> Result<Value, String> {
    let namespace = before["metadata"]["namespace"]
        .as_str()
        .unwrap_or("default");
    create(server, namespace, before).await;
    let name = before["metadata"]["name"].as_str().unwrap();
    let path = format!("{}/{name}", collection(before, namespace));
    let mut after = after.clone();
    let held = server.get(&path).await.unwrap();
    after["metadata"]["resourceVersion"] = held["metadata"]["resourceVersion"].clone();
    let strict = format!("{path}?dryRun=All&fieldValidation=Strict");
    let answer = server.send(Method::PUT, &strict, Some(&after)).await;
    server.send(Method::DELETE, &path, None).await.unwrap();
    answer.map_err(|refused| words(&refused))
}

async fn what_is_wrong_is_refused_with_its_field() {
    let server = server().await;
    let text = std::fs::read_to_string(file("crates/api/tests/manifests/refused.yaml")).unwrap();
    let cases: Vec<Refused> = serde_saphyr::from_str(&text).unwrap();
    assert!(cases.len() > 50);
    let mut problems = Vec::new();
    for case in cases {
        let answer = match &case.before {
            Some(before) => change(&server, before, &case.manifest).await,
            None => admit(&server, &case.manifest).await,
        };
        match answer {
            Ok(_) => problems.push(format!("{}: accepted", case.what)),
            Err(said) if said.contains(&case.field) && said.contains(&case.says) => {}
            Err(said) => problems.push(format!(
                "{}: {} {} expected: {said}",
                case.what, case.field, case.says
            )),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

async fn labels_of_ones_own_are_made_up_from_what_pods_ask_for() {
    let story = Story::begin("teams").await;
    let requirements = json!([{"key": "company.com/team", "operator": "Exists"}]);
    story
        .pool(json!({"spec": {"template": {"spec": {"requirements": requirements}}}}))
        .await;
    for team in ["team-a", "team-b"] {
        let selector =
            json!({"spec": {"template": {"spec": {"nodeSelector": {"company.com/team": team}}}}});
        story.deploy(team, 2, "300m", selector).await;
    }
    for team in ["team-a", "team-b"] {
        let sight = story.runs(team, 2).await;
        assert_eq!(sight.homes_by(team, "company.com/team"), [team, team]);
    }
    story.end().await;
}

async fn pods_are_split_between_pools_as_the_documentation_does_it() {
    let story = Story::begin("split").await;
    for (pool, values) in [
        ("spot", json!(["2", "3", "4", "5"])),
        ("on-demand", json!(["1"])),
    ] {
        let requirements = json!([
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [pool]},
            {"key": "capacity-spread", "operator": "In", "values": values}]);
        story
            .pool_named(
                &format!("split-{pool}"),
                json!({"spec": {"template": {"spec": {"requirements": requirements}}}}),
            )
            .await;
    }
    let spread = json!([{"maxSkew": 1, "topologyKey": "capacity-spread", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    story
        .deploy(
            "web",
            5,
            "500m",
            json!({"spec": {"template": {"spec": {"topologySpreadConstraints": spread}}}}),
        )
        .await;
    let sight = story.runs("web", 5).await;
    assert_eq!(
        sight.homes_by("web", "capacity-spread"),
        ["1", "2", "3", "4", "5"]
    );
    let paid = sight.homes_by("web", "karpenter.sh/capacity-type");
    assert_eq!(paid.iter().filter(|paid| *paid == "on-demand").count(), 1);
    story.end().await;
}
