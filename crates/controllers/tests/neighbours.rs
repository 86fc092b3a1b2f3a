//! Beside other controllers: what is not ours is observed and never touched, on the embedded cluster in virtual time.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use joiner_controllers::Settings;
use joiner_controllers::dialect::{ClassFactory, ClassKind, ClassSite, Dialect};
use joiner_controllers::dialects::karpenter::Karpenter;
use joiner_controllers::edge::clients::Clients;
use joiner_controllers::edge::metrics::Invariant;
use joiner_controllers::record::ClassRecord;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, Catalog};
use joiner_core::resources::Resources;
use joiner_embedded::api::{DeleteOptions, Propagation};
use joiner_providers::{LaunchRequest, Machine, MachineId, Notice, Provider, ProviderError, Uid};
use joiner_sim::clouds::sim::{SimCloud, SimCloudOptions, built_in};
use serde_json::{Value, json};
use world::{SIM, World, is_true, pass};

const POOLS: &str = "nodepools.karpenter.sh";
const CLAIMS: &str = "nodeclaims.karpenter.sh";
const CLASSES: &str = "simnodeclasses.joiner.dev";
const LEASES: &str = "leases.coordination.k8s.io";
const FINALIZER: &str = "karpenter.sh/termination";

fn ec2_class() -> Value {
    json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
}

/// A pool and a claim as Karpenter for AWS has them; gives back the claim.
fn ec2_claim(world: &World) -> Arc<Value> {
    let api = world.api();
    let pool = json!({"metadata": {"name": "aws"}, "spec": {"template": {"spec": {
        "nodeClassRef": ec2_class(), "requirements": []}}}});
    api.create(POOLS, "", pool).unwrap();
    let claim = json!({
        "metadata": {"name": "aws-1", "labels": {"karpenter.sh/nodepool": "aws"}, "finalizers": [FINALIZER]},
        "spec": {"nodeClassRef": ec2_class(), "requirements": [
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["aws"]}],
            "resources": {"requests": {"cpu": "4", "memory": "8Gi", "pods": "20"}}}
    });
    api.create(CLAIMS, "", claim).unwrap()
}

fn ec2_node(world: &World, claim: &Value) -> Arc<Value> {
    let node = json!({
        "metadata": {
            "name": "ip-10-0-0-1", "finalizers": [FINALIZER],
            "labels": {"karpenter.sh/nodepool": "aws", "karpenter.sh/registered": "true"},
            "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "aws-1",
                "uid": claim["metadata"]["uid"], "blockOwnerDeletion": true}],
        },
        "spec": {"providerID": "aws:///eu-1a/i-1"},
    });
    world.api().create("nodes", "", node).unwrap()
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_class_that_is_not_served_are_never_touched() {
    let world = World::start().await;
    world.pool("own", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    let claim = ec2_claim(&world);
    let node = ec2_node(&world, &claim);
    let pool = world.api().get(POOLS, "", "aws").unwrap();
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    pass(1800).await;
    let api = world.api();
    assert_eq!(api.get(POOLS, "", "aws").unwrap(), pool);
    assert_eq!(api.get(CLAIMS, "", "aws-1").unwrap(), claim);
    let now = api.get("nodes", "", "ip-10-0-0-1").unwrap();
    for field in [
        "finalizers",
        "labels",
        "annotations",
        "ownerReferences",
        "deletionTimestamp",
    ] {
        assert_eq!(now["metadata"][field], node["metadata"][field], "{field}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_our_mark_is_not_deleted_although_its_finalizer_is_ours_too() {
    let world = World::start().await;
    world.pool("own", |_| ());
    let claim = ec2_claim(&world);
    ec2_node(&world, &claim);
    // Karpenter is about to finish: its claim is gone, its node is not yet.
    let api = world.api();
    let mut bare = (*claim).clone();
    bare["metadata"]["finalizers"] = json!([]);
    api.update(CLAIMS, bare).unwrap();
    api.delete(CLAIMS, "", "aws-1", DeleteOptions::default())
        .unwrap();
    pass(1200).await;
    let node = api.get("nodes", "", "ip-10-0-0-1").unwrap();
    assert_eq!(node["metadata"]["finalizers"], json!([FINALIZER]));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_says_by_its_mark_whose_it_is_and_is_deleted_by_it() {
    let world = World::start().await;
    world.pool("own", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let api = world.api();
    let claim = world.claims().remove(0);
    let node = api.list("nodes").remove(0);
    let mark = &node["metadata"]["annotations"];
    assert_eq!(mark["joiner.dev/managed-by"], "cluster.karpenter");
    assert_eq!(mark["joiner.dev/machine-uid"], claim["metadata"]["uid"]);
    assert_eq!(
        claim["metadata"]["annotations"]["joiner.dev/managed-by"],
        "cluster.karpenter"
    );
    let owner = &node["metadata"]["ownerReferences"][0];
    assert_eq!(
        owner["uid"], claim["metadata"]["uid"],
        "other tools read it"
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_a_machine_of_another_controller_is_left_to_it_while_it_may_come() {
    let world = World::start().await;
    world.pool("own", |_| ());
    ec2_claim(&world);
    world.deployment("web", 2, "500m", |_| ());
    pass(600).await;
    assert!(
        world.claims().len() == 1,
        "bought twice: {:#?}",
        world.claims()
    );
    // The other controller gives up.
    let api = world.api();
    let mut bare = (*api.get(CLAIMS, "", "aws-1").unwrap()).clone();
    bare["metadata"]["finalizers"] = json!([]);
    api.update(CLAIMS, bare).unwrap();
    api.delete(CLAIMS, "", "aws-1", DeleteOptions::default())
        .unwrap();
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_lets_no_standby_lead_beside_the_leader() {
    let mut world = World::start().await;
    pass(20).await;
    let second = world.engine("second");
    pass(20).await;
    for _ in 0..3 {
        world
            .api()
            .delete(LEASES, "kube-system", "joiner", DeleteOptions::default())
            .unwrap();
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let first = world.engine.as_ref().unwrap();
            let leaders = [first, &second].map(|one| one.context().edge.clients.fence.holds());
            assert!(leaders != [true, true], "two may write at once");
        }
    }
    assert!(world.engine.as_ref().unwrap().leading(), "it leads on");
    // Once the leader is dead and its lease deleted, another leads after a whole lease.
    world.engine.take().unwrap().kill().await;
    world
        .api()
        .delete(LEASES, "kube-system", "joiner", DeleteOptions::default())
        .unwrap();
    pass(30).await;
    assert!(second.leading());
    world.engine = Some(second);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_class_in_use_says_who_uses_it_and_goes_with_its_last_machine() {
    let world = World::start().await;
    let api = world.api();
    world.pool("own", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let class = api.get(CLASSES, "", "sim").unwrap();
    assert_eq!(
        class["metadata"]["finalizers"],
        json!(["joiner.dev/in-use"])
    );
    api.delete(CLASSES, "", "sim", DeleteOptions::default())
        .unwrap();
    let machine = world.claims().remove(0)["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world
        .until("the class says who uses it", |world| {
            let class = world.api().get(CLASSES, "", "sim").unwrap();
            let said = class["status"]["conditions"][0]["message"]
                .as_str()
                .unwrap_or_default();
            said.contains(&machine) && !is_true(&class, "Ready")
        })
        .await;
    let told = |world: &World| {
        let events = world.api().list("events");
        events
            .iter()
            .any(|one| one["reason"] == "WaitingForMachines")
    };
    world.until("an event says so", told).await;
    assert_eq!(world.running("web"), 2, "its machines stay");
    api.delete(POOLS, "", "own", DeleteOptions::default())
        .unwrap();
    world
        .until("machines and class are gone", |world| {
            world.cloud.machines().is_empty()
                && world.claims().is_empty()
                && world.nodes() == 0
                && world.api().get(CLASSES, "", "sim").is_err()
        })
        .await;
    world.stop().await;
}

/// A machine that no object asks for, as another's mistake or a lost object leaves it.
async fn orphan(world: &World, uid: &str) {
    let request = LaunchRequest {
        uid: Uid(uid.into()),
        name: uid.into(),
        purchase: Purchase {
            catalog: "sim".into(),
            instance_type: "m-1x-amd64".into(),
            zone: "sim-a".into(),
            capacity_type: CapacityType::OnDemand,
            reservation: None,
            host: None,
            price: Money::ZERO,
        },
        capacity: Resources::new(),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    };
    world.cloud.launch(&request).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_machine_without_an_object_goes_and_many_at_once_are_left_alone() {
    let world = World::start().await;
    // Machines without objects become nodes too: pods are not to move to them.
    world.pool("own", |pool| {
        pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    });
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let own = world.cloud.machines().len();
    orphan(&world, "one").await;
    world
        .until("it is gone", |world| world.cloud.machines().len() == own)
        .await;
    // If so much looks like garbage, it is the look that is wrong.
    for uid in ["two", "three", "four"] {
        orphan(&world, uid).await;
    }
    pass(1800).await;
    assert_eq!(world.cloud.machines().len(), own + 3);
    assert_eq!(world.running("web"), 2);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_node_is_gone_goes_after_a_second_look() {
    let world = World::start().await;
    world.pool("own", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let api = world.api();
    let claim = world.claims().remove(0)["metadata"]["name"].clone();
    let mut node = (*api.list("nodes").remove(0)).clone();
    let name = node["metadata"]["name"].as_str().unwrap().to_owned();
    let started = tokio::time::Instant::now();
    node["metadata"]["finalizers"] = json!([]);
    api.update("nodes", node).unwrap();
    api.delete("nodes", "", &name, DeleteOptions::default())
        .unwrap();
    world
        .until("its object is deleted", |world| {
            let claims = world.claims();
            let own = claims.iter().find(|one| one["metadata"]["name"] == claim);
            own.is_none_or(|one| one["metadata"]["deletionTimestamp"].is_string())
        })
        .await;
    let took = started.elapsed();
    assert!(
        took >= Duration::from_mins(1),
        "one look was enough: {took:?}"
    );
    assert!(took < Duration::from_mins(3), "{took:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_object_is_lost_stays_while_its_node_is_in_use() {
    let world = World::start().await;
    world.pool("own", |pool| {
        pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    });
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let api = world.api();
    let claim = world.claims().remove(0);
    let name = claim["metadata"]["name"].as_str().unwrap();
    let mut bare = (*claim).clone();
    bare["metadata"]["finalizers"] = json!([]);
    api.update(CLAIMS, bare).unwrap();
    // Otherwise Kubernetes deletes the node with its owner.
    let orphans = DeleteOptions {
        propagation: Some(Propagation::Orphan),
        ..DeleteOptions::default()
    };
    api.delete(CLAIMS, "", name, orphans).unwrap();
    pass(1800).await;
    assert!(world.claims().is_empty(), "{:#?}", world.claims());
    assert_eq!(world.cloud.machines().len(), 1);
    assert_eq!(world.running("web"), 2);
    let events = api.list("events");
    let told = events
        .iter()
        .find(|one| one["reason"] == "MachineObjectMissing");
    let node = api.list("nodes").remove(0)["metadata"]["name"].clone();
    assert_eq!(told.unwrap()["involvedObject"]["name"], node);
    // A node that is being deleted is not wanted any more.
    let old = world.cloud.machines().remove(0).id;
    api.delete(
        "nodes",
        "",
        node.as_str().unwrap(),
        DeleteOptions::default(),
    )
    .unwrap();
    world
        .until("it is gone, its node too, and the pods run", |world| {
            world.cloud.machines().iter().all(|one| one.id != old)
                && world.nodes() == 1
                && world.running("web") == 2
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_its_budget_holds_back_has_a_node_to_go_to_before_its_machine_is_taken() {
    let world = World::start().await;
    world.pool("own", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    let budget = json!({"metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    let api = world.api();
    api.create("poddisruptionbudgets.policy", "default", budget)
        .unwrap();
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let taken = world.cloud.machines().remove(0);
    world.cloud.interrupt(&taken.id);
    let another = |world: &World| {
        let claims = world.claims();
        let used = claims.iter().filter(|one| is_true(one, "Initialized"));
        used.count() == 2
    };
    let (limit, mut another) = (Duration::from_secs(110), another);
    world.within(limit, "another is in use", &mut another).await;
    let machines = world.cloud.machines();
    assert!(machines.iter().any(|one| one.id == taken.id), "it lives");
    let claims = world.claims();
    let noted = |one: &&Arc<Value>| {
        let annotations = &one["metadata"]["annotations"];
        annotations["joiner.dev/interrupted-at"].is_string()
    };
    assert_eq!(claims.iter().filter(noted).count(), 1, "a restart knows");
    world
        .until("its pods run on the other", |world| {
            world.running("web") == 2 && world.claims().len() == 1
        })
        .await;
    world.stop().await;
}

/// One cloud, and one that answers nothing but what it sells: nothing.
struct Beside(Arc<Altered>);

#[async_trait]
impl ClassFactory for Beside {
    fn kind(&self) -> ClassKind {
        SIM
    }

    async fn build(
        &self,
        class: &ClassRecord,
        _: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(if &*class.key.name == "a-stuck" {
            Arc::new(Stuck)
        } else {
            self.0.clone()
        })
    }
}

/// A cloud that can be made to behave in other ways.
struct Altered {
    cloud: SimCloud,
    /// Every machine is listed twice.
    twice: AtomicBool,
    /// How long it takes to list what is for sale, in seconds.
    lists_in: AtomicU32,
    /// How long it takes to raise a bid, which is done when it is asked for notices.
    raises_in: Duration,
    asked: AtomicU32,
    raised: AtomicU32,
}

impl Altered {
    fn new(cloud: &SimCloud, raises_in: Duration) -> Arc<Self> {
        Arc::new(Altered {
            cloud: cloud.clone(),
            twice: AtomicBool::new(false),
            lists_in: AtomicU32::new(0),
            raises_in,
            asked: AtomicU32::new(0),
            raised: AtomicU32::new(0),
        })
    }
}

#[async_trait]
impl Provider for Altered {
    fn name(&self) -> &'static str {
        self.cloud.name()
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        let seconds = self.lists_in.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        self.cloud.catalog().await
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        self.cloud.launch(request).await
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        self.cloud.terminate(id).await
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        self.cloud.get(id).await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        let mut all = self.cloud.list().await?;
        if self.twice.load(Ordering::SeqCst) {
            let again = all.clone().into_iter().map(|one| Machine {
                id: MachineId(format!("{}-again", one.id).into()),
                ..one
            });
            all.extend(again);
        }
        Ok(all)
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        self.cloud.drift(machine).await
    }

    async fn notices(&self) -> Result<Vec<Notice>, ProviderError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.raises_in).await;
        self.raised.fetch_add(1, Ordering::SeqCst);
        self.cloud.notices().await
    }
}

/// A world whose class `sim` is the altered cloud; the class `a-stuck`, if there is one, answers nothing.
async fn altered(raises_in: Duration, stuck: bool) -> (World, Arc<Altered>) {
    let options = SimCloudOptions::calm(built_in(), 1);
    let mut world = World::with(options, Settings::default()).await;
    world.engine.take().unwrap().stop().await;
    if stuck {
        let stuck = json!({"metadata": {"name": "a-stuck"}, "spec": {}});
        world.api().create(CLASSES, "", stuck).unwrap();
    }
    let karpenter = |clients: &Clients| -> Vec<Arc<dyn Dialect>> {
        vec![Arc::new(Karpenter::new(clients.clone(), vec![SIM]))]
    };
    let cloud = Altered::new(&world.cloud, raises_in);
    let clouds: Arc<dyn ClassFactory> = Arc::new(Beside(cloud.clone()));
    world.engine = Some(world.engine_of("beside", karpenter, vec![clouds]));
    (world, cloud)
}

struct Stuck;

#[async_trait]
impl Provider for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        Ok(Catalog::default())
    }

    async fn launch(&self, _: &LaunchRequest) -> Result<Machine, ProviderError> {
        std::future::pending().await
    }

    async fn terminate(&self, _: &MachineId) -> Result<(), ProviderError> {
        std::future::pending().await
    }

    async fn get(&self, _: &MachineId) -> Result<Machine, ProviderError> {
        std::future::pending().await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        std::future::pending().await
    }

    async fn drift(&self, _: &Machine) -> Result<Option<String>, ProviderError> {
        std::future::pending().await
    }

    async fn notices(&self) -> Result<Vec<Notice>, ProviderError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_does_not_answer_delays_no_other() {
    let (mut world, cloud) = altered(Duration::ZERO, true).await;
    world.pool("own", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    // Loops that waited for the stuck class would hear of nothing else for two minutes at a time.
    pass(100).await;
    let (own, started) = (world.cloud.machines().len(), tokio::time::Instant::now());
    orphan(&world, "garbage").await;
    let mut gone = |world: &World| world.cloud.machines().len() == own;
    let limit = Duration::from_secs(150);
    world.within(limit, "garbage is gone", &mut gone).await;
    assert!(started.elapsed() > Duration::from_secs(30), "two looks");

    let mut pool = (*world.api().get(POOLS, "", "own").unwrap()).clone();
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "0"}]);
    pool["spec"]["template"]["metadata"] = json!({"labels": {"generation": "two"}});
    world.api().update(POOLS, pool).unwrap();
    let mut drifted = |world: &World| world.claims().iter().any(|one| is_true(one, "Drifted"));
    let limit = Duration::from_secs(15);
    world.within(limit, "drift is seen", &mut drifted).await;

    let violations = |world: &World| {
        let metrics = &world.engine.as_ref().unwrap().context().edge.metrics;
        let invariant = "S1".to_owned();
        metrics
            .violations
            .get_or_create(&Invariant { invariant })
            .get()
    };
    assert_eq!(violations(&world), 0);
    cloud.twice.store(true, Ordering::SeqCst);
    let mut seen = |world: &World| violations(world) > 0;
    let limit = Duration::from_secs(65);
    world.within(limit, "the check sees it", &mut seen).await;
    cloud.twice.store(false, Ordering::SeqCst);

    let machine = world.cloud.machines().remove(0);
    world.cloud.interrupt(&machine.id);
    let heard = |world: &World| {
        let events = world.api().list("events");
        events.iter().any(|one| one["reason"] == "Interrupted")
    };
    let (limit, mut heard) = (Duration::from_secs(15), heard);
    world.within(limit, "the notice is heard", &mut heard).await;
    world.engine.take().unwrap().stop().await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_bid_is_raised_once_the_lease_is_lost() {
    let (world, cloud) = altered(Duration::from_secs(20), false).await;
    world.pool("own", |_| ());
    world
        .until("a bid is raised", |_| {
            cloud.raised.load(Ordering::SeqCst) == 1
        })
        .await;
    world
        .until("another one is being raised", |_| {
            cloud.asked.load(Ordering::SeqCst) == 2
        })
        .await;
    let api = world.api();
    let mut lease = (*api.get(LEASES, "kube-system", "joiner").unwrap()).clone();
    lease["spec"]["holderIdentity"] = json!("another");
    api.update(LEASES, lease).unwrap();
    let holds = |world: &World| {
        let engine = world.engine.as_ref().unwrap();
        engine.context().edge.clients.fence.holds()
    };
    let (limit, mut lost) = (Duration::from_secs(15), |world: &World| !holds(world));
    world.within(limit, "the lease is lost", &mut lost).await;
    assert_eq!(
        cloud.raised.load(Ordering::SeqCst),
        1,
        "in time for the test"
    );
    pass(14).await;
    assert!(!holds(&world));
    assert_eq!(cloud.raised.load(Ordering::SeqCst), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_says_that_its_class_has_recovered_however_long_it_takes_to_read() {
    let (world, cloud) = altered(Duration::ZERO, false).await;
    cloud.lists_in.store(30, Ordering::SeqCst);
    world.pool("early", |pool| {
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("late");
    });
    let pool = |world: &World| world.api().get(POOLS, "", "early").unwrap();
    let missing = |world: &World| {
        let said = pool(world)["status"]["conditions"].to_string();
        said.contains("NodeClassNotFound")
    };
    world
        .until("the pool says that it is missing", missing)
        .await;
    let late = json!({"metadata": {"name": "late"}, "spec": {}});
    world.api().create(CLASSES, "", late).unwrap();
    world
        .until("the pool is ready", |world| is_true(&pool(world), "Ready"))
        .await;
    let events = world.api().list("events");
    let mut own = events
        .iter()
        .filter(|one| one["involvedObject"]["name"] == "early");
    assert!(own.any(|one| one["reason"] == "Recovered"), "{events:#?}");
    world.stop().await;
}

/// A cloud with something left that cannot be removed at once, and how often that was tried.
struct Leaving(SimCloud, Arc<AtomicU32>);

#[async_trait]
impl ClassFactory for Leaving {
    fn kind(&self) -> ClassKind {
        SIM
    }

    async fn build(
        &self,
        _: &ClassRecord,
        _: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(Arc::new(Leaving(self.0.clone(), self.1.clone())))
    }
}

#[async_trait]
impl Provider for Leaving {
    fn name(&self) -> &'static str {
        "leaving"
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        self.0.catalog().await
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        self.0.launch(request).await
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        self.0.terminate(id).await
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        self.0.get(id).await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        self.0.list().await
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        self.0.drift(machine).await
    }

    async fn clear(&self) -> Result<(), ProviderError> {
        match self.1.fetch_add(1, Ordering::Relaxed) {
            0..=2 => Err(ProviderError::Transient("a pool is INSTALLING".to_owned())),
            _ => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_goes_only_once_nothing_of_it_is_left_at_the_cloud() {
    let mut world = World::start().await;
    world.engine.take().unwrap().stop().await;
    let karpenter = |clients: &Clients| -> Vec<Arc<dyn Dialect>> {
        vec![Arc::new(Karpenter::new(clients.clone(), vec![SIM]))]
    };
    let asked = Arc::new(AtomicU32::new(0));
    let clouds = Arc::new(Leaving(world.cloud.clone(), asked.clone()));
    world.engine = Some(world.engine_of("leaving", karpenter, vec![clouds]));
    world.pool("own", |_| ());
    world.deployment("web", 1, "500m", |_| ());
    world
        .until("the pod runs", |world| world.running("web") == 1)
        .await;
    assert_eq!(asked.load(Ordering::Relaxed), 0, "it is in use");
    let api = world.api();
    api.delete(CLASSES, "", "sim", DeleteOptions::default())
        .unwrap();
    api.delete(POOLS, "", "own", DeleteOptions::default())
        .unwrap();
    let told = |world: &World| {
        let events = world.api().list("events");
        let mut events = events.iter();
        events.any(|one| {
            let said = one["message"].as_str().unwrap_or_default();
            one["reason"] == "WaitingForCloud" && said.contains("INSTALLING")
        })
    };
    world.until("an event says what is waited for", told).await;
    assert!(world.cloud.machines().is_empty());
    assert!(world.api().get(CLASSES, "", "sim").is_ok());
    world
        .until("the class is gone", |world| {
            world.api().get(CLASSES, "", "sim").is_err()
        })
        .await;
    assert_eq!(asked.load(Ordering::Relaxed), 4);
    world.stop().await;
}
