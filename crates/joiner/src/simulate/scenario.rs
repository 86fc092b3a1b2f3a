//! What a seed stands for: clouds, pools, workloads, and what users do to them over the hours.

use std::time::Duration;

use joiner_core::problem::Catalog;
use joiner_sim::clouds::sim::{Market, SimCloudOptions, built_in};
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::objects::{self, Workload};

/// The API group of node classes that another controller looks after.
pub(crate) const FOREIGN_GROUP: &str = "elsewhere.example.com";

/// Something that a user, or the world, does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wish {
    /// Creates an object.
    Create(&'static str, &'static str, Value),
    /// Scales a deployment.
    Scale(String, u32),
    /// Gives a deployment's pods a new template.
    Rollout(String, Value),
    /// Gives up the protection of a deployment's pods: a new template, and the protected ones go at once.
    Unprotect(String, Value),
    /// Changes a pool, by a JSON merge.
    EditPool(String, Value),
    /// Deletes an object, if it is there.
    Delete(&'static str, &'static str, String),
    /// The cloud asks a machine back; the number chooses which.
    Interrupt(usize),
    /// A machine dies without a word.
    Kill(usize),
    /// Somebody deletes a machine object by hand.
    DeleteMachine(usize),
    /// Somebody deletes a node by hand.
    DeleteNode(usize),
    /// Somebody deletes all machine objects of a pool that would expire one day.
    DeleteMortal(String),
}

/// One simulated cloud.
#[derive(Clone, Debug)]
pub(crate) struct CloudPlan {
    /// Name of its class.
    pub(crate) class: String,
    /// How it behaves.
    pub(crate) options: SimCloudOptions,
}

/// What a seed stands for.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Clouds.
    pub(crate) clouds: Vec<CloudPlan>,
    /// What is there in the beginning.
    pub(crate) beginning: Vec<Wish>,
    /// What happens when, in order.
    pub(crate) wishes: Vec<(Duration, Wish)>,
    /// What is put right when the storm is over, so that everything can settle.
    pub(crate) end: Vec<Wish>,
}

impl Scenario {
    /// The world of a seed, for a storm of some length.
    pub(crate) fn draw(seed: u64, storm: Duration) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let clouds = clouds(&mut random, seed);
        let mut draw = Draw {
            random,
            storm,
            scenario: Scenario {
                clouds,
                beginning: Vec::new(),
                wishes: Vec::new(),
                end: Vec::new(),
            },
        };
        let tainted = draw.pools();
        draw.foreigners();
        draw.daemons();
        draw.deployments(tainted.as_deref());
        draw.jobs();
        draw.troubles();
        let mut scenario = draw.scenario;
        scenario.wishes.sort_by_key(|(at, _)| *at);
        scenario
    }
}

fn clouds(random: &mut ChaCha8Rng, seed: u64) -> Vec<CloudPlan> {
    let count = if random.random_ratio(1, 3) { 2 } else { 1 };
    (0..count)
        .map(|number| {
            let mut options = SimCloudOptions::calm(catalog(random), seed ^ number);
            options.market = Market {
                swing_percent: *[0, 10, 33].choose(random).unwrap_or(&0),
                sold_out_percent: *[0, 5, 20].choose(random).unwrap_or(&0),
                stock_every: Duration::from_mins(random.random_range(5..40)),
                spot_life: random
                    .random_ratio(1, 2)
                    .then(|| Duration::from_hours(random.random_range(1..12))),
                notice: Duration::from_secs(*[30, 120].choose(random).unwrap_or(&120)),
                ..Market::calm(seed.wrapping_mul(31) ^ number)
            };
            options.boot_max = Duration::from_secs(random.random_range(20..120));
            options.boot_min = options.boot_min.min(options.boot_max);
            options.refused_percent = *[0, 0, 5].choose(random).unwrap_or(&0);
            options.stillborn_percent = *[0, 0, 3, 8].choose(random).unwrap_or(&0);
            CloudPlan {
                class: format!("cloud-{number}"),
                options,
            }
        })
        .collect()
}

/// A part of the built-in catalogue: small machines, so that small worlds have several.
fn catalog(random: &mut ChaCha8Rng) -> Catalog {
    let mut catalog = built_in();
    let arm = random.random_ratio(1, 3);
    let families = [&["c", "m"][..], &["m", "r"], &["c"], &["m"]];
    let families = families.choose(random).copied().unwrap_or(&["m"]);
    catalog.types.retain(|kind| {
        let mut parts = kind.name.split('-');
        let family = parts.next().unwrap_or_default();
        let size = parts.next().unwrap_or_default();
        families.contains(&family)
            && ["1x", "2x", "4x", "8x"].contains(&size)
            && (arm || kind.name.ends_with("amd64"))
    });
    catalog
}

struct Draw {
    random: ChaCha8Rng,
    storm: Duration,
    scenario: Scenario,
}

impl Draw {
    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.random_range(0..of.len())]
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.random.random_ratio(1, one_in)
    }

    /// Some moment of the storm, in whole seconds.
    fn moment(&mut self) -> Duration {
        Duration::from_secs(self.random.random_range(60..self.storm.as_secs().max(120)))
    }

    fn create(&mut self, resource: &'static str, namespace: &'static str, object: Value) {
        let wish = Wish::Create(resource, namespace, object);
        self.scenario.beginning.push(wish);
    }

    fn at(&mut self, at: Duration, wish: Wish) {
        self.scenario.wishes.push((at, wish));
    }

    /// One to three pools; the name of one whose nodes keep ordinary pods away, if there is one.
    fn pools(&mut self) -> Option<String> {
        let count = self.random.random_range(1..=3);
        let mut tainted = None;
        for number in 0..count {
            let name = format!("pool-{number}");
            let class_count = self.scenario.clouds.len();
            let class = self.scenario.clouds[self.random.random_range(0..class_count)]
                .class
                .clone();
            let mut pool = objects::pool(&name, &class);
            let spec = &mut pool["spec"];
            let paid: &[&str] = if self.chance(3) {
                &["on-demand"]
            } else {
                &["spot", "on-demand"]
            };
            spec["template"]["spec"]["requirements"] = json!([
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": paid},
            ]);
            spec["disruption"] = self.disruption();
            // The first pool takes everybody, so that limits are what keeps pods waiting and nothing else.
            spec["limits"] = if number == 0 {
                json!({"cpu": "96", "nodes": "24"})
            } else {
                let cpu = self.random.random_range(4..24);
                json!({"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4)})
            };
            if self.chance(3) {
                let minutes = self.random.random_range(45..180);
                spec["template"]["spec"]["expireAfter"] = json!(format!("{minutes}m"));
                self.scenario.end.push(Wish::EditPool(
                    name.clone(),
                    json!({"spec": {"template": {"spec": {"expireAfter": "Never"}}}}),
                ));
                self.scenario.end.push(Wish::DeleteMortal(name.clone()));
            }
            if self.chance(4) {
                let minutes = self.random.random_range(2..20);
                spec["template"]["spec"]["terminationGracePeriod"] = json!(format!("{minutes}m"));
            }
            if number == 1 && self.chance(2) {
                spec["template"]["spec"]["taints"] =
                    json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]);
                spec["template"]["metadata"]["labels"] = json!({"team": "batch"});
                tainted = Some(name.clone());
            }
            if number == 2 && self.chance(2) {
                // A pool of a fixed size.
                spec["replicas"] = json!(self.random.random_range(1..3));
                spec["limits"] = json!({"nodes": "4"});
                spec["disruption"] = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]});
            }
            self.create("nodepools.karpenter.sh", "", pool);
            self.edits(&name, number);
        }
        tainted
    }

    fn disruption(&mut self) -> Value {
        let after = *self.one(&["0s", "30s", "2m", "5m"]);
        let policy = *self.one(&[
            "WhenEmpty",
            "WhenEmptyOrUnderutilized",
            "WhenEmptyOrUnderutilized",
        ]);
        let budgets = match self.random.random_range(0..5) {
            0 => json!([{"nodes": "10%"}]),
            1 => json!([{"nodes": "1"}]),
            2 => json!([{"nodes": "50%"}, {"nodes": "1", "reasons": ["Drifted"]}]),
            3 => json!([{"nodes": "2"}, {"nodes": "30%", "reasons": ["Underutilized", "Empty"]}]),
            _ => json!([{"nodes": "100%"}]),
        };
        json!({"consolidateAfter": after, "consolidationPolicy": policy, "budgets": budgets})
    }

    /// What becomes of a pool: its template changes, it is deleted and made again.
    fn edits(&mut self, name: &str, number: usize) {
        for generation in 0..self.random.random_range(0..3) {
            let labels = json!({"generation": format!("g{generation}")});
            let edit = json!({"spec": {"template": {"metadata": {"labels": labels}}}});
            let at = self.moment();
            self.at(at, Wish::EditPool(name.to_owned(), edit));
        }
        if number > 0 && self.chance(4) {
            let at = self.moment();
            self.at(
                at,
                Wish::Delete("nodepools.karpenter.sh", "", name.to_owned()),
            );
        }
    }

    /// What belongs to others and is to stay as it is.
    fn foreigners(&mut self) {
        let mut pool = objects::pool("theirs", "theirs");
        pool["spec"]["template"]["spec"]["nodeClassRef"]["group"] = json!(FOREIGN_GROUP);
        self.create("nodepools.karpenter.sh", "", pool);
        let mut claim = objects::claim("theirs-1", "theirs");
        claim["spec"]["nodeClassRef"]["group"] = json!(FOREIGN_GROUP);
        self.create("nodeclaims.karpenter.sh", "", claim);
    }

    fn daemons(&mut self) {
        for number in 0..self.random.random_range(0..3) {
            let daemon = objects::daemon(&format!("agent-{number}"), "50m", "64Mi");
            self.create("daemonsets.apps", "default", daemon);
        }
    }

    fn deployments(&mut self, tainted: Option<&str>) {
        for number in 0..self.random.random_range(2..=5) {
            let name = format!("app-{number}");
            let mut workload = Workload {
                cpu_millis: *self.one(&[100, 250, 500, 900, 1700]),
                memory_mib: *self.one(&[128, 256, 512, 1500]),
                ..Workload::named(&name)
            };
            match self.random.random_range(0..8) {
                0 => workload.selects("topology.kubernetes.io/zone", "sim-b"),
                1 => workload.selects("karpenter.sh/capacity-type", "on-demand"),
                2 if tainted.is_some() => {
                    workload.tolerates("dedicated", "batch");
                    workload.selects("team", "batch");
                }
                3 => workload.apart = true,
                4 => workload.spread = true,
                5 => workload.stop_seconds = 45,
                _ => {}
            }
            // Pods that must stay apart want a node each.
            let most = if workload.apart { 4 } else { 12 };
            if self.chance(6) {
                workload.do_not_disrupt = true;
                let mut free = workload.clone();
                free.do_not_disrupt = false;
                let freed = free.template();
                self.scenario.end.push(Wish::Unprotect(name.clone(), freed));
            }
            let replicas = self.random.random_range(0..=most);
            self.create("deployments.apps", "default", workload.deployment(replicas));
            self.budget(&name);
            self.waves(&workload, most);
        }
        if self.chance(5) {
            let giant = Workload {
                cpu_millis: 200_000,
                ..Workload::named("giant")
            };
            self.create("deployments.apps", "default", giant.deployment(1));
        }
    }

    fn budget(&mut self, app: &str) {
        let spec = match self.random.random_range(0..8) {
            0 | 1 => json!({"maxUnavailable": 1}),
            2 => json!({"minAvailable": "50%"}),
            3 => json!({"minAvailable": 1}),
            4 => json!({"maxUnavailable": 0}),
            _ => return,
        };
        let budget = objects::budget(app, spec);
        self.create("poddisruptionbudgets.policy", "default", budget);
    }

    /// A deployment grows, shrinks and is rolled out anew.
    fn waves(&mut self, workload: &Workload, most: u32) {
        let name = workload.name.clone();
        let waves = 1 + self.storm.as_secs() / 3600 * self.random.random_range(1..4);
        for _ in 0..waves {
            let at = self.moment();
            let replicas = self.random.random_range(0..=most);
            self.at(at, Wish::Scale(name.clone(), replicas));
        }
        if self.chance(2) {
            let mut next = workload.clone();
            next.version = 2;
            let at = self.moment();
            self.at(at, Wish::Rollout(name, next.template()));
        }
    }

    fn jobs(&mut self) {
        for number in 0..self.random.random_range(0..4) {
            let job = objects::job(
                &format!("job-{number}"),
                self.random.random_range(1..6),
                self.random.random_range(30..900),
            );
            let at = self.moment();
            self.at(at, Wish::Create("jobs.batch", "default", job));
        }
    }

    /// Hands that meddle and machines that fail.
    fn troubles(&mut self) {
        let hours = self.storm.as_secs().div_ceil(3600);
        for _ in 0..self.random.random_range(0..=hours * 2) {
            let at = self.moment();
            let which = self.random.random_range(0..100);
            let wish = match self.random.random_range(0..5) {
                0 | 1 => Wish::Interrupt(which),
                2 => Wish::Kill(which),
                3 => Wish::DeleteMachine(which),
                _ => Wish::DeleteNode(which),
            };
            self.at(at, wish);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_stands_for_the_same_world() {
        let draw = |seed| {
            let scenario = Scenario::draw(seed, Duration::from_hours(4));
            (scenario.beginning, scenario.wishes, scenario.end)
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn every_kind_of_wish_happens_in_some_world() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let scenario = Scenario::draw(seed, Duration::from_hours(4));
            let wishes = scenario.wishes.iter().map(|(_, wish)| wish);
            for wish in wishes.chain(&scenario.beginning).chain(&scenario.end) {
                let text = format!("{wish:?}");
                seen.insert(text.split('(').next().unwrap_or_default().to_owned());
            }
        }
        assert_eq!(seen.len(), 11, "{seen:?}");
    }
}
