//! A problem without the names of its owner, so that it can be sent with a bug report. Names keep their order, because
//! ties are broken by name: the anonymous problem has the same plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_core::labels;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{AffinityTerm, Pod, PodSpec, Problem};
use joiner_core::requirement::Expression;
use joiner_core::selector::LabelSelector;

/// What a name is the name of: equal names of one class stay equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Node,
    Pod,
    Namespace,
    Pool,
    Catalog,
    Key,
    Value,
    Claim,
    Budget,
    Host,
}

impl Class {
    fn word(self) -> &'static str {
        match self {
            Class::Node => "node",
            Class::Pod => "pod",
            Class::Namespace => "namespace",
            Class::Pool => "pool",
            Class::Catalog => "catalog",
            Class::Key => "key",
            Class::Value => "value",
            Class::Claim => "claim",
            Class::Budget => "budget",
            Class::Host => "host",
        }
    }
}

/// Keys whose values are those of clouds, not of the owner.
const PUBLIC: [&str; 9] = [
    labels::ZONE,
    labels::REGION,
    labels::ARCH,
    labels::OS,
    labels::WINDOWS_BUILD,
    labels::INSTANCE_TYPE,
    labels::CAPACITY_TYPE,
    labels::REGISTERED,
    labels::INITIALIZED,
];

/// Domains whose keys are the same in every cluster.
const DOMAINS: [&str; 4] = ["kubernetes.io", "karpenter.sh", "k8s.io", "joiner.dev"];

/// Numbers in the order of names, first collected, then given.
#[derive(Default)]
struct Names {
    known: BTreeMap<Class, BTreeSet<Name>>,
    given: Option<BTreeMap<(Class, Name), Name>>,
    specs: BTreeMap<usize, Arc<PodSpec>>,
}

/// The same problem under made-up names. Texts are left out.
pub fn anonymous(problem: &Problem) -> Problem {
    let mut names = Names::default();
    names.problem(&mut problem.clone());
    let mut given = BTreeMap::new();
    for (class, known) in &names.known {
        let width = known.len().to_string().len();
        for (position, name) in known.iter().enumerate() {
            let made_up = format!("{}-{position:0width$}", class.word());
            given.insert((*class, name.clone()), made_up.into());
        }
    }
    names.given = Some(given);
    names.specs.clear();
    let mut result = problem.clone();
    names.problem(&mut result);
    result
}

impl Names {
    fn name(&mut self, class: Class, name: &mut Name) {
        if name.is_empty() {
            return;
        }
        match &self.given {
            None => {
                self.known.entry(class).or_default().insert(name.clone());
            }
            Some(given) => {
                if let Some(made_up) = given.get(&(class, name.clone())) {
                    *name = made_up.clone();
                }
            }
        }
    }

    fn key(&mut self, key: &mut Name) {
        let domain = key.split('/').next().unwrap_or_default();
        let own = |known: &&str| domain == *known || domain.ends_with(&format!(".{known}"));
        let shared = key.contains('/') && DOMAINS.iter().any(own);
        if !shared && **key != *labels::NAME_FIELD {
            self.name(Class::Key, key);
        }
    }

    fn value(&mut self, key: &str, value: &mut Name) {
        match labels::canonical(key) {
            labels::HOSTNAME | labels::NAME_FIELD => self.name(Class::Node, value),
            labels::NODEPOOL => self.name(Class::Pool, value),
            "kubernetes.io/metadata.name" => self.name(Class::Namespace, value),
            key if PUBLIC.contains(&key) => {}
            _ if value.parse::<i64>().is_ok() || matches!(&**value, "true" | "false") => {}
            _ => self.name(Class::Value, value),
        }
    }

    fn labels(&mut self, all: &mut Labels) {
        let old = std::mem::take(all);
        for (mut key, mut value) in old {
            self.value(&key, &mut value);
            self.key(&mut key);
            all.insert(key, value);
        }
    }

    fn expressions<'e>(&mut self, all: impl IntoIterator<Item = &'e mut Expression>) {
        for one in all {
            for value in &mut one.values {
                self.value(&one.key, value);
            }
            self.key(&mut one.key);
        }
    }

    fn selector(&mut self, selector: Option<&mut LabelSelector>) {
        if let Some(selector) = selector {
            self.labels(&mut selector.match_labels);
            self.expressions(&mut selector.match_expressions);
        }
    }

    fn near(&mut self, term: &mut AffinityTerm) {
        self.key(&mut term.topology_key);
        self.selector(term.selector.as_mut());
        self.selector(term.namespace_selector.as_mut());
        for namespace in &mut term.namespaces {
            self.name(Class::Namespace, namespace);
        }
    }

    fn spec(&mut self, shared: &mut Arc<PodSpec>) {
        let at = Arc::as_ptr(shared).addr();
        if let Some(known) = self.specs.get(&at) {
            *shared = known.clone();
            return;
        }
        let mut spec = PodSpec::clone(shared);
        self.name(Class::Namespace, &mut spec.namespace);
        self.labels(&mut spec.labels);
        self.labels(&mut spec.node_selector);
        self.expressions(spec.required_affinity.iter_mut().flatten());
        let preferred = spec.preferred_affinity.iter_mut();
        self.expressions(preferred.flat_map(|one| &mut one.term));
        for toleration in &mut spec.tolerations {
            self.value(&toleration.key, &mut toleration.value);
            self.key(&mut toleration.key);
        }
        for spread in &mut spec.spread {
            self.key(&mut spread.topology_key);
            self.selector(spread.selector.as_mut());
            spread
                .match_label_keys
                .iter_mut()
                .for_each(|key| self.key(key));
        }
        let required = spec.affinity.iter_mut().chain(&mut spec.anti_affinity);
        required.for_each(|term| self.near(term));
        let preferred = spec.preferred_pod_affinity.iter_mut();
        let preferred = preferred.chain(&mut spec.preferred_pod_anti_affinity);
        preferred.for_each(|one| self.near(&mut one.term));
        for volume in &mut spec.volumes {
            self.name(Class::Claim, &mut volume.claim);
            self.expressions(volume.topology.iter_mut().flatten());
        }
        // Kept alive by the problem that is copied from, so an address stands for one spec.
        let spec = Arc::new(spec);
        self.specs.insert(at, spec.clone());
        *shared = spec;
    }

    fn pod(&mut self, pod: &mut Pod) {
        self.name(Class::Pod, &mut pod.name);
        self.spec(&mut pod.spec);
    }

    fn problem(&mut self, problem: &mut Problem) {
        "anonymous".clone_into(&mut problem.name);
        for catalog in &mut problem.catalogs {
            self.name(Class::Catalog, &mut catalog.name);
            for kind in &mut catalog.types {
                self.labels(&mut kind.labels);
            }
            for range in &mut catalog.ranges {
                self.labels(&mut range.labels);
                for host in &mut range.hosts {
                    self.name(Class::Host, &mut host.name);
                    self.name(Class::Host, &mut host.stock);
                }
            }
        }
        for pool in &mut problem.pools {
            self.name(Class::Pool, &mut pool.name);
            if let Some(said) = &mut pool.nodepool {
                self.name(Class::Pool, said);
            }
            self.name(Class::Catalog, &mut pool.catalog);
            self.labels(&mut pool.labels);
            self.expressions(&mut pool.requirements);
            for taint in pool.taints.iter_mut().chain(&mut pool.startup_taints) {
                self.value(&taint.key, &mut taint.value);
                self.key(&mut taint.key);
            }
            pool.closed = pool.closed.take().map(|_| "closed".to_owned());
        }
        for set in &mut problem.daemon_sets {
            self.name(Class::Pod, &mut set.name);
            self.spec(&mut set.spec);
        }
        problem.pods.iter_mut().for_each(|pod| self.pod(pod));
        for node in &mut problem.nodes {
            self.name(Class::Node, &mut node.name);
            if let Some(pool) = &mut node.pool {
                self.name(Class::Pool, pool);
            }
            self.labels(&mut node.labels);
            for taint in node.taints.iter_mut().chain(&mut node.startup_taints) {
                self.value(&taint.key, &mut taint.value);
                self.key(&mut taint.key);
            }
            node.pods.iter_mut().for_each(|pod| self.pod(pod));
            node.drifted = node.drifted.take().map(|_| "drifted".to_owned());
        }
        for budget in &mut problem.pod_disruption_budgets {
            self.name(Class::Namespace, &mut budget.namespace);
            self.name(Class::Budget, &mut budget.name);
            self.selector(budget.selector.as_mut());
        }
        let namespaces = std::mem::take(&mut problem.namespaces);
        for (mut name, mut all) in namespaces {
            self.name(Class::Namespace, &mut name);
            self.labels(&mut all);
            problem.namespaces.insert(name, all);
        }
    }
}
