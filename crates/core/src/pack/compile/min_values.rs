//! `minValues` of pools: the types left for a machine must offer so many different values of a key.
//!
//! karpenter: pkg/cloudprovider/types.go, `SatisfiesMinValues`

use crate::pack::compile::ids::OfferId;
use crate::pack::dense::typed::IdVec;
use smallvec::SmallVec;

use crate::labels;
use crate::name::Name;
use crate::pack::compile::Compiled;
use crate::pack::compile::columns::Column;
use crate::pack::compile::offers::{Item, Offer, PoolTerms};
use crate::pack::dense::intern::{FixedMap, Interner};
use crate::pack::dense::vector::Vector;
use crate::plan::{Launch, Purchase};
use crate::problem::{MinValuesPolicy, PoolId, Problem};

/// A key of which a pool wants several values.
#[derive(Clone, Debug)]
struct MinValue {
    key: Name,
    least: usize,
}

/// What pools ask for, and what columns offer.
#[derive(Clone, Debug, Default)]
pub(crate) struct MinValues {
    /// By pool; empty for pools without.
    pools: IdVec<PoolId, Vec<MinValue>>,
    /// Values of a type, by pool and type, in the order of the pool's keys.
    values: FixedMap<(PoolId, Item), Vec<SmallVec<[u32; 4]>>>,
}

impl MinValues {
    /// What pools ask for; nothing if the settings let them do with less.
    pub(crate) fn new(problem: &Problem, terms: &[PoolTerms]) -> Self {
        let mut pools = IdVec::filled(Vec::new(), problem.pools.len());
        if problem.settings.min_values == MinValuesPolicy::Strict {
            for one in terms {
                let wanted = one.min_values.iter().map(|(key, least)| MinValue {
                    key: labels::canonical(key).into(),
                    least: *least as usize,
                });
                pools[one.pool] = wanted.collect();
            }
        }
        MinValues {
            pools,
            values: FixedMap::default(),
        }
    }

    /// Learns what the types of these offers have.
    pub(crate) fn learn(&mut self, problem: &Problem, offers: &[Offer]) {
        let mut names: Interner<Name> = Interner::default();
        for offer in offers {
            let key = (offer.pool, kind(&offer.item));
            if self.asks(offer.pool) && !self.values.contains_key(&key) {
                let wanted = self.pools[offer.pool].iter();
                let values = wanted.map(|choice| {
                    let values = values_of(problem, offer.catalog, &offer.item, &choice.key);
                    values.into_iter().map(|value| names.id(value)).collect()
                });
                let values = values.collect();
                self.values.insert(key, values);
            }
        }
    }

    /// Whether a pool has any.
    pub(crate) fn asks(&self, pool: PoolId) -> bool {
        !self.pools[pool].is_empty()
    }

    /// Whether types offer what a pool asks for.
    pub(crate) fn suffice<'a>(&self, pool: PoolId, items: impl Iterator<Item = &'a Item>) -> bool {
        let wanted = &self.pools[pool];
        let mut seen: Vec<SmallVec<[u32; 8]>> = vec![SmallVec::new(); wanted.len()];
        let mut open = wanted.iter().filter(|choice| choice.least > 0).count();
        if open == 0 {
            return true;
        }
        for item in items {
            let Some(values) = self.values.get(&(pool, kind(item))) else {
                continue;
            };
            for ((seen, values), choice) in seen.iter_mut().zip(values).zip(wanted) {
                for value in values {
                    if !seen.contains(value) {
                        seen.push(*value);
                        open -= usize::from(seen.len() == choice.least);
                    }
                }
            }
            if open == 0 {
                return true;
            }
        }
        false
    }

    /// In words, for reasons.
    pub(crate) fn describe(&self, pool: PoolId) -> String {
        let wanted = self.pools[pool].iter();
        let wanted: Vec<String> = wanted
            .map(|choice| format!("{} values of {}", choice.least, choice.key))
            .collect();
        format!(
            "minValues: the types left must offer {}",
            wanted.join(" and ")
        )
    }
}

/// The same for all offerings of a type.
fn kind(item: &Item) -> Item {
    match item {
        Item::Fixed { instance_type, .. } => Item::Fixed {
            instance_type: *instance_type,
            offering: 0,
        },
        Item::Custom { range, .. } => Item::Custom {
            range: *range,
            host: 0,
        },
    }
}

/// The values of a key that a type offers, in whatever zone or way of paying.
fn values_of(problem: &Problem, catalog: u32, item: &Item, key: &str) -> Vec<Name> {
    let catalog = problem.catalog_at(catalog);
    let labelled = |own: &crate::name::Labels| {
        let own = own.iter().find(|(name, _)| labels::canonical(name) == key);
        own.map(|(_, value)| value.clone()).into_iter().collect()
    };
    match *item {
        Item::Fixed { instance_type, .. } => {
            let one = &catalog.types[instance_type as usize];
            let offerings = one.offerings.iter();
            match key {
                labels::INSTANCE_TYPE => vec![one.name.clone()],
                labels::ZONE => offerings.map(|offering| offering.zone.clone()).collect(),
                labels::CAPACITY_TYPE => offerings
                    .map(|offering| Name::from(offering.capacity_type.to_string()))
                    .collect(),
                _ => labelled(&one.labels),
            }
        }
        Item::Custom { range, .. } => {
            let range = &catalog.ranges[range as usize];
            match key {
                labels::INSTANCE_TYPE => vec![range.name.clone()],
                _ => labelled(&range.labels),
            }
        }
    }
}

/// Whether columns that hold a load offer what a pool asks for.
pub(crate) fn columns_meet_min_values<'a>(
    min_values: &MinValues,
    offers: &IdVec<OfferId, Offer>,
    pool: PoolId,
    columns: impl Iterator<Item = &'a Column>,
    load: &Vector,
) -> bool {
    let fitting = columns.filter(|column| column.pool == pool && load.fits(&column.room));
    min_values.suffice(pool, fitting.map(|column| &offers[column.offer].item))
}

impl Compiled<'_> {
    /// Whether a launch and its alternatives meet its pool's `minValues`.
    pub(crate) fn meets_min_values(&self, launch: &Launch) -> bool {
        let mut pools = self.problem.pools.iter();
        let pool = pools.position(|one| one.name == launch.pool);
        let Some(pool) = pool.map(PoolId::at) else {
            return true;
        };
        if !self.min_values.asks(pool) {
            return true;
        }
        let bought = launch.alternatives.iter().chain([&launch.purchase]);
        let items: Vec<Item> = bought
            .filter_map(|purchase| item(self.problem, purchase))
            .collect();
        self.min_values.suffice(pool, items.iter())
    }
}

fn item(problem: &Problem, purchase: &Purchase) -> Option<Item> {
    let catalog = problem.catalog(&purchase.catalog)?;
    if purchase.host.is_some() {
        let range = catalog
            .ranges
            .iter()
            .position(|one| one.name == purchase.instance_type)?;
        return Some(Item::Custom {
            range: range as u32,
            host: 0,
        });
    }
    let kind = catalog
        .types
        .iter()
        .position(|one| one.name == purchase.instance_type)?;
    Some(Item::Fixed {
        instance_type: kind as u32,
        offering: 0,
    })
}

#[cfg(test)]
mod tests {
    use crate::money::Money;
    use crate::name::Labels;
    use crate::pack::{Options, solve};
    use crate::plan::{Plan, check};
    use crate::problem::{
        CapacityType, Catalog, InstanceType, MinValuesPolicy, Offering, Pod, PodSpec, Pool, Problem,
    };
    use crate::requirement::{Expression, Operator};
    use crate::resources::{CPU, PODS, Resources};

    /// Types of 2, 4 and 8 cores at 10 cents a core; a pool that wants some of them to choose from.
    fn problem(least: u32, pods: u32) -> Problem {
        let kind = |cores: i64| InstanceType {
            name: format!("c{cores}").into(),
            labels: Labels::new(),
            capacity: Resources::new().with(CPU, cores * 1000).with(PODS, 50),
            overhead: Resources::new(),
            offerings: vec![Offering {
                zone: "a".into(),
                region: "".into(),
                capacity_type: CapacityType::OnDemand,
                price: Money::from_nanos(cores * 100_000_000),
                available: true,
                left: None,
                reservation: None,
                stock: None,
            }],
            quotas: Vec::new(),
        };
        let mut wanted = Expression::new(crate::labels::INSTANCE_TYPE, Operator::Exists, &[]);
        wanted.min_values = Some(least);
        let requests = Resources::new().with(CPU, 1000).with(PODS, 1);
        let mut pod = Pod::new(
            "web",
            PodSpec {
                requests,
                ..PodSpec::default()
            },
        );
        pod.count = pods;
        Problem {
            catalogs: vec![Catalog {
                name: "shop".into(),
                types: vec![kind(2), kind(4), kind(8)],
                ranges: Vec::new(),
                quotas: Vec::new(),
            }],
            pools: vec![Pool {
                name: "main".into(),
                catalog: "shop".into(),
                requirements: vec![wanted],
                ..Pool::default()
            }],
            pods: vec![pod],
            ..Problem::default()
        }
    }

    #[track_caller]
    fn solved(problem: &Problem, steps: u64) -> Plan {
        let options = Options {
            steps,
            ..Options::default()
        };
        let plan = solve(problem, &options);
        assert_eq!(check(problem, &plan), []);
        plan
    }

    #[test]
    fn a_machine_is_not_filled_beyond_what_several_types_can_hold() {
        for steps in [0, 50] {
            let two = solved(&problem(2, 8), steps);
            assert!(two.unplaced.is_empty());
            assert!(two.launches.iter().all(|launch| launch.pods.len() <= 4));
            let three = solved(&problem(3, 8), steps);
            assert!(three.unplaced.is_empty());
            assert!(three.launches.iter().all(|launch| launch.pods.len() <= 2));
        }
    }

    #[test]
    fn a_pool_that_wants_more_than_there_is_takes_no_pod_unless_it_may_do_with_less() {
        let mut problem = problem(4, 8);
        let strict = solved(&problem, 50);
        assert!(strict.launches.is_empty() && !strict.unplaced.is_empty());
        problem.settings.min_values = MinValuesPolicy::BestEffort;
        assert!(solved(&problem, 50).unplaced.is_empty());
    }
}
