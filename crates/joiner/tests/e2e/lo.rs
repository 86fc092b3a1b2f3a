//! `LeftoverNodePools` on a real API server with the CRDs of Karpenter for AWS, and a simulated EC2 on a port.

mod inputs;
mod quickstart;
mod ranking;
mod region;
mod regions;

use std::process::Command;
use std::time::Duration;

use joiner_sim::clouds::ec2::Ec2Fault;
use joiner_testing::Program;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{tests, text};
use inputs::{
    lo_01_every_field_has_its_default_and_nonsense_is_refused_at_admission,
    lo_an_object_that_is_on_its_way_out_at_first_sight_renders_nothing,
    lo_bad_input_becomes_a_condition_with_a_sentence,
};
use quickstart::lo_10_the_quick_start_of_the_document_word_for_word;
use ranking::{
    lo_03_price_per_gpu_then_score_then_price_within_the_maxima,
    lo_04_render_shows_without_a_cluster_what_one_accepts,
    lo_07_the_market_is_looked_at_every_requeue_minutes,
};
use region::{CLASSES, Classes, POOLS, Region, condition, documented, repository};
use regions::{
    lo_09_a_pool_that_wants_the_best_region_only_closes_and_opens,
    lo_09_regions_are_compared_and_the_best_is_recommended,
};

tests![
    lo_01_every_field_has_its_default_and_nonsense_is_refused_at_admission,
    lo_02_lo_06_the_quick_start_renders_both_objects_and_reports,
    lo_03_price_per_gpu_then_score_then_price_within_the_maxima,
    lo_04_render_shows_without_a_cluster_what_one_accepts,
    lo_04_where_only_v1beta1_is_served_the_class_is_v1beta1,
    lo_04_where_both_are_served_the_class_is_v1,
    lo_06_without_karpenter_it_says_so_and_goes_on_when_it_comes,
    lo_07_the_market_is_looked_at_every_requeue_minutes,
    lo_07_without_viable_spot_on_demand_stands_in_until_it_is_back,
    lo_08_a_web_identity_is_enough,
    lo_09_an_outage_of_aws_leaves_what_was_rendered,
    lo_09_a_pool_that_wants_the_best_region_only_closes_and_opens,
    lo_09_regions_are_compared_and_the_best_is_recommended,
    lo_09_the_chart_installs_and_its_account_is_enough,
    lo_10_deleting_the_pool_removes_what_it_rendered,
    lo_10_every_make_target_of_the_document_is_there,
    lo_10_the_quick_start_of_the_document_word_for_word,
    lo_an_object_that_is_on_its_way_out_at_first_sight_renders_nothing,
    lo_bad_input_becomes_a_condition_with_a_sentence,
];

const LEFTOVERS: &str = "/apis/gpu.devplatforms.io/v1alpha1/leftovernodepools";

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

async fn lo_07_without_viable_spot_on_demand_stands_in_until_it_is_back() {
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
    back_to_spot(&mut region).await;
    for zone in ["eu-central-1a", "eu-central-1b", "eu-central-1c"] {
        region.cloud.set_score(zone, 2);
    }
    region.join(&[]);
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

/// The way back: spot is viable for two looks of a process that has not read the old scores. A node keeps the on-demand
/// pool.
async fn back_to_spot(region: &mut Region) {
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "leftover-gpu-spot-euc1-on-demand",
            "node.kubernetes.io/instance-type": "g5.xlarge", "topology.kubernetes.io/zone": "eu-central-1b"}},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"}, "requirements": [
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["leftover-gpu-spot-euc1-on-demand"]}]}});
    let claims = "/apis/karpenter.sh/v1/nodeclaims";
    let created = region.client.send(Method::POST, claims, Some(&claim)).await;
    created.unwrap();
    for zone in ["eu-central-1a", "eu-central-1b", "eu-central-1c"] {
        region.cloud.set_score(zone, 9);
    }
    region.join(&[]);
    region
        .until("spot is offered", |pool| {
            pool["status"]["selectedCapacityType"] == "spot"
        })
        .await;
    let on_demand = format!("{POOLS}/leftover-gpu-spot-euc1-on-demand");
    look(region, "gpu-spot-euc1", 8).await;
    let shut = region.client.get(&on_demand).await.unwrap();
    assert_eq!(shut["spec"]["limits"], json!({"cpu": "0"}), "closed softly");
    let gone = format!("{claims}/c");
    region
        .client
        .send(Method::DELETE, &gone, None)
        .await
        .unwrap();
    look(region, "gpu-spot-euc1", 9).await;
    assert!(
        region.client.get(&on_demand).await.is_err(),
        "empty, so gone"
    );
}

/// Lets a pool be looked at once more.
async fn look(region: &Region, name: &str, minutes: i64) {
    let path = format!("{LEFTOVERS}/{name}");
    let change = json!({"spec": {"requeueMinutes": minutes}});
    region.patch(&path, &change).await;
    let generation = region.client.get(&path).await.unwrap()["metadata"]["generation"].clone();
    region
        .until_of(name, "looked again", |pool| {
            condition(pool, "Ready")["observedGeneration"] == generation
        })
        .await;
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
    let path = "/api/v1/namespaces/leftover-system/configmaps/leftover-dashboard";
    let dashboard = region.client.get(path).await.unwrap();
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    let shown: Value = serde_json::from_str(text(&dashboard, "/data/leftover.json")).unwrap();
    assert_eq!(shown["uid"], "joiner-leftover");
    assert!(
        shown.to_string().contains("{{pool}}"),
        "legends are Grafana's, not Helm's"
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
    // Objects of others are left alone.
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
