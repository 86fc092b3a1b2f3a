//! Label values as numbers, for the keys that some pod or daemon asks about.

use crate::labels;
use crate::name::Name;
use crate::pack::dense::intern::Interner;
use crate::problem::{NodeAffinityTerm, PodSpec};
use crate::requirement::Requirement;

/// The label is not there.
pub(crate) const ABSENT: u32 = 0;
/// The first number of a real value.
const FIRST: u32 = 1;

/// Values seen for one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelValues {
    names: Interner<Name>,
}

impl LabelValues {
    pub(crate) fn id(&mut self, value: &Name) -> u32 {
        if let Some(id) = self.names.find(value) {
            return FIRST + id;
        }
        FIRST + self.names.id(value.clone())
    }

    pub(crate) fn name(&self, id: u32) -> Option<&Name> {
        (id >= FIRST).then(|| self.names.get(id - FIRST))
    }

    /// One more than the highest number in use.
    pub(crate) fn count(&self) -> usize {
        FIRST as usize + self.names.len()
    }

    /// Which value numbers a requirement allows.
    pub(crate) fn allowed(&self, requirement: &Requirement) -> Vec<bool> {
        let mut allowed = vec![requirement.allows_absence()];
        allowed.extend(self.names.iter().map(|value| requirement.allows(value)));
        allowed
    }
}

/// Keys that matter and the values seen for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    keys: Interner<Name>,
    pub(crate) values: Vec<LabelValues>,
}

impl Keys {
    /// Every key that a pod or daemon of the problem asks about.
    pub(crate) fn collect<'p>(specs: impl Iterator<Item = &'p PodSpec>) -> Self {
        let mut keys = Keys::default();
        for spec in specs {
            for key in spec.node_selector.keys() {
                keys.track(key);
            }
            for term in &spec.required_affinity {
                keys.track_term(term);
            }
            for weighted in &spec.preferred_affinity {
                keys.track_term(&weighted.term);
            }
            for volume in &spec.volumes {
                for term in &volume.topology {
                    keys.track_term(term);
                }
            }
            for spread in &spec.spread {
                keys.track(&spread.topology_key);
            }
            let preferred = [
                &spec.preferred_pod_affinity,
                &spec.preferred_pod_anti_affinity,
            ];
            let terms = [&spec.affinity, &spec.anti_affinity];
            let all = terms.into_iter().flatten();
            for term in all.chain(preferred.into_iter().flatten().map(|one| &one.term)) {
                keys.track(&term.topology_key);
            }
        }
        keys
    }

    fn track_term(&mut self, term: &NodeAffinityTerm) {
        for expression in term {
            self.track(&expression.key);
        }
    }

    pub(crate) fn track(&mut self, key: &Name) -> u32 {
        let canonical = labels::canonical(key);
        if let Some(id) = self.keys.find(canonical) {
            return id;
        }
        self.values.push(LabelValues::default());
        self.keys.id(canonical.into())
    }

    pub(crate) fn find(&self, key: &str) -> Option<u32> {
        self.keys.find(labels::canonical(key))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Name> {
        self.keys.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_become_tables_over_the_values_seen() {
        let mut values = LabelValues::default();
        let a = values.id(&"a".into());
        let b = values.id(&"b".into());
        let table = values.allowed(&Requirement::none_of(["a".into()]));
        assert!(!table[a as usize] && table[b as usize] && table[ABSENT as usize]);
        let table = values.allowed(&Requirement::is("a".into()));
        assert!(table[a as usize] && !table[ABSENT as usize]);
        assert_eq!(values.name(b).map(|name| &**name), Some("b"));
    }
}
