//! A Managed Kubernetes cluster: a real control plane whose nodes come from the simulated OVHcloud, over HTTP, and whose
//! kubelets are kwok's.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_sim::clouds::ovhcloud::{OvhCloud, OvhCloudOptions};
use joiner_sim::clouds::sim::Rack;
use joiner_testing::{Client, ControlPlane, Process};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Story, World, is_true, merge, paths, text};
use crate::kt::{kwok, node};

/// The cluster that most tests share.
static SHARED: tokio::sync::OnceCell<Arc<Cluster>> = tokio::sync::OnceCell::const_new();
/// Where credentials are.
pub(super) const NAMESPACE: &str = "karpenter";
/// Consumer keys beside the first: a class with one of its own has calls of its own to make.
const MORE_KEYS: [&str; 3] = ["monthlyKey", "apartKey", "foundKey"];

pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Nodes of the service are Node objects that kwok looks after.
struct Racks(Client);

impl Rack for Racks {
    fn boot(&self, spec: NodeSpec) {
        let client = self.0.clone();
        tokio::spawn(async move {
            let mut object = node(&spec);
            merge(
                &mut object,
                json!({"metadata": {"annotations": spec.annotations}, "spec": {"taints": spec.taints}}),
            );
            let joined = client.send(Method::POST, paths::NODES, Some(&object)).await;
            if let Err(error) = joined {
                println!("node {} did not join: {error:#}", spec.name);
            }
        });
    }

    fn kill(&self, name: &str) {
        let (client, path) = (self.0.clone(), format!("{}/{name}", paths::NODES));
        tokio::spawn(async move { client.send(Method::DELETE, &path, None).await });
    }
}

/// The simulated OVHcloud on a port.
pub(super) struct Service {
    pub(super) cloud: OvhCloud,
    pub(super) options: OvhCloudOptions,
    address: SocketAddr,
    _kwok: (Process, TempDir),
}

impl Service {
    /// Starts it beside a cluster that has one node already, as clusters of the service have.
    pub(super) async fn start(plane: &ControlPlane, options: OvhCloudOptions) -> Self {
        let client = plane.client().unwrap();
        let cloud = OvhCloud::new(
            options.clone(),
            Clock::wall(),
            Arc::new(Racks(client.clone())),
        );
        let running = cloud.clone();
        tokio::spawn(async move { running.run().await });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = cloud.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let mut first = node(&NodeSpec::named("system-node-000001"));
        let amounts =
            json!({"cpu": "2", "memory": "6Gi", "pods": "110", "ephemeral-storage": "20Gi"});
        let annotations = json!({"cluster.x-k8s.io/cluster-name": options.kube_id});
        merge(
            &mut first,
            json!({"metadata": {"annotations": annotations}, "spec": {"providerID": "openstack:///first"},
                "status": {"capacity": amounts, "allocatable": amounts}}),
        );
        client
            .send(Method::POST, paths::NODES, Some(&first))
            .await
            .unwrap();
        Service {
            cloud,
            options,
            address,
            _kwok: kwok(plane),
        }
    }

    /// What `OVH_ENDPOINT` is told.
    pub(super) fn endpoint(&self) -> String {
        format!("http://{}/1.0", self.address)
    }

    /// The document's manifests with the ids of this project and cluster in them.
    pub(super) fn documented(&self) -> Vec<Value> {
        let text = include_str!("documented.yaml")
            .replace("your-project-id", &self.options.service_name)
            .replace("your-cluster-id", &self.options.kube_id);
        text.split("\n---\n")
            .map(|one| serde_saphyr::from_str(one).unwrap())
            .collect()
    }

    /// The document's command that makes the Secret, with other names and keys if need be.
    pub(super) async fn secret(&self, plane: &ControlPlane, name: &str, consumer: &str) {
        let options = &self.options;
        let arguments = [
            "create",
            "secret",
            "generic",
            name,
            "-n",
            NAMESPACE,
            &format!("--from-literal=applicationKey={}", options.application_key),
            &format!(
                "--from-literal=applicationSecret={}",
                options.application_secret
            ),
            &format!("--from-literal=consumerKey={consumer}"),
        ]
        .map(str::to_owned);
        plane.kubectl(arguments).await.unwrap();
    }
}

/// A cluster with Joiner in it.
pub(super) struct Cluster {
    pub(super) world: Arc<World>,
    pub(super) service: Service,
}

impl Cluster {
    /// The one that tests share, in a region of three zones, with the document's class and others beside it.
    pub(super) async fn shared() -> Arc<Cluster> {
        let made = SHARED.get_or_init(|| async {
            let mut options = OvhCloudOptions::calm(1).quick();
            options.more_consumer_keys = MORE_KEYS.map(str::to_owned).to_vec();
            options.rules = generous(&options);
            let cluster = Cluster::start(options).await;
            for key in MORE_KEYS {
                let plane = cluster.world.plane();
                cluster
                    .service
                    .secret(plane, &key.to_lowercase(), key)
                    .await;
            }
            cluster.join(&[]);
            cluster
        });
        Arc::clone(made.await)
    }

    /// One of one's own, with the document's class, without Joiner as yet.
    pub(super) async fn start(options: OvhCloudOptions) -> Arc<Cluster> {
        let world = World::start().await;
        let service = Service::start(world.plane(), options).await;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        world.create("", &namespace).await;
        let key = service.options.consumer_key.clone();
        service.secret(world.plane(), "ovh-credentials", &key).await;
        let mut class = service.documented().remove(0);
        class["spec"]["region"] = service.options.region.clone().into();
        world.create("", &class).await;
        Arc::new(Cluster { world, service })
    }

    /// Starts a Joiner.
    pub(super) fn join(&self, more: &[&str]) {
        let endpoint = format!("--ovh-endpoint={}", self.service.endpoint());
        let own = ["--dialect=karpenter", &endpoint, "--drift-period=3s"];
        let all = own.iter().chain(more).map(|one| (*one).to_owned());
        let all: Vec<String> = all.collect();
        self.world.join_with("joiner", &all);
    }

    /// The document's class under another name, with changes.
    pub(super) async fn class(&self, name: &str, change: Value) {
        let mut class = self.service.documented().remove(0);
        class["metadata"]["name"] = name.into();
        class["spec"]["region"] = self.service.options.region.clone().into();
        merge(&mut class["spec"], change);
        self.world.create("", &class).await;
    }

    /// A story here, with a pool that buys of a class.
    pub(super) async fn story(self: &Arc<Self>, name: &str, class: &str, change: Value) -> Story {
        let story = Story::begin_on(Arc::clone(&self.world), name).await;
        let mut pool = json!({"spec": {"template": {"spec": {"nodeClassRef":
            {"group": "karpenter.ovhcloud.sh", "kind": "OVHNodeClass", "name": class}}}}});
        merge(&mut pool, change);
        story.pool(pool).await;
        story
    }

    /// Ends a story and waits until nothing is left of it here and at the service.
    pub(super) async fn end(&self, story: Story) {
        for pool in story.sight().pools() {
            let path = format!("{}/{}", paths::POOLS, text(&pool, "/metadata/name"));
            self.world.delete(&path).await;
        }
        story
            .until("its nodes are given back", |sight| {
                sight.claims().is_empty() && sight.nodes().is_empty()
            })
            .await;
        story.end().await;
    }

    /// Waits until a class has come to something, and gives it back.
    pub(super) async fn class_until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let limit = std::time::Duration::from_mins(3);
        let mirror = self.world.mirror();
        let so = mirror
            .until(limit, |seen| {
                let class = seen.get(paths::OVH_CLASSES, "", name);
                class.is_some_and(|class| holds(class))
            })
            .await;
        let seen = mirror.seen();
        let class = seen.get(paths::OVH_CLASSES, "", name).cloned();
        let class = class.map_or(Value::Null, |class| Value::clone(&class));
        assert!(so, "{name}: not {what}: {class:#}\n{}", self.world.logs(40));
        class
    }

    pub(super) async fn class_ready(&self, name: &str) -> Value {
        self.class_until(name, "ready", |class| is_true(class, "Ready"))
            .await
    }
}

/// The document's permissions and those that the guide recommends beside them.
fn generous(options: &OvhCloudOptions) -> Vec<(String, String)> {
    let project = format!("/cloud/project/{}", options.service_name);
    let mut rules = options.rules.clone();
    for path in [
        format!("{project}/kube/{}/node", options.kube_id),
        format!("{project}/flavor"),
        format!("{project}/region/*"),
    ] {
        rules.push(("GET".to_owned(), path));
    }
    rules
}

/// Requirements that let a pool buy these flavours only.
pub(super) fn flavors(names: &[&str]) -> Value {
    json!({"spec": {"template": {"spec": {"requirements": [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": names}]}}}})
}
