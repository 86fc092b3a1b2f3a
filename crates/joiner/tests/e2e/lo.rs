//! `LeftoverNodePools` on a real API server with the CRDs of Karpenter for AWS, and a simulated EC2 on a port.

mod region;

use std::process::Command;
use std::time::Duration;

use joiner_sim::clouds::ec2::Ec2Fault;
use joiner_testing::Program;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{tests, text};
use region::{CLASSES, Classes, POOLS, Region, condition, documented, repository};

tests![
    lo_01_every_field_has_its_default_and_nonsense_is_refused_at_admission,
    lo_02_lo_06_the_quick_start_renders_both_objects_and_reports,
    lo_04_where_only_v1beta1_is_served_the_class_is_v1beta1,
    lo_04_where_both_are_served_the_class_is_v1,
    lo_06_without_karpenter_it_says_so_and_goes_on_when_it_comes,
    lo_07_without_viable_spot_on_demand_stands_in,
    lo_08_a_web_identity_is_enough,
    lo_09_an_outage_of_aws_leaves_what_was_rendered,
    lo_09_the_chart_installs_and_its_account_is_enough,
    lo_10_deleting_the_pool_removes_what_it_rendered,
    lo_10_every_make_target_of_the_document_is_there,
    lo_bad_input_becomes_a_condition_with_a_sentence,
];

const LEFTOVERS: &str = "/apis/gpu.devplatforms.io/v1alpha1/leftovernodepools";

async fn lo_01_every_field_has_its_default_and_nonsense_is_refused_at_admission() {
    let region = Region::start(Classes::V1).await;
    let minimal = json!({"apiVersion": "gpu.devplatforms.io/v1alpha1", "kind": "LeftoverNodePool",
        "metadata": {"name": "a"}, "spec": {"region": "eu-central-1"}});
    let path = format!("{LEFTOVERS}?dryRun=All&fieldValidation=Strict");
    let admitted = region
        .client
        .send(Method::POST, &path, Some(&minimal))
        .await
        .unwrap();
    let spec = &admitted["spec"];
    for (field, default) in [
        ("minGPUs", json!(1)),
        ("targetCount", json!(2)),
        ("minSpotScore", json!(5)),
        ("maxInstanceTypes", json!(5)),
        ("maxZones", json!(2)),
        ("capacityType", json!("spot")),
        ("budgetsNodes", json!("10%")),
        ("consolidateAfter", json!("2m")),
        ("requeueMinutes", json!(7)),
        ("onDemandFallback", json!(true)),
    ] {
        assert_eq!(spec[field], default, "{field}");
    }
    for (field, value, says) in [
        ("families", json!(["G5"]), "spec.families"),
        ("families", json!([""]), "spec.families"),
        ("minGPUs", json!(0), "minGPUs"),
        ("maxZones", json!(0), "maxZones"),
        ("maxInstanceTypes", json!(0), "maxInstanceTypes"),
        ("requeueMinutes", json!(0), "requeueMinutes"),
        ("capacityType", json!("reserved"), "capacityType"),
        ("budgetsNodes", json!("150%"), "spec.budgetsNodes"),
        ("budgetsNodes", json!("5.5%"), "spec.budgetsNodes"),
        ("consolidateAfter", json!("1d"), "spec.consolidateAfter"),
        ("consolidateAfter", json!("-5m"), "spec.consolidateAfter"),
        ("taints", json!(["a"]), "spec.taints"),
        ("taints", json!(["a=b"]), "spec.taints"),
        ("taints", json!(["a=b:X"]), "spec.taints"),
        ("taints", json!(["=:NoSchedule"]), "spec.taints"),
        ("region", json!(""), "region"),
        ("minSpotScore", json!(11), "minSpotScore"),
        ("nonsense", json!(1), "nonsense"),
    ] {
        let mut bad = minimal.clone();
        bad["spec"][field] = value.clone();
        let refused = region.client.send(Method::POST, &path, Some(&bad)).await;
        let said = format!(
            "{:#}",
            refused.expect_err(&format!("{field}: {value} was accepted"))
        );
        assert!(said.contains(says), "{field}: {value}: {said}");
    }
    for (field, value) in [
        ("budgetsNodes", json!("10")),
        ("consolidateAfter", json!("Never")),
        ("families", json!(["g5", "g5"])),
        ("capacityType", json!("on-demand")),
    ] {
        let mut good = minimal.clone();
        good["spec"][field] = value;
        region
            .client
            .send(Method::POST, &path, Some(&good))
            .await
            .unwrap();
    }
}

#[expect(clippy::too_many_lines, reason = "one story")]
async fn lo_02_lo_06_the_quick_start_renders_both_objects_and_reports() {
    let mut region = Region::start(Classes::V1).await;
    region.join(&[]);
    // The document's file, applied as the document does it.
    let sample = repository().join("config/samples/gpu_v1alpha1_leftovernodepool.yaml");
    let sample = sample.display().to_string();
    region
        .plane
        .kubectl(["apply", "-f", &sample])
        .await
        .unwrap();
    let pool = region.ready("gpu-spot-euc1").await;
    let status = &pool["status"];
    let types: Vec<&str> = status["selectedInstanceTypes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!((3..=5).contains(&types.len()), "{types:?}");
    assert!(
        types
            .iter()
            .all(|one| ["g5.", "g6.", "g6e.", "p5.", "p5e.", "p5en."]
                .iter()
                .any(|family| one.starts_with(family))),
        "{types:?}"
    );
    assert!(
        status["selectedZones"].as_array().unwrap().len() <= 2,
        "{status:#}"
    );
    assert!(
        status["lastSyncTime"].is_string()
            && status["pricesAsOf"].is_string()
            && status["scoresAsOf"].is_string(),
        "{status:#}"
    );
    assert_eq!(
        condition(&pool, "Degraded")["status"],
        "False",
        "{status:#}"
    );

    let rendered = region
        .client
        .get(&format!("{POOLS}/leftover-gpu-spot-euc1"))
        .await
        .unwrap();
    let spec = &rendered["spec"];
    assert_eq!(spec["disruption"]["consolidateAfter"], "2m");
    assert_eq!(spec["disruption"]["budgets"], json!([{"nodes": "10%"}]));
    let template = &spec["template"];
    assert_eq!(
        template["metadata"]["labels"],
        json!({"workload": "gpu", "nvidia.com/gpu.present": "true"})
    );
    assert_eq!(
        template["spec"]["taints"],
        json!([{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}])
    );
    let owner = &rendered["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("LeftoverNodePool"), &pool["metadata"]["uid"])
    );
    let manager = &rendered["metadata"]["managedFields"][0];
    assert_eq!(
        (&manager["manager"], &manager["operation"]),
        (&json!("leftover"), &json!("Apply"))
    );
    let class = region
        .client
        .get(&format!("{CLASSES}/leftover-gpu-spot-euc1-class"))
        .await
        .unwrap();
    assert_eq!(
        class["spec"]["subnetSelectorTerms"],
        json!([{"tags": {
        "kubernetes.io/role/internal-elb": "1", "kubernetes.io/cluster/your-cluster": "owned"}}])
    );
    assert_eq!(
        class["spec"]["securityGroupSelectorTerms"],
        json!([{"tags": {"kubernetes.io/cluster/your-cluster": "owned"}}])
    );
    assert_eq!(
        class["spec"]["amiSelectorTerms"],
        json!([{"alias": "al2023@latest"}])
    );

    // Another look that finds the same applies nothing.
    let change = json!({"spec": {"requeueMinutes": 8}});
    region
        .patch(&format!("{LEFTOVERS}/gpu-spot-euc1"), &change)
        .await;
    region
        .until("looked again", |pool| {
            condition(pool, "Ready")["observedGeneration"] == 2
        })
        .await;
    let again = region
        .client
        .get(&format!("{POOLS}/leftover-gpu-spot-euc1"))
        .await
        .unwrap();
    assert_eq!(
        again["metadata"]["resourceVersion"],
        rendered["metadata"]["resourceVersion"]
    );
    // A person's change of what the pool does not define stays; of what it does, goes.
    let edit =
        json!({"spec": {"limits": {"cpu": "100"}, "disruption": {"consolidateAfter": "9m"}}});
    region
        .patch(&format!("{POOLS}/leftover-gpu-spot-euc1"), &edit)
        .await;
    region
        .patch(
            &format!("{LEFTOVERS}/gpu-spot-euc1"),
            &json!({"spec": {"requeueMinutes": 9}}),
        )
        .await;
    region
        .until("looked again", |pool| {
            condition(pool, "Ready")["observedGeneration"] == 3
        })
        .await;
    let again = region
        .client
        .get(&format!("{POOLS}/leftover-gpu-spot-euc1"))
        .await
        .unwrap();
    assert_eq!(again["spec"]["disruption"]["consolidateAfter"], "2m");
    assert_eq!(again["spec"]["limits"], json!({"cpu": "100"}));

    // One configuration, asked once; and the columns that kubectl shows.
    assert_eq!(region.cloud.count("GetSpotPlacementScores"), 1);
    let table = region
        .plane
        .kubectl(["get", "leftovernodepools.gpu.devplatforms.io"])
        .await
        .unwrap();
    assert!(
        table.contains("REGION") && table.contains("eu-central-1") && table.contains("TYPES"),
        "{table}"
    );
    let events = region
        .plane
        .kubectl(["get", "events", "-o", "wide"])
        .await
        .unwrap();
    assert!(
        events.contains("Selected") && events.contains("per GPU"),
        "{events}"
    );
}

async fn lo_04_where_only_v1beta1_is_served_the_class_is_v1beta1() {
    let mut region = Region::start(Classes::V1beta1).await;
    region.join(&[]);
    region.create(&documented()).await;
    region.ready("gpu-spot-euc1").await;
    let path = CLASSES.replace("/v1/", "/v1beta1/");
    let class = region
        .client
        .get(&format!("{path}/leftover-gpu-spot-euc1-class"))
        .await
        .unwrap();
    assert_eq!(class["apiVersion"], "karpenter.k8s.aws/v1beta1");
    assert_eq!(class["spec"]["amiFamily"], "AL2023");
    assert_eq!(class["spec"].get("amiSelectorTerms"), None);
}

async fn lo_04_where_both_are_served_the_class_is_v1() {
    let mut region = Region::start(Classes::Both).await;
    region.join(&[]);
    region.create(&documented()).await;
    region.ready("gpu-spot-euc1").await;
    let class = region
        .client
        .get(&format!("{CLASSES}/leftover-gpu-spot-euc1-class"))
        .await
        .unwrap();
    assert_eq!(
        class["spec"]["amiSelectorTerms"],
        json!([{"alias": "al2023@latest"}])
    );
}

async fn lo_06_without_karpenter_it_says_so_and_goes_on_when_it_comes() {
    let mut region = Region::start(Classes::None).await;
    region.join(&[]);
    region.create(&documented()).await;
    let pool = region
        .until("says what is missing", |pool| {
            condition(pool, "Ready")["reason"] == "KarpenterNotInstalled"
        })
        .await;
    assert_eq!(condition(&pool, "Degraded")["status"], "True");
    region.install(Classes::V1).await;
    region.ready("gpu-spot-euc1").await;
}

async fn lo_07_without_viable_spot_on_demand_stands_in() {
    let mut region = Region::start(Classes::V1).await;
    for zone in ["eu-central-1a", "eu-central-1b", "eu-central-1c"] {
        region.cloud.set_score(zone, 2);
    }
    region.join(&[]);
    region.create(&documented()).await;
    let pool = region.ready("gpu-spot-euc1").await;
    assert_eq!(condition(&pool, "Degraded")["reason"], "OnDemandFallback");
    assert_eq!(pool["status"]["selectedCapacityType"], "on-demand");
    let fallback = region
        .client
        .get(&format!("{POOLS}/leftover-gpu-spot-euc1-on-demand"))
        .await
        .unwrap();
    let requirements = fallback["spec"]["template"]["spec"]["requirements"]
        .as_array()
        .unwrap();
    assert!(
        requirements
            .iter()
            .any(|one| one["values"] == json!(["on-demand"])),
        "{requirements:?}"
    );
    assert!(
        region
            .client
            .get(&format!("{POOLS}/leftover-gpu-spot-euc1"))
            .await
            .is_err()
    );
    // Without fallback there is nothing to offer, and the sentence says why.
    let mut without = documented();
    without["metadata"]["name"] = "strict".into();
    without["spec"]["onDemandFallback"] = false.into();
    region.create(&without).await;
    let pool = region
        .until_of("strict", "says why", |pool| {
            condition(pool, "Ready")["reason"] == "NoQuotes"
        })
        .await;
    assert!(
        text(condition(&pool, "Ready"), "/message").contains("placement score"),
        "{pool:#}"
    );
}

async fn lo_08_a_web_identity_is_enough() {
    let mut region = Region::start(Classes::V1).await;
    region.join_by_identity();
    region.create(&documented()).await;
    region.ready("gpu-spot-euc1").await;
    assert!(region.cloud.count("AssumeRoleWithWebIdentity") >= 1);
    // The policy of the document allows ec2:Describe*, ec2:GetSpotPlacementScores and pricing:GetProducts.
    for (_, action) in region.cloud.calls() {
        let allowed = action.starts_with("Describe")
            || [
                "GetSpotPlacementScores",
                "GetProducts",
                "AssumeRoleWithWebIdentity",
            ]
            .contains(&action.as_str());
        assert!(allowed, "{action} is not in the document's policy");
    }
}

async fn lo_09_an_outage_of_aws_leaves_what_was_rendered() {
    let mut region = Region::start(Classes::V1).await;
    region.join(&[]);
    region.create(&documented()).await;
    region.ready("gpu-spot-euc1").await;
    let before = region
        .client
        .get(&format!("{POOLS}/leftover-gpu-spot-euc1"))
        .await
        .unwrap();
    for (code, status, reason) in [
        ("UnauthorizedOperation", 403, "AWSDenied"),
        ("RequestLimitExceeded", 503, "AWSThrottled"),
        ("InternalError", 500, "AWSUnavailable"),
    ] {
        region.cloud.forgive();
        region
            .cloud
            .fail("*", Ec2Fault::Refused(status, code.into()), 10_000);
        // A process that has read nothing yet.
        region.join(&[]);
        let pool = region
            .until(code, |pool| condition(pool, "Degraded")["reason"] == reason)
            .await;
        assert_eq!(condition(&pool, "Ready")["status"], "True", "{pool:#}");
        let said = text(condition(&pool, "Degraded"), "/message").to_owned();
        assert!(
            said.contains(code) && said.contains("what was rendered stays, with prices of 20"),
            "{said}"
        );
        let now = region
            .client
            .get(&format!("{POOLS}/leftover-gpu-spot-euc1"))
            .await
            .unwrap();
        assert_eq!(
            now["metadata"]["resourceVersion"],
            before["metadata"]["resourceVersion"]
        );
    }
    region.cloud.forgive();
    region.join(&[]);
    region
        .until("recovers", |pool| {
            condition(pool, "Degraded")["status"] == "False"
        })
        .await;
}

async fn lo_09_the_chart_installs_and_its_account_is_enough() {
    let mut region = Region::start(Classes::V1).await;
    tokio::task::spawn_blocking(|| joiner_testing::ensure(&[Program::Helm]))
        .await
        .unwrap()
        .expect("helm");
    region
        .plane
        .kubectl(["delete", "crd", "leftovernodepools.gpu.devplatforms.io"])
        .await
        .unwrap();
    let ended = Command::new(region.plane.program(Program::Helm))
        .current_dir(repository())
        .env("KUBECONFIG", region.plane.kubeconfig())
        .args([
            "install",
            "leftover",
            "./charts/leftover",
            "--namespace",
            "leftover-system",
            "--create-namespace",
        ])
        .args([
            "--set",
            "nodes.role=KarpenterNodeRole,aws.irsaRoleArn=arn:aws:iam::1:role/r,mockMode=true",
        ])
        .output()
        .unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let path = "/apis/apps/v1/namespaces/leftover-system/deployments/leftover";
    let deployment = region.client.get(path).await.unwrap();
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        .as_array()
        .unwrap();
    let args: Vec<String> = args
        .iter()
        .map(|one| one.as_str().unwrap().to_owned())
        .collect();
    let account = region
        .client
        .get("/api/v1/namespaces/leftover-system/serviceaccounts/leftover")
        .await
        .unwrap();
    assert_eq!(
        account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"],
        "arn:aws:iam::1:role/r"
    );
    // The same binary with the same arguments as the account that the chart made, in mock mode.
    region
        .join_as_account("leftover-system", "leftover", args)
        .await;
    region.create(&documented()).await;
    region.ready("gpu-spot-euc1").await;
    let said = region.output();
    assert!(!said.contains("forbidden"), "{said}");
}

async fn lo_10_deleting_the_pool_removes_what_it_rendered() {
    let mut region = Region::start(Classes::V1).await;
    region.join(&[]);
    // Somebody else's objects are left alone.
    let other = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "other"},
        "spec": {"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
            "requirements": []}}}});
    region
        .client
        .send(Method::POST, POOLS, Some(&other))
        .await
        .unwrap();
    region.create(&documented()).await;
    region.ready("gpu-spot-euc1").await;
    region
        .client
        .send(Method::DELETE, &format!("{LEFTOVERS}/gpu-spot-euc1"), None)
        .await
        .unwrap();
    for path in [
        format!("{POOLS}/leftover-gpu-spot-euc1"),
        format!("{CLASSES}/leftover-gpu-spot-euc1-class"),
    ] {
        let mut left = 300;
        while region.client.get(&path).await.is_ok() {
            left -= 1;
            assert!(left > 0, "{path} stays");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    region.client.get(&format!("{POOLS}/other")).await.unwrap();
}

async fn lo_10_every_make_target_of_the_document_is_there() {
    for target in [
        "install",
        "run",
        "docker-build",
        "docker-push",
        "deploy",
        "generate",
        "manifests",
        "test",
    ] {
        let ended = Command::new("make")
            .current_dir(repository())
            .env("ENABLE_WEBHOOKS", "false")
            .args([
                "--dry-run",
                target,
                "IMG=ghcr.io/devplatformsolutions/leftover:dev",
            ])
            .output()
            .unwrap();
        assert!(
            ended.status.success(),
            "make {target}: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
    for overlay in ["irsa", "aws-secret"] {
        let path = repository()
            .join("config/overlays")
            .join(overlay)
            .join("kustomization.yaml");
        assert!(path.exists(), "{}", path.display());
    }
}

async fn lo_bad_input_becomes_a_condition_with_a_sentence() {
    let mut region = Region::start(Classes::V1).await;
    region.join(&["--aws-node-role="]);
    let long = "x".repeat(60);
    for (name, change, reason, says) in [
        (
            "typo",
            json!({"region": "eu-cental-1", "role": "r"}),
            "AWS",
            "eu-cental-1",
        ),
        (
            "place",
            json!({"region": "nowhere", "role": "r"}),
            "AWSRefused",
            "spec.region",
        ),
        ("norole", json!({}), "InvalidSpec", "role"),
        (
            "notags",
            json!({"role": "r", "subnetSelectorTags": {}}),
            "InvalidSpec",
            "subnetSelectorTags",
        ),
        (
            "many",
            json!({"role": "r", "minGPUs": 1000}),
            "NoQuotes",
            "spec.minGPUs",
        ),
        (
            "class",
            json!({"nodeClassName": "missing"}),
            "InvalidSpec",
            "missing",
        ),
        (
            long.as_str(),
            json!({"role": "r"}),
            "InvalidSpec",
            "metadata.name",
        ),
    ] {
        let mut pool = documented();
        pool["metadata"]["name"] = name.into();
        if name == "notags" {
            pool["spec"]
                .as_object_mut()
                .unwrap()
                .remove("subnetSelectorTags");
        }
        for (key, value) in change.as_object().unwrap() {
            pool["spec"][key] = value.clone();
        }
        region.create(&pool).await;
        let seen = region
            .until_of(name, reason, |pool| {
                text(condition(pool, "Degraded"), "/reason").starts_with(reason)
            })
            .await;
        let said = text(condition(&seen, "Degraded"), "/message").to_owned();
        assert!(said.contains(says), "{name}: {said}");
    }
    // More zones than there are is no mistake.
    let mut zones = documented();
    zones["metadata"]["name"] = "zones".into();
    zones["spec"]["maxZones"] = 99.into();
    zones["spec"]["role"] = "r".into();
    region.create(&zones).await;
    region.ready("zones").await;
}
