//! What a pod asks of the node itself: labels and taints. Pods that ask the same share one demand.

use crate::labels::{INITIALIZED, REGISTERED};
use crate::name::Name;
use crate::pack::compile::labels::Keys;
use crate::pack::dense::bits::Bits;
use crate::problem::{DaemonSet, NodeAffinityTerm, PodSpec};
use crate::requirement::{Requirement, RequirementError};
use crate::requirements::Requirements;
use crate::taints::{Effect, Taint, Toleration};

/// More combinations of volume places than this are not looked at: each volume multiplies them.
const MAX_ALTERNATIVES: usize = 64;

/// Which taints are tolerated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tolerated {
    /// All of them.
    All,
    /// Those that the tolerations cover and, if `prefer`, every `PreferNoSchedule`.
    These {
        tolerations: Vec<Toleration>,
        prefer: bool,
    },
}

impl Tolerated {
    /// The first taint that is not tolerated.
    pub(crate) fn refuses<'t>(&self, taints: &'t [Taint]) -> Option<&'t Taint> {
        match self {
            Tolerated::All => None,
            Tolerated::These {
                tolerations,
                prefer,
            } => crate::taints::untolerated(
                taints
                    .iter()
                    .filter(|taint| !*prefer || taint.effect != Effect::PreferNoSchedule),
                tolerations,
            ),
        }
    }
}

/// One of the terms must hold, and the taints be tolerated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Demand {
    pub(crate) terms: Vec<Requirements>,
    pub(crate) tolerated: Tolerated,
}

impl Demand {
    /// Selector and required affinity alone. An empty term matches nothing, as in Kubernetes.
    pub(crate) fn strict(spec: &PodSpec, tolerated: Tolerated) -> Result<Self, RequirementError> {
        let selector = Requirements::from_labels(&spec.node_selector);
        let mut terms = Vec::with_capacity(spec.required_affinity.len().max(1));
        for term in spec.required_affinity.iter().filter(|one| !one.is_empty()) {
            let mut all = Requirements::parse(term)?;
            all.require_all(&selector);
            terms.push(all);
        }
        if spec.required_affinity.is_empty() {
            terms.push(selector);
        }
        terms.retain(|term| term.contradiction().is_none());
        Ok(Demand { terms, tolerated })
    }

    /// Why no node at all can have what a pod asks for.
    pub(crate) fn contradiction(spec: &PodSpec) -> Option<String> {
        let terms = || spec.required_affinity.iter();
        if terms().len() > 0 && terms().all(Vec::is_empty) {
            return Some(
                "required node affinity has empty terms only, and these match no node: say what the node must be like, \
                 or leave it out"
                    .to_owned(),
            );
        }
        let mut together = Requirements::from_labels(&spec.node_selector);
        let places = spec.volumes.iter().filter_map(|one| one.topology.first());
        for term in terms()
            .find(|one| !one.is_empty())
            .into_iter()
            .chain(places)
        {
            together.require_all(&Requirements::parse(term).ok()?);
        }
        let key = together.contradiction()?;
        Some(format!(
            "nodeSelector, required node affinity and volumes together ask of label {key} what no node can have: take one \
             of them back"
        ))
    }

    /// The same, and one more term.
    pub(crate) fn and(mut self, term: &NodeAffinityTerm) -> Result<Self, RequirementError> {
        let more = Requirements::parse(term)?;
        for all in &mut self.terms {
            all.require_all(&more);
        }
        self.terms.retain(|term| term.contradiction().is_none());
        Ok(self)
    }

    /// The same, where every volume can be too. Each term is tried with each alternative of each volume; what
    /// contradicts itself or was there before is dropped at once, so that volumes which agree do not multiply.
    pub(crate) fn with_volumes(mut self, spec: &PodSpec) -> Result<Self, RequirementError> {
        for volume in &spec.volumes {
            if volume.topology.is_empty() {
                continue;
            }
            let mut product: Vec<Requirements> = Vec::new();
            for alternative in volume.topology.iter().filter(|one| !one.is_empty()) {
                let place = Requirements::parse(alternative)?;
                for term in self.terms.iter().take(MAX_ALTERNATIVES) {
                    let mut both = term.clone();
                    both.require_all(&place);
                    if both.contradiction().is_none() && !product.contains(&both) {
                        product.push(both);
                    }
                }
            }
            self.terms = product;
        }
        Ok(self)
    }

    /// What a daemon asks. The labels that a node gets on its way to being ready are taken as there.
    ///
    /// karpenter: pkg/controllers/provisioning/scheduling/scheduler.go, `isDaemonPodCompatible`
    pub(crate) fn daemon(daemon: &DaemonSet) -> Result<Self, RequirementError> {
        let tolerated = Tolerated::These {
            tolerations: daemon.spec.tolerations.clone(),
            prefer: true,
        };
        let mut demand = Demand::strict(&daemon.spec, tolerated)?;
        for term in &mut demand.terms {
            let kept = term.iter().filter(|(key, requirement)| {
                !([REGISTERED, INITIALIZED].contains(&&***key) && requirement.allows("true"))
            });
            let kept: Vec<(Name, Requirement)> = kept
                .map(|(key, requirement)| (key.clone(), requirement.clone()))
                .collect();
            *term = Requirements::new();
            for (key, requirement) in kept {
                term.require(&key, &requirement);
            }
        }
        Ok(demand)
    }

    /// Which of `places` (rows of label values) some term allows.
    pub(crate) fn admits<'v>(
        &self,
        keys: &Keys,
        places: &(impl ExactSizeIterator<Item = &'v [u32]> + Clone),
    ) -> Bits {
        let mut admitted = Bits::empty(places.len());
        for term in &self.terms {
            let tables: Vec<(usize, Vec<bool>)> = term
                .iter()
                .filter_map(|(key, requirement)| {
                    let id = keys.find(key)? as usize;
                    Some((id, keys.values[id].allowed(requirement)))
                })
                .collect();
            for (index, values) in places.clone().enumerate() {
                if tables
                    .iter()
                    .all(|(key, table)| table[values[*key] as usize])
                {
                    admitted.insert(index);
                }
            }
        }
        admitted
    }

    /// Whether the term's requirement on one key allows a value of that key, in some term.
    pub(crate) fn allows_value(&self, key: &str, value: Option<&str>) -> bool {
        self.terms.iter().any(|term| {
            term.get(key).is_none_or(|requirement| match value {
                Some(value) => requirement.allows(value),
                None => requirement.allows_absence(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Volume;
    use crate::requirement::{Expression, Operator};

    fn zone_in(values: &[&str]) -> NodeAffinityTerm {
        vec![Expression::new("zone", Operator::In, values)]
    }

    fn admitted(demand: &Demand, zones: &[&str]) -> Vec<usize> {
        let mut keys = Keys::default();
        let key = keys.track(&"zone".into()) as usize;
        let rows: Vec<[u32; 1]> = zones
            .iter()
            .map(|zone| [keys.values[key].id(&Name::from(*zone))])
            .collect();
        demand
            .admits(&keys, &rows.iter().map(|row| &row[..]))
            .iter()
            .collect()
    }

    #[test]
    fn any_required_term_will_do() {
        let spec = PodSpec {
            required_affinity: vec![zone_in(&["a"]), zone_in(&["b"])],
            ..PodSpec::default()
        };
        let demand = Demand::strict(&spec, Tolerated::All).unwrap();
        assert_eq!(admitted(&demand, &["a", "b", "c"]), [0, 1]);
        let narrowed = demand.and(&zone_in(&["b", "c"])).unwrap();
        assert_eq!(admitted(&narrowed, &["a", "b", "c"]), [1]);
    }

    #[test]
    fn a_volume_can_be_where_any_of_its_terms_says() {
        let volume = |zones: &[&str]| Volume {
            claim: "data".into(),
            driver: "".into(),
            topology: zones.iter().map(|zone| zone_in(&[zone])).collect(),
        };
        let spec = PodSpec {
            volumes: vec![volume(&["a", "b"]), volume(&["b", "c"])],
            ..PodSpec::default()
        };
        let demand = Demand::strict(&spec, Tolerated::All)
            .and_then(|demand| demand.with_volumes(&spec))
            .unwrap();
        assert_eq!(admitted(&demand, &["a", "b", "c"]), [1]);
    }
}
