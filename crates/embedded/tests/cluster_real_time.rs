//! The same components on real time and several threads, as the demo runs them.

mod common;

use std::time::Duration;

use common::{deployment, ready};
use jiff::{SignedDuration, Timestamp};
use joiner_embedded::cluster::kubelet::{KubeletOptions, NodeSpec, behaviour::PodDefaults};
use joiner_embedded::cluster::{Cluster, ClusterOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_comes_up_in_real_time() {
    let moment = SignedDuration::from_millis(50);
    let options = ClusterOptions {
        start: Some(Timestamp::now()),
        kubelets: KubeletOptions {
            pods: PodDefaults {
                start: moment,
                init: moment,
                stop: moment,
            },
            events: true,
            ..KubeletOptions::default()
        },
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&options);
    let api = cluster.api();
    for name in ["n1", "n2"] {
        cluster.kubelets().boot(NodeSpec::named(name));
    }
    api.create("deployments.apps", "default", deployment("web", 4))
        .unwrap();
    for _ in 0..200 {
        if ready(&api, "web").len() == 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(ready(&api, "web").len(), 4);
    let events = api.list("events");
    for reason in [
        "Scheduled",
        "Pulled",
        "Created",
        "Started",
        "ScalingReplicaSet",
    ] {
        assert!(
            events.iter().any(|event| event["reason"] == reason),
            "no event {reason}"
        );
    }
    assert!(cluster.ended().is_empty());
    cluster.stop().await;
}
