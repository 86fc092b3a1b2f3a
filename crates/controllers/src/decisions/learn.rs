//! What plans say about each pod, node and machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::{Home, Launch, Plan, PodRef, Reason};
use joiner_core::problem::{Node, Problem};

use super::{Decision, Decisions, Happened, Inner, Kind, Loop, Subject, Verdict};
use crate::context::{Context, Decide};
use crate::provision::sentence;
use crate::record::{Key, MachineRecord};
use crate::view::pods::PodKey;
use crate::view::problem::Snapshot;

/// A plan for pods that wait, and what came of it.
pub(crate) struct Provisioned<'a> {
    /// What was to be decided.
    pub(crate) problem: &'a Problem,
    /// What was decided.
    pub(crate) plan: &'a Plan,
    /// The pod behind each group of waiting pods.
    pub(crate) pending: &'a [Option<PodKey>],
    /// Machine objects that were written, by the position of their launch.
    pub(crate) made: &'a BTreeMap<usize, MachineRecord>,
    /// Pods that are left out, and why.
    pub(crate) ignored: &'a [(PodKey, String)],
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
    machine: &MachineRecord,
    decision: Option<u64>,
    at: Timestamp,
) -> Happened {
    Happened {
        number: 0,
        at,
        subject: Subject::new(Kind::Machine, machine.key.name.clone()),
        decision,
        warning: false,
        code: "Launch".into(),
        sentence: format!("is bought: {}", sentence(launch)),
        before: None,
        after: Some(launch.purchase.price.dollars()),
    }
}

impl Decisions {
    /// Pods were provided for.
    pub(crate) fn provisioned(&self, now: Timestamp, one: &Provisioned<'_>) {
        let Provisioned { problem, plan, .. } = *one;
        let mut inner = self.lock();
        let number = inner.decide(Loop::Provision, now, problem, plan);
        let mut say = |subject: Option<Subject>, verdict: &Arc<Verdict>| {
            if let Some(subject) = subject {
                inner.say(&self.bounds, subject, verdict.clone(), now);
            }
        };
        let named = |pod_ref: &PodRef| pod(*pod_ref, problem, one.pending);
        for (position, launch) in plan.launches.iter().enumerate() {
            let machine = one.made.get(&position).map(|record| &record.key.name);
            let mut verdict = match machine {
                Some(name) => Verdict::bought(launch, Some(name)),
                None => Verdict::not_bought(launch),
            };
            verdict.decision = number;
            let verdict = Arc::new(verdict);
            say(
                machine.map(|name| Subject::new(Kind::Machine, name.clone())),
                &verdict,
            );
            launch.pods.iter().for_each(|pod| say(named(pod), &verdict));
        }
        for placement in &plan.placements {
            let mut verdict = Verdict::placed(&placement.node);
            verdict.decision = number;
            let verdict = Arc::new(verdict);
            placement
                .pods
                .iter()
                .for_each(|pod| say(named(pod), &verdict));
        }
        for unplaced in &plan.unplaced {
            let mut verdict = Verdict::unplaced(&unplaced.reason, problem);
            verdict.decision = number;
            let verdict = Arc::new(verdict);
            unplaced
                .pods
                .iter()
                .for_each(|pod| say(named(pod), &verdict));
        }
        for (key, why) in one.ignored {
            let verdict = Arc::new(Verdict::left_out(why));
            say(Some(Subject::new(Kind::Pod, key.to_string())), &verdict);
        }
        for (position, machine) in one.made {
            if let Some(launch) = plan.launches.get(*position) {
                inner.happen(&self.bounds, bought(launch, machine, Some(number), now));
            }
        }
        drop(inner);
        self.changed.send_modify(|count| *count += 1);
    }

    /// A machine was bought that no plan for pods that wait asked for: in place of another, or for a pool of fixed size.
    pub(crate) fn launched(&self, now: Timestamp, launch: &Launch, machine: &MachineRecord) {
        let mut inner = self.lock();
        let subject = Subject::new(Kind::Machine, machine.key.name.clone());
        let verdict = Verdict::bought(launch, Some(&machine.key.name));
        inner.say(&self.bounds, subject, Arc::new(verdict), now);
        inner.happen(&self.bounds, bought(launch, machine, None, now));
        drop(inner);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Nodes were looked at that might go.
    pub(crate) fn disrupted(
        &self,
        now: Timestamp,
        problem: &Problem,
        plan: &Plan,
        machines: &BTreeMap<Name, Key>,
    ) {
        let mut inner = self.lock();
        let number = inner.decide(Loop::Disrupt, now, problem, plan);
        let nodes: BTreeMap<&Name, &Node> =
            problem.nodes.iter().map(|one| (&one.name, one)).collect();
        // A node that is not in use yet is known by its machine.
        let named = |name: &Name| match machines.get(name) {
            Some(key) if *key.to_string() == **name => {
                Subject::new(Kind::Machine, key.name.clone())
            }
            _ => Subject::new(Kind::Node, name.clone()),
        };
        for kept in &plan.kept {
            let node = nodes.get(&kept.node);
            let pool = node.and_then(|node| node.pool.as_ref());
            let pool = pool.map(|pool| problem.title_of(pool));
            let mut verdict = Verdict::stays(kept, pool, node.and_then(|node| node.price));
            verdict.decision = number;
            inner.say(&self.bounds, named(&kept.node), Arc::new(verdict), now);
        }
        for removal in &plan.removals {
            let pool = nodes.get(&removal.node).and_then(|node| node.pool.as_ref());
            let pool = pool.map(|pool| problem.title_of(pool));
            let mut verdict = Verdict::goes(removal, pool);
            verdict.decision = number;
            let (before, after) = match &removal.reason {
                Reason::Disrupted { before, after, .. } => {
                    (Some(before.dollars()), Some(after.dollars()))
                }
                _ => (None, None),
            };
            let happened = Happened {
                number: 0,
                at: now,
                subject: named(&removal.node),
                decision: Some(number),
                warning: false,
                code: verdict.code.clone(),
                sentence: removal.reason.to_string(),
                before,
                after,
            };
            let subject = named(&removal.node);
            let known = inner.verdicts.get(&subject).and_then(|all| all.back());
            // One that is decided again because it could not begin yet is told once.
            let news = known.is_none_or(|last| !last.verdict.same(&verdict));
            inner.say(&self.bounds, subject, Arc::new(verdict), now);
            if news {
                inner.happen(&self.bounds, happened);
            }
        }
        drop(inner);
        self.changed.send_modify(|count| *count += 1);
    }
}

impl Inner {
    /// Keeps a decision so that it can be replayed. Returns its number.
    fn decide(&mut self, kind: Loop, now: Timestamp, problem: &Problem, plan: &Plan) -> u64 {
        self.decided += 1;
        let decision = Decision {
            number: self.decided,
            at: now,
            problem: Arc::new(problem.clone()),
            plan: Arc::new(plan.clone()),
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
                problem: &problem,
                plan: &plan,
                pending: &pending,
                made: &made,
                ignored: &ignored,
            };
            self.decisions.provisioned(now, &one);
        }
        let disrupt = |decide: &dyn Decide, problem: &Problem| decide.disrupt(problem);
        if let Some((problem, plan)) = self.decide(problem, disrupt).await {
            self.decisions.disrupted(now, &problem, &plan, &machines);
        }
    }
}
