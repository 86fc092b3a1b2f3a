//! A story: what one test does to a cluster, apart from the others.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use joiner_controllers::edge::names::digest;
use joiner_testing::{Always, Seen};
use serde_json::{Value, json};

use super::objects::{class, deployment, is_true, label, merge, pool, text};
use super::world::{World, collection, paths};

/// The label and the taint of a story's nodes.
pub(crate) const STORY: &str = "e2e.joiner.dev/story";

/// How long anything may take; a loaded machine is slow.
const LIMIT: Duration = Duration::from_mins(3);

/// A namespace, a node class and pools that belong to one test, all called after it.
pub(crate) struct Story {
    pub(crate) world: Arc<World>,
    pub(crate) name: String,
}

impl Story {
    /// Begins on the shared cluster.
    pub(crate) async fn begin(name: &str) -> Self {
        Self::begin_on(World::shared().await, name).await
    }

    /// Begins on a cluster of one's own.
    pub(crate) async fn begin_on(world: Arc<World>, name: &str) -> Self {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        world.create("", &namespace).await;
        world.create("", &class(name)).await;
        Story {
            world,
            name: name.to_owned(),
        }
    }

    /// Creates an object in the story's namespace.
    pub(crate) async fn create(&self, object: Value) -> Value {
        self.world.create(&self.name, &object).await
    }

    /// Creates a pool called after the story, with changes.
    pub(crate) async fn pool(&self, change: Value) {
        self.pool_named(&self.name, change).await;
    }

    /// Creates a pool with changes.
    pub(crate) async fn pool_named(&self, name: &str, change: Value) {
        let mut object = pool(name, &self.name, &self.name);
        merge(&mut object, change);
        self.create(object).await;
    }

    /// Creates a deployment with changes.
    pub(crate) async fn deploy(&self, app: &str, replicas: u32, cpu: &str, change: Value) {
        let mut object = deployment(app, &self.name, replicas, cpu);
        merge(&mut object, change);
        self.create(object).await;
    }

    /// Brings an app to a size, whether it is there or not.
    pub(crate) async fn scale_or_deploy(&self, app: &str, replicas: u32, cpu: &str) {
        if self
            .world
            .get(&self.path("apps/v1", "Deployment", app))
            .await
            .is_some()
        {
            self.scale(app, replicas).await;
        } else {
            self.deploy(app, replicas, cpu, json!({})).await;
        }
    }

    /// Where an object of the story is.
    pub(crate) fn path(&self, version: &str, kind: &str, name: &str) -> String {
        let object = json!({"apiVersion": version, "kind": kind});
        format!("{}/{name}", collection(&object, &self.name))
    }

    pub(crate) async fn scale(&self, app: &str, replicas: u32) {
        let path = self.path("apps/v1", "Deployment", app);
        self.world
            .patch(&path, &json!({"spec": {"replicas": replicas}}))
            .await;
    }

    /// Changes the story's own pool.
    pub(crate) async fn change_pool(&self, change: Value) {
        let path = format!("{}/{}", paths::POOLS, self.name);
        self.world.patch(&path, &change).await;
    }

    /// Changes the story's node class.
    pub(crate) async fn change_class(&self, change: Value) {
        let path = format!("{}/{}", paths::CLASSES, self.name);
        self.world.patch(&path, &change).await;
    }

    /// What there is of this story.
    pub(crate) fn sight(&self) -> Sight {
        Sight {
            seen: self.world.mirror().seen(),
            story: self.name.clone(),
        }
    }

    /// Waits until something is so, and shows everything if it never is.
    pub(crate) async fn until(&self, what: &str, holds: impl FnMut(&Sight) -> bool) -> Sight {
        self.within(LIMIT, what, holds).await
    }

    /// The same, with another limit.
    pub(crate) async fn within(
        &self,
        limit: Duration,
        what: &str,
        mut holds: impl FnMut(&Sight) -> bool,
    ) -> Sight {
        let mut found = None;
        let look = |seen: &Seen| {
            let sight = Sight {
                seen: seen.clone(),
                story: self.name.clone(),
            };
            let so = holds(&sight);
            if so {
                found = Some(sight);
            }
            so
        };
        self.world.mirror().until(limit, look).await;
        found.unwrap_or_else(|| self.fail(&format!("{limit:?} passed and still not: {what}")))
    }

    /// Checks a rule after every change from now on.
    pub(crate) fn always(
        &self,
        what: &str,
        rule: impl Fn(&Sight) -> bool + Send + 'static,
    ) -> Always {
        let story = self.name.clone();
        self.world.mirror().always(what, move |seen| {
            rule(&Sight {
                seen: seen.clone(),
                story: story.clone(),
            })
        })
    }

    /// Waits for so many pods of an app to run.
    pub(crate) async fn runs(&self, app: &str, count: usize) -> Sight {
        self.until(&format!("{count} pods of {app} run"), |sight| {
            sight.running(app).len() == count
        })
        .await
    }

    /// Two pods of `web` on a spot machine that the cloud takes back within one and a half times `every`, having said so
    /// `notice` before; what is bought from now on it does not. Gives back the name of the machine.
    pub(crate) async fn doomed(&self, every: &str, notice: &str) -> String {
        let interruptions = json!({"chance": "100%", "every": every, "notice": notice});
        self.change_class(json!({"spec": {"interruptions": interruptions}}))
            .await;
        let spot = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
        self.pool(json!({"spec": {"template": {"spec": {"requirements": spot}}}}))
            .await;
        self.deploy("web", 2, "500m", json!({})).await;
        let bought = |claim: &Arc<Value>| !text(claim, "/status/providerID").is_empty();
        let sight = self
            .until("a machine is bought", |sight| {
                sight.claims().iter().any(bought)
            })
            .await;
        self.change_class(json!({"spec": {"interruptions": null}}))
            .await;
        self.runs("web", 2).await;
        sight.claim_names().remove(0)
    }

    /// Gives everything back and does not wait for it; [`super::end`] does.
    pub(crate) async fn end(self) {
        for pool in self.sight().pools() {
            let path = format!("{}/{}", paths::POOLS, text(&pool, "/metadata/name"));
            self.world.delete(&path).await;
        }
        let path = format!("/api/v1/namespaces/{}", self.name);
        self.world.delete(&path).await;
    }

    /// Ends the test with everything that is known.
    #[track_caller]
    pub(crate) fn fail(&self, why: &str) -> ! {
        let sight = self.sight();
        let ours = |object: &Value| sight.is_ours(object);
        panic!(
            "{why}\n{}\n{}",
            picture(&sight.seen, ours),
            self.world.logs_about(60, |line| {
                line.contains(&*self.name) || line.contains(" WARN ") || line.contains("ERROR")
            })
        );
    }
}

/// What is there at one moment, of one story.
pub(crate) struct Sight {
    pub(crate) seen: Seen,
    story: String,
}

impl Sight {
    fn is_ours(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        metadata["namespace"] == *self.story
            || metadata["labels"][STORY] == *self.story
            || object["spec"]["template"]["metadata"]["labels"][STORY] == *self.story
            || text(object, "/involvedObject/name").starts_with(&*self.story)
    }

    fn ours(&self, path: &str) -> Vec<Arc<Value>> {
        let all = self.seen.list(path);
        all.filter(|object| self.is_ours(object)).cloned().collect()
    }

    pub(crate) fn pools(&self) -> Vec<Arc<Value>> {
        self.ours(paths::POOLS)
    }

    pub(crate) fn pool(&self) -> Option<Arc<Value>> {
        self.seen.get(paths::POOLS, "", &self.story).cloned()
    }

    pub(crate) fn class(&self) -> Option<Arc<Value>> {
        self.seen.get(paths::CLASSES, "", &self.story).cloned()
    }

    pub(crate) fn claims(&self) -> Vec<Arc<Value>> {
        self.ours(paths::CLAIMS)
    }

    pub(crate) fn claim(&self, name: &str) -> Option<Arc<Value>> {
        self.seen.get(paths::CLAIMS, "", name).cloned()
    }

    pub(crate) fn nodes(&self) -> Vec<Arc<Value>> {
        self.ours(paths::NODES)
    }

    pub(crate) fn node(&self, name: &str) -> Option<Arc<Value>> {
        self.seen.get(paths::NODES, "", name).cloned()
    }

    /// All pods of an app that are not on their way out.
    pub(crate) fn pods(&self, app: &str) -> Vec<Arc<Value>> {
        let mut pods = self.ours(paths::PODS);
        pods.retain(|pod| {
            pod["metadata"]["labels"]["app"] == app
                && pod["metadata"]["deletionTimestamp"].is_null()
        });
        pods
    }

    /// Those that run.
    pub(crate) fn running(&self, app: &str) -> Vec<Arc<Value>> {
        let mut pods = self.pods(app);
        pods.retain(|pod| pod["status"]["phase"] == "Running");
        pods
    }

    /// The nodes that pods of an app run on, one for each pod.
    pub(crate) fn homes(&self, app: &str) -> Vec<Arc<Value>> {
        let pods = self.running(app);
        let homes = pods
            .iter()
            .filter_map(|pod| self.node(text(pod, "/spec/nodeName")));
        homes.collect()
    }

    /// A label of each of those nodes.
    pub(crate) fn homes_by(&self, app: &str, label: &str) -> Vec<String> {
        let homes = self.homes(app);
        let labels = homes.iter().map(|node| {
            let value = node["metadata"]["labels"][label].as_str();
            value.unwrap_or_default().to_owned()
        });
        let mut labels: Vec<String> = labels.collect();
        labels.sort_unstable();
        labels
    }

    /// What was said in events about an object, by its name.
    pub(crate) fn said(&self, name: &str) -> Vec<String> {
        let about = self.seen.list(paths::EVENTS);
        let about = about.filter(|event| text(event, "/involvedObject/name") == name);
        let words =
            about.map(|event| format!("{}: {}", text(event, "/reason"), text(event, "/message")));
        words.collect()
    }

    /// What was said in events about all that belongs to the story, things that are gone included.
    pub(crate) fn everything_said(&self) -> String {
        let about = self.ours(paths::EVENTS);
        let words = about.iter().map(|event| text(event, "/message"));
        words.collect::<Vec<_>>().join("\n")
    }

    /// The machines that the story's cloud has sold and not taken back: what it remembers, by name.
    pub(crate) fn machines(&self) -> Vec<String> {
        let Some(class) = self.class() else {
            return Vec::new();
        };
        let memory = self.seen.list(paths::CONFIG_MAPS);
        let ledger = digest(text(&class, "/metadata/uid"));
        let own = memory.filter(|map| label(map, "joiner.dev/ledger") == ledger);
        own.map(|map| text(map, "/metadata/name").to_owned())
            .collect()
    }

    /// The names of all machine objects.
    pub(crate) fn claim_names(&self) -> Vec<String> {
        let claims = self.claims();
        let names = claims
            .iter()
            .map(|claim| text(claim, "/metadata/name").to_owned());
        names.collect()
    }

    /// Machine types that were bought, as the machine objects say.
    pub(crate) fn types(&self) -> Vec<String> {
        let claims = self.claims();
        let mut types: Vec<String> = claims
            .iter()
            .map(|claim| label(claim, "node.kubernetes.io/instance-type"))
            .collect();
        types.sort_unstable();
        types
    }

    /// At no moment does an old machine go before a new one is in use.
    pub(crate) fn replacement_first(&self) -> bool {
        let claims = self.claims();
        let going = |claim: &Value| !claim["metadata"]["deletionTimestamp"].is_null();
        let in_use = |claim: &Value| !going(claim) && is_true(claim, "Initialized");
        !claims.iter().any(|claim| going(claim)) || claims.iter().any(|claim| in_use(claim))
    }

    /// Whether all machine objects are ready.
    pub(crate) fn all_ready(&self) -> bool {
        self.claims().iter().all(|claim| is_true(claim, "Ready"))
    }
}

/// Pools, machines, nodes, pods and events in words.
pub(super) fn picture(seen: &Seen, ours: impl Fn(&Value) -> bool) -> String {
    let mut out = String::new();
    for (title, path) in [
        ("pools", paths::POOLS),
        ("classes", paths::CLASSES),
        ("machines", paths::CLAIMS),
        ("nodes", paths::NODES),
        ("pods", paths::PODS),
        ("buffers", paths::BUFFERS),
    ] {
        let _ = writeln!(out, "{title}:");
        for object in seen.list(path).filter(|object| ours(object)) {
            let _ = writeln!(out, "  {}", described(object));
        }
    }
    let mut events: Vec<&Arc<Value>> = seen.list(paths::EVENTS).filter(|one| ours(one)).collect();
    events.sort_by_key(|event| text(event, "/metadata/creationTimestamp").to_owned());
    let _ = writeln!(out, "events:");
    for event in &events[events.len().saturating_sub(40)..] {
        let _ = writeln!(
            out,
            "  {} {} {}: {}",
            text(event, "/metadata/creationTimestamp"),
            text(event, "/involvedObject/name"),
            text(event, "/reason"),
            text(event, "/message")
        );
    }
    out
}

fn described(object: &Value) -> String {
    let mut words = vec![text(object, "/metadata/name").to_owned()];
    for pointer in [
        "/metadata/labels/node.kubernetes.io~1instance-type",
        "/metadata/labels/topology.kubernetes.io~1zone",
        "/status/phase",
        "/spec/nodeName",
        "/status/nodeName",
    ] {
        let found = text(object, pointer);
        if !found.is_empty() {
            words.push(found.to_owned());
        }
    }
    if !object["metadata"]["deletionTimestamp"].is_null() {
        words.push("(going)".to_owned());
    }
    if let Some(taints) = object.pointer("/spec/taints") {
        words.push(format!("taints {taints}"));
    }
    for one in object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let fine = one["status"] == "True" && text(one, "/message").is_empty();
        let said = if fine {
            text(one, "/type").to_owned()
        } else {
            format!(
                "{}={} {} {}",
                text(one, "/type"),
                text(one, "/status"),
                text(one, "/reason"),
                text(one, "/message")
            )
        };
        words.push(format!("[{said}]"));
    }
    words.join(" ")
}
