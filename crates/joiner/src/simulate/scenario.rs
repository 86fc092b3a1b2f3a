//! What a seed stands for: clouds, pools, workloads, and what users do to them over the hours.

use std::ops::RangeInclusive;
use std::time::Duration;

use joiner_controllers::dialect::ClassKind;
use joiner_sim::audit::Family;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::clouds::CloudPlan;
use super::objects::{self, Workload};
use super::seats::{Tamper, seats};

/// Something that a user, or the world, does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Creates an object.
    Create(&'static str, &'static str, Value),
    /// Scales a deployment.
    Scale(String, u32),
    /// Gives a deployment's pods a new template.
    Rollout(String, Value),
    /// Gives up the protection of a deployment's pods: a new template, and the protected ones go at once.
    Unprotect(String, Value),
    /// Changes a pool, by a JSON merge.
    EditPool(&'static str, String, Value),
    /// Deletes an object, if it is there.
    Delete(&'static str, String),
    /// The cloud asks a machine back; the number chooses which.
    Interrupt(usize),
    /// A machine dies without a word.
    Kill(usize),
    /// A machine object is deleted by hand.
    DeleteMachine(usize),
    /// A node is deleted by hand.
    DeleteNode(usize),
    /// All machine objects of a NodePool that would expire one day are deleted.
    DeleteExpiring(String),
}

/// What a seed stands for.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Clouds.
    pub(crate) clouds: Vec<CloudPlan>,
    /// What is there in the beginning.
    pub(crate) beginning: Vec<Action>,
    /// What happens when, in order.
    pub(crate) actions: Vec<(Duration, Action)>,
    /// What is put right when the storm is over, so that everything can settle.
    pub(crate) end: Vec<Action>,
}

impl Scenario {
    /// The world of a seed, for a storm of some length.
    pub(crate) fn draw(seed: u64, storm: Duration, tamper: Tamper) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let clouds = seats()
            .flat_map(|seat| (seat.clouds)(&mut random, seed, tamper))
            .collect();
        let mut draw = Draw {
            random,
            storm,
            dedicated: Vec::new(),
            scenario: Scenario {
                clouds,
                beginning: Vec::new(),
                actions: Vec::new(),
                end: Vec::new(),
            },
        };
        for seat in seats() {
            (seat.pools)(&mut draw);
            (seat.foreigners)(&mut draw);
        }
        draw.daemons();
        draw.deployments();
        draw.jobs();
        draw.troubles();
        let mut scenario = draw.scenario;
        scenario.actions.sort_by_key(|(at, _)| *at);
        scenario
    }
}

/// Draws a world.
pub(crate) struct Draw {
    random: ChaCha8Rng,
    storm: Duration,
    /// Values of the taint `dedicated`, and of the label `team`, of nodes that keep ordinary pods away.
    dedicated: Vec<&'static str>,
    scenario: Scenario,
}

impl Draw {
    /// One of several.
    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.random_range(0..of.len())]
    }

    /// Once in so many times.
    pub(crate) fn chance(&mut self, one_in: u32) -> bool {
        self.random.random_ratio(1, one_in)
    }

    /// A number within bounds.
    pub(crate) fn between(&mut self, bounds: RangeInclusive<u32>) -> u32 {
        self.random.random_range(bounds)
    }

    /// Names of the classes of a kind.
    pub(crate) fn classes(&self, kind: &ClassKind) -> Vec<String> {
        let own = self.scenario.clouds.iter();
        own.filter(|one| one.kind == *kind)
            .map(|one| one.class.clone())
            .collect()
    }

    /// Some moment of the storm, in whole seconds.
    pub(crate) fn moment(&mut self) -> Duration {
        Duration::from_secs(self.random.random_range(60..self.storm.as_secs().max(120)))
    }

    /// Something that is there in the beginning.
    pub(crate) fn create(
        &mut self,
        resource: &'static str,
        namespace: &'static str,
        object: Value,
    ) {
        let action = Action::Create(resource, namespace, object);
        self.scenario.beginning.push(action);
    }

    /// Something that happens then.
    pub(crate) fn at(&mut self, at: Duration, action: Action) {
        self.scenario.actions.push((at, action));
    }

    /// Something that is done when the storm is over.
    pub(crate) fn at_the_end(&mut self, action: Action) {
        self.scenario.end.push(action);
    }

    /// Nodes of some pool keep pods away that do not tolerate `dedicated` with this value, and bear it as `team`.
    pub(crate) fn keeps_away(&mut self, value: &'static str) {
        self.dedicated.push(value);
    }

    /// What becomes of a pool: its template changes, it is deleted. A pool of a namespace is named with it.
    pub(crate) fn edits(
        &mut self,
        family: &Family,
        name: &str,
        number: u32,
        edit: fn(&str) -> Value,
    ) {
        for generation in 0..self.random.random_range(0..3) {
            let edit = edit(&format!("g{generation}"));
            let at = self.moment();
            self.at(at, Action::EditPool(family.pools, name.to_owned(), edit));
        }
        if number > 0 && self.chance(4) {
            let at = self.moment();
            self.at(at, Action::Delete(family.pools, name.to_owned()));
        }
    }

    fn daemons(&mut self) {
        for number in 0..self.random.random_range(0..3) {
            let daemon = objects::daemon(&format!("agent-{number}"), "50m", "64Mi");
            self.create("daemonsets.apps", "default", daemon);
        }
    }

    fn deployments(&mut self) {
        self.create("storageclasses.storage.k8s.io", "", objects::disks());
        for number in 0..self.random.random_range(2..=5_u32) {
            let name = format!("app-{number}");
            let mut workload = Workload {
                cpu_millis: *self.one(&[100, 250, 500, 900, 1700]),
                memory_mib: *self.one(&[128, 256, 512, 1500]),
                ..Workload::named(&name)
            };
            let most = self.rules(&mut workload, number);
            if self.chance(6) {
                workload.do_not_disrupt = true;
                let mut free = workload.clone();
                free.do_not_disrupt = false;
                let freed = free.template();
                self.scenario
                    .end
                    .push(Action::Unprotect(name.clone(), freed));
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

    /// What a deployment asks of its nodes. Says how many pods it has at most.
    fn rules(&mut self, workload: &mut Workload, number: u32) -> u32 {
        // Pods that must stay apart want a node each, or even a zone.
        let few = 4;
        let most = 12;
        match self.random.random_range(0..16) {
            0 => {
                let zone = *self.one(&["sim-b", "eu-west-par-a"]);
                workload.selects(objects::ZONE, zone);
            }
            1 => workload.selects("karpenter.sh/capacity-type", "on-demand"),
            2 | 6 if !self.dedicated.is_empty() => {
                let dedicated = self.dedicated.clone();
                let team = *self.one(&dedicated);
                workload.tolerates("dedicated", team);
                workload.selects("team", team);
            }
            3 => {
                workload.apart = Some(objects::HOST);
                return few;
            }
            4 => workload.spread = true,
            5 => workload.stop_seconds = 45,
            7 | 8 => workload.even = Some(objects::ZONE),
            9 => {
                workload.even = Some(objects::HOST);
                return few;
            }
            10 => {
                workload.apart = Some(objects::ZONE);
                return few;
            }
            11 if number > 0 => workload.near = Some("app-0".to_owned()),
            12 => {
                let zones =
                    *self.one(&[&["sim-a", "sim-b", "eu-west-par-b"][..], &["sim-c", "nova"]]);
                workload.wants = vec![
                    json!({"key": objects::ZONE, "operator": "In", "values": zones}),
                    json!({"key": "kubernetes.io/arch", "operator": "Exists"}),
                ];
                if self.chance(3) {
                    let spot = json!({"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]});
                    workload.wants.push(spot);
                }
            }
            13 | 14 => {
                let claim = format!("disk-{number}");
                self.create("persistentvolumeclaims", "default", objects::disk(&claim));
                workload.volume = Some(claim);
                return few;
            }
            _ => {}
        }
        most
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
            self.at(at, Action::Scale(name.clone(), replicas));
        }
        if self.chance(2) {
            let mut next = workload.clone();
            next.version = 2;
            let at = self.moment();
            self.at(at, Action::Rollout(name, next.template()));
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
            self.at(at, Action::Create("jobs.batch", "default", job));
        }
    }

    /// Hands that meddle and machines that fail.
    fn troubles(&mut self) {
        let hours = self.storm.as_secs().div_ceil(3600);
        for _ in 0..self.random.random_range(0..=hours * 2) {
            let at = self.moment();
            let which = self.random.random_range(0..100);
            let action = match self.random.random_range(0..5) {
                0 | 1 => Action::Interrupt(which),
                2 => Action::Kill(which),
                3 => Action::DeleteMachine(which),
                _ => Action::DeleteNode(which),
            };
            self.at(at, action);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_stands_for_the_same_world() {
        let draw = |seed| {
            let scenario = Scenario::draw(seed, Duration::from_hours(4), None);
            (scenario.beginning, scenario.actions, scenario.end)
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn every_kind_of_action_happens_in_some_world() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let scenario = Scenario::draw(seed, Duration::from_hours(4), None);
            let actions = scenario.actions.iter().map(|(_, action)| action);
            for action in actions.chain(&scenario.beginning).chain(&scenario.end) {
                let text = format!("{action:?}");
                seen.insert(text.split('(').next().unwrap_or_default().to_owned());
            }
        }
        assert_eq!(seen.len(), 11, "{seen:?}");
    }
}
