//! What plans say about each pod, node and machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::{Home, Launch, Plan, PodRef};
use joiner_core::problem::{Node, NodePhase, Problem};

use super::{Decision, Decisions, Happened, Inner, Kind, Loop, Subject, Verdict};
use crate::context::{Context, Decide};
use crate::provision::sentence;
use crate::record::{Key, MachineRecord};
use crate::view::pods::PodKey;
use crate::view::problem::Snapshot;

/// A plan for pods that wait, and what came of it.
pub struct Provisioned<'a> {
    /// What was to be decided.
    pub problem: &'a Arc<Problem>,
    /// What was decided.
    pub plan: &'a Arc<Plan>,
    /// The pod behind each group of waiting pods.
    pub pending: &'a [Option<PodKey>],
    /// Machine objects that were written, by the position of their launch.
    pub made: &'a BTreeMap<usize, MachineRecord>,
    /// Pods that are left out, and why.
    pub ignored: &'a [(PodKey, String)],
}

/// Subjects of the pods of a reference; none for room that is kept free.
fn pod(one: PodRef, problem: &Problem, pending: &[Option<PodKey>]) -> Option<Subject> {
    let name: Name = match one.home {
        Home::Pending => pending
            .get(usize::try_from(one.group).ok()?)?
            .as_ref()?
            .to_string()
            .into(),
        // Pods of the view are called by namespace and name.
        Home::Node(_) => problem.pod_name(one)?,
    };
    Some(Subject::new(Kind::Pod, name))
}

/// A purchase, as the activity has it.
fn bought(
    launch: &Launch,
    machine: &Name,
    why: &str,
    decision: Option<u64>,
    at: Timestamp,
) -> Happened {
    Happened {
        number: 0,
        at,
        subject: Subject::new(Kind::Machine, machine.clone()),
        decision,
        warning: false,
        code: "Launch".into(),
        sentence: format!("is bought: {why}"),
        before: None,
        after: Some(launch.purchase.price.dollars()),
    }
}

impl Decisions {
    /// Pods were provided for.
    pub fn provisioned(&self, now: Timestamp, one: &Provisioned<'_>) {
        let Provisioned { problem, plan, .. } = *one;
        let mut inner = self.lock();
        let number = inner.decide(Loop::Provision, now, problem, plan);
        let bounds = &self.bounds;
        let named = |pods: &'_ [PodRef]| -> Vec<Subject> {
            let named = pods
                .iter()
                .map(|one_pod| pod(*one_pod, problem, one.pending));
            named.flatten().collect()
        };
        for (position, launch) in plan.launches.iter().enumerate() {
            let machine = one.made.get(&position).map(|record| &record.key.name);
            let verdict = match machine {
                Some(name) => Verdict::bought(launch, Some(name)),
                None => Verdict::not_bought(launch),
            };
            let mut about = named(&launch.pods);
            about.extend(machine.map(|name| Subject::new(Kind::Machine, name.clone())));
            inner.say(bounds, about, verdict, number, now);
        }
        for placement in &plan.placements {
            let verdict = Verdict::placed(&placement.node);
            inner.say(bounds, named(&placement.pods), verdict, number, now);
        }
        for unplaced in &plan.unplaced {
            let verdict = Verdict::unplaced(&unplaced.reason, problem);
            inner.say(bounds, named(&unplaced.pods), verdict, number, now);
        }
        for (key, why) in one.ignored {
            let subject = Subject::new(Kind::Pod, key.to_string());
            inner.say(bounds, [subject], Verdict::left_out(why), number, now);
        }
        for (position, machine) in one.made {
            if let Some(launch) = plan.launches.get(*position) {
                let (name, why) = (&machine.key.name, sentence(launch));
                inner.happen(&self.bounds, bought(launch, name, &why, Some(number), now));
            }
        }
        drop(inner);
        self.changed.send_modify(|count| *count += 1);
    }

    /// A machine was bought that no plan for pods that wait asked for: in place of another, or for a pool of fixed
    /// size. Why stands on its object.
    pub fn launched(&self, now: Timestamp, launch: &Launch, machine: &Name, why: Option<&Name>) {
        let why = why.map_or_else(|| sentence(launch), ToString::to_string);
        let verdict = Verdict {
            sentence: format!("machine {machine} is bought: {why}"),
            ..Verdict::bought(launch, Some(machine))
        };
        let mut inner = self.lock();
        let subject = Subject::new(Kind::Machine, machine.clone());
        inner.say(&self.bounds, [subject], verdict, 0, now);
        inner.happen(&self.bounds, bought(launch, machine, &why, None, now));
        drop(inner);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Nodes were looked at that might go.
    pub fn disrupted(
        &self,
        now: Timestamp,
        problem: &Arc<Problem>,
        plan: &Arc<Plan>,
        machines: &Arc<BTreeMap<Name, Key>>,
    ) {
        let mut inner = self.lock();
        let number = inner.decide(Loop::Disrupt, now, problem, plan);
        inner.machines = Some((now, machines.clone()));
        let nodes: BTreeMap<&Name, &Node> =
            problem.nodes.iter().map(|one| (&one.name, one)).collect();
        // What has not joined yet is known by its machine.
        let named = |name: &Name| {
            let coming = nodes
                .get(name)
                .is_some_and(|node| node.phase == NodePhase::InFlight);
            match machines.get(name) {
                Some(key) if coming => Subject::new(Kind::Machine, key.name.clone()),
                _ => Subject::new(Kind::Node, name.clone()),
            }
        };
        for kept in &plan.kept {
            let node = nodes.get(&kept.node);
            let pool = node.and_then(|node| node.pool.as_ref());
            let pool = pool.map(|pool| problem.title_of(pool));
            let verdict = Verdict::stays(kept, pool, node.and_then(|node| node.price));
            inner.say(&self.bounds, [named(&kept.node)], verdict, number, now);
        }
        for removal in &plan.removals {
            let pool = nodes.get(&removal.node).and_then(|node| node.pool.as_ref());
            let pool = pool.map(|pool| problem.title_of(pool));
            let verdict = Verdict::goes(removal, pool);
            let happened = Happened {
                number: 0,
                at: now,
                subject: named(&removal.node),
                decision: Some(number),
                warning: false,
                code: verdict.code.clone(),
                sentence: removal.reason.to_string(),
                before: verdict.evidence.before,
                after: verdict.evidence.after,
            };
            let about = [named(&removal.node)];
            // One that is decided again because it could not begin yet is told once.
            if inner.say(&self.bounds, about, verdict, number, now) > 0 {
                inner.happen(&self.bounds, happened);
            }
        }
        drop(inner);
        self.changed.send_modify(|count| *count += 1);
    }
}

impl Inner {
    /// Keeps a decision so that it can be replayed. Returns its number.
    fn decide(
        &mut self,
        kind: Loop,
        now: Timestamp,
        problem: &Arc<Problem>,
        plan: &Arc<Plan>,
    ) -> u64 {
        self.decided += 1;
        let decision = Decision {
            number: self.decided,
            at: now,
            problem: problem.clone(),
            plan: plan.clone(),
        };
        self.last.insert(kind, decision);
        self.decided
    }
}

impl Context {
    /// Decides once about the cluster as it stands and writes it down, for those who only look. Nothing is carried out.
    pub async fn judge(&self) {
        let now = self.now();
        let snapshot = self.snapshot();
        let Snapshot {
            problem,
            pending,
            machines,
            ignored,
        } = snapshot;
        if let Some((problem, plan)) = self.provide(problem.clone()).await {
            let made = BTreeMap::new();
            let one = Provisioned {
                problem: &Arc::new(problem),
                plan: &Arc::new(plan),
                pending: &pending,
                made: &made,
                ignored: &ignored,
            };
            self.decisions.provisioned(now, &one);
        }
        let disrupt = |decide: &dyn Decide, problem: &Problem| decide.disrupt(problem);
        if let Some((problem, plan)) = self.decide(problem, disrupt).await {
            let (problem, plan) = (Arc::new(problem), Arc::new(plan));
            self.decisions
                .disrupted(now, &problem, &plan, &Arc::new(machines));
        }
    }
}
