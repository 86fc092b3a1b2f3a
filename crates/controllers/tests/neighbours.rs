//! Beside other controllers: what is not ours is observed and never touched, on the embedded cluster in virtual time.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use joiner_controllers::Settings;
use joiner_controllers::dialect::{ClassFactory, ClassKind, ClassSite, Dialect};
use joiner_controllers::dialects::karpenter::Karpenter;
use joiner_controllers::edge::clients::Clients;
use joiner_controllers::record::ClassRecord;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, Catalog};
use joiner_core::resources::Resources;
use joiner_embedded::api::DeleteOptions;
use joiner_providers::{LaunchRequest, Machine, MachineId, Notice, Provider, ProviderError, Uid};
use joiner_sim::clouds::sim::{SimCloud, SimCloudOptions, built_in};
use serde_json::{Value, json};
use world::{SIM, World, is_true, pass};

const POOLS: &str = "nodepools.karpenter.sh";
const CLAIMS: &str = "nodeclaims.karpenter.sh";
const CLASSES: &str = "simnodeclasses.joiner.dev";
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
            .delete(
                "leases.coordination.k8s.io",
                "kube-system",
                "joiner",
                DeleteOptions::default(),
            )
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
        .delete(
            "leases.coordination.k8s.io",
            "kube-system",
            "joiner",
            DeleteOptions::default(),
        )
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
struct Beside(SimCloud);

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
            Arc::new(self.0.clone())
        })
    }
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
    let options = SimCloudOptions::calm(built_in(), 1);
    let mut world = World::with(options, Settings::default()).await;
    world.engine.take().unwrap().stop().await;
    let stuck = json!({"metadata": {"name": "a-stuck"}, "spec": {}});
    world.api().create(CLASSES, "", stuck).unwrap();
    let karpenter = |clients: &Clients| -> Vec<Arc<dyn Dialect>> {
        vec![Arc::new(Karpenter::new(clients.clone(), vec![SIM]))]
    };
    let clouds: Arc<dyn ClassFactory> = Arc::new(Beside(world.cloud.clone()));
    world.engine = Some(world.engine_of("beside", karpenter, vec![clouds]));
    world.pool("own", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    // Loops that waited for the stuck class would hear of nothing else for two minutes at a time.
    pass(100).await;
    let machine = world.cloud.machines().remove(0);
    world.cloud.interrupt(&machine.id);
    let heard = |world: &World| {
        let events = world.api().list("events");
        events.iter().any(|one| one["reason"] == "Interrupted")
    };
    let (limit, mut heard) = (Duration::from_secs(15), heard);
    world.within(limit, "the notice is heard", &mut heard).await;
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
