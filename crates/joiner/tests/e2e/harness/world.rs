//! A cluster with Joiner in it.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use joiner_testing::{Client, ControlPlane, Mirror, Process, Seen, Signal};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where the kinds are that tests look at.
pub(crate) mod paths {
    pub(crate) const PODS: &str = "/api/v1/pods";
    pub(crate) const NODES: &str = "/api/v1/nodes";
    pub(crate) const EVENTS: &str = "/api/v1/events";
    pub(crate) const CONFIG_MAPS: &str = "/api/v1/configmaps";
    pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
    pub(crate) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
    pub(crate) const OVERLAYS: &str = "/apis/karpenter.sh/v1alpha1/nodeoverlays";
    pub(crate) const BUFFERS: &str = "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers";
    pub(crate) const CLASSES: &str = "/apis/joiner.dev/v1alpha1/simnodeclasses";

    pub(crate) const SPOT_POOLS: &str = "/apis/karpetrack.io/v1alpha1/spotnodepools";
    pub(crate) const SPOT_NODES: &str = "/apis/karpetrack.io/v1alpha1/spotnodes";

    pub(crate) const SMITH_POOLS: &str =
        "/apis/kubenodesmith.parawell.cloud/v1alpha1/nodesmithpools";
    pub(crate) const SMITH_CLAIMS: &str =
        "/apis/kubenodesmith.parawell.cloud/v1alpha1/nodesmithclaims";

    pub(crate) const OVH_CLASSES: &str = "/apis/karpenter.ovhcloud.sh/v1alpha1/ovhnodeclasses";

    pub(super) const ALL: [&str; 14] = [
        PODS,
        NODES,
        EVENTS,
        CONFIG_MAPS,
        POOLS,
        CLAIMS,
        OVERLAYS,
        BUFFERS,
        CLASSES,
        SPOT_POOLS,
        SPOT_NODES,
        SMITH_POOLS,
        SMITH_CLAIMS,
        OVH_CLASSES,
    ];
}

/// What the simulated clouds sell: three zones, spot for two fifths of the price, in the form of Karpenter's kwok provider.
const CATALOGUE: &str = include_str!("../catalogue.json");

/// The cluster that most tests share, while it is there.
static SHARED: tokio::sync::Mutex<Option<Arc<World>>> = tokio::sync::Mutex::const_new(None);

/// A real control plane, a mirror of it, and the Joiners that run on it.
pub(crate) struct World {
    joiners: Mutex<Vec<Joiner>>,
    mirror: Mirror,
    client: Client,
    plane: ControlPlane,
}

/// A `joiner run` with a name. Its directory is its own: it goes with the process.
struct Joiner {
    process: Process,
    _directory: TempDir,
}

impl World {
    /// The cluster that tests share, with one Joiner.
    pub(crate) async fn shared() -> Arc<World> {
        let mut shared = SHARED.lock().await;
        if let Some(world) = &*shared {
            return Arc::clone(world);
        }
        let world = World::start().await;
        world.join("joiner");
        *shared = Some(Arc::clone(&world));
        world
    }

    /// A cluster of one's own, without Joiner as yet.
    pub(crate) async fn start() -> Arc<World> {
        let plane = ControlPlane::builder()
            .with_scheduler()
            .with_controller_manager()
            .start()
            .await
            .expect("a control plane");
        let client = plane.client().expect("a client");
        install(&client).await;
        let mirror = Mirror::start(&client, paths::ALL);
        let world = Arc::new(World {
            joiners: Mutex::default(),
            mirror,
            client,
            plane,
        });
        let catalogue = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "catalogue"},
            "data": {"instance-types.json": CATALOGUE}});
        world.create("default", &catalogue).await;
        world
    }

    /// Starts a Joiner. It looks more often than usual, because tests do not like to wait.
    pub(crate) fn join(&self, name: &str) {
        self.join_with(name, &[]);
    }

    /// The same, with further arguments.
    pub(crate) fn join_with(&self, name: &str, more: &[String]) {
        self.launch(name, &self.plane.kubeconfig(), "default", more);
    }

    /// The same with another account, and with its lease in another namespace.
    pub(crate) fn join_as(
        &self,
        name: &str,
        kubeconfig: &std::path::Path,
        namespace: &str,
        more: &[String],
    ) {
        self.launch(name, kubeconfig, namespace, more);
    }

    /// A kubeconfig for a service account, in this directory.
    pub(crate) async fn account(
        &self,
        directory: &std::path::Path,
        name: &str,
        namespace: &str,
    ) -> std::path::PathBuf {
        let token = ["create", "token", name, "--namespace", namespace];
        let token = self.plane.kubectl(token).await.unwrap();
        let administrator = std::fs::read_to_string(self.plane.kubeconfig()).unwrap();
        let mut config: Value = serde_json::from_str(&administrator).unwrap();
        config["users"][0]["user"] = json!({"token": token.trim()});
        config["contexts"][0]["context"]["namespace"] = json!(namespace);
        let file = directory.join("account.kubeconfig");
        std::fs::write(&file, config.to_string()).unwrap();
        file
    }

    fn launch(&self, name: &str, kubeconfig: &std::path::Path, namespace: &str, more: &[String]) {
        let directory = tempfile::Builder::new()
            .prefix("joiner-e2e-")
            .tempdir()
            .unwrap();
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_joiner"));
        let kubeconfig = kubeconfig.display();
        let arguments = [
            "run",
            &format!("--kubeconfig={kubeconfig}"),
            &format!("--leader-election-namespace={namespace}"),
            "--health-probe-bind-address=0",
            "--metrics-bind-address=0",
            "--log-format=text",
            "--disruption-period=3s",
            "--garbage-period=10s",
        ]
        .map(str::to_owned);
        let arguments = [&arguments, more].concat();
        let process = Process::start(name, directory.path(), program, &arguments).unwrap();
        let joiner = Joiner {
            process,
            _directory: directory,
        };
        self.joiners().push(joiner);
    }

    /// Does something to a Joiner; one that is killed is forgotten, with its directory.
    pub(crate) fn signal(&self, name: &str, signal: Signal) {
        let mut joiners = self.joiners();
        let at = joiners
            .iter()
            .position(|one| one.process.name() == name)
            .unwrap_or_else(|| panic!("there is no joiner {name:?}"));
        joiners[at].process.signal(signal).unwrap();
        if signal == Signal::Kill {
            joiners.remove(at);
        }
    }

    /// Whether a Joiner still runs.
    pub(crate) fn alive(&self, name: &str) -> bool {
        let mut joiners = self.joiners();
        let found = joiners.iter_mut().find(|one| one.process.name() == name);
        found.is_some_and(|one| one.process.ended().unwrap().is_none())
    }

    /// The Joiner that goes by this identity, which has its process id in it.
    pub(crate) fn joiner_of(&self, identity: &str) -> Option<String> {
        let joiners = self.joiners();
        let found = joiners.iter().find(|one| {
            let pid = one.process.pid().unwrap_or_default();
            identity.contains(&format!("_{pid}_"))
        });
        found.map(|one| one.process.name().to_owned())
    }

    fn joiners(&self) -> std::sync::MutexGuard<'_, Vec<Joiner>> {
        self.joiners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    pub(crate) fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// An object, if it is there.
    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.client.get(path).await.ok()
    }

    /// Creates an object.
    pub(crate) async fn create(&self, namespace: &str, object: &Value) -> Value {
        create(&self.client, namespace, object).await
    }

    /// Lays a change over an object.
    pub(crate) async fn patch(&self, path: &str, change: &Value) -> Value {
        let request = self
            .client
            .request(Method::PATCH, path)
            .header("content-type", "application/merge-patch+json")
            .body(change.to_string());
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let said = answer.text().await.unwrap();
        assert!(status.is_success(), "PATCH {path}: {said}");
        serde_json::from_str(&said).unwrap()
    }

    /// Deletes an object; it may be gone already.
    pub(crate) async fn delete(&self, path: &str) {
        if let Err(error) = self.client.send(Method::DELETE, path, None).await {
            let said = format!("{error:#}");
            assert!(said.contains("404"), "{said}");
        }
    }

    /// The last lines that each Joiner wrote.
    pub(crate) fn logs(&self, lines: usize) -> String {
        self.logs_about(lines, |_| true)
    }

    /// The same of those lines that matter.
    pub(crate) fn logs_about(&self, lines: usize, matters: impl Fn(&str) -> bool) -> String {
        let mut all = String::new();
        for joiner in self.joiners().iter() {
            let output = joiner.process.output();
            let output: Vec<&str> = output.lines().filter(|line| matters(line)).collect();
            let tail = output[output.len().saturating_sub(lines)..].join("\n  ");
            let _ = writeln!(all, "{}:\n  {tail}", joiner.process.name());
        }
        all
    }
}

/// Where an object is created.
pub(crate) fn collection(object: &Value, namespace: &str) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let kind = object["kind"].as_str().unwrap();
    let (plural, namespaced) = match kind {
        "ConfigMap" => ("configmaps".to_owned(), true),
        "Secret" => ("secrets".to_owned(), true),
        "Namespace" => ("namespaces".to_owned(), false),
        "Pod" => ("pods".to_owned(), true),
        "PodTemplate" => ("podtemplates".to_owned(), true),
        "PersistentVolume" => ("persistentvolumes".to_owned(), false),
        "PersistentVolumeClaim" => ("persistentvolumeclaims".to_owned(), true),
        "Deployment" => ("deployments".to_owned(), true),
        "DaemonSet" => ("daemonsets".to_owned(), true),
        "PodDisruptionBudget" => ("poddisruptionbudgets".to_owned(), true),
        _ => {
            let crds = joiner_api::crds(None);
            let own = crds.iter().find(|crd| crd.spec.names.kind == kind);
            let spec = &own.unwrap_or_else(|| panic!("{kind} has no path")).spec;
            (spec.names.plural.clone(), spec.scope == "Namespaced")
        }
    };
    let group = if version.contains('/') { "apis" } else { "api" };
    if namespaced {
        format!("/{group}/{version}/namespaces/{namespace}/{plural}")
    } else {
        format!("/{group}/{version}/{plural}")
    }
}

/// Installs every kind, as `joiner crds | kubectl apply --server-side -f -` does.
pub(crate) async fn install(client: &Client) {
    for crd in joiner_api::crds(None) {
        let body = serde_json::to_value(&crd).unwrap();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        client.send(Method::POST, path, Some(&body)).await.unwrap();
    }
    for crd in joiner_api::crds(None) {
        let version = &crd.spec.versions[0].name;
        let path = format!(
            "/apis/{}/{version}/{}",
            crd.spec.group, crd.spec.names.plural
        );
        while client.get(&path).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Creates an object.
pub(crate) async fn create(client: &Client, namespace: &str, object: &Value) -> Value {
    let path = collection(object, namespace);
    match client.send(Method::POST, &path, Some(object)).await {
        Ok(created) => created,
        Err(refused) => panic!("{refused:#}\n{object:#}"),
    }
}

/// Stops the shared cluster. If all is well, nothing may be left of what was bought on it.
pub(super) async fn end(failed: bool) {
    let Some(world) = SHARED.lock().await.take() else {
        return;
    };
    if failed {
        return;
    }
    let gone =
        |seen: &Seen| seen.list(paths::CLAIMS).count() == 0 && seen.list(paths::NODES).count() == 0;
    let limit = Duration::from_mins(2);
    if !world.mirror.until(limit, gone).await {
        let seen = world.mirror.seen();
        println!(
            "something is left:\n{}",
            super::story::picture(&seen, |_| true)
        );
        println!("{}", world.logs(60));
        drop(world);
        std::process::exit(101);
    }
}
