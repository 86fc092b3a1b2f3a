//! What a region sells, read once for all pools and kept for a while. What cannot be read again stays as it was, and its
//! age is visible.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::leftover::{Capacity, Market, RegionMarket, Wanted, rank};
use joiner_core::money::Money;
use joiner_core::name::Name;
use tokio::sync::Mutex;

use super::client::{Ec2, ScoreRequest};
use super::credentials::Credentials;
use super::error::{AwsError, AwsErrorKind};
use super::types::{InstanceType, PlacementScore, SpotPrice, TypeOffering, Zone};
use super::{AwsOptions, Clock, facts, pricing};
use crate::http::Http;

const TYPES_FOR: Duration = Duration::from_hours(6);
const ZONES_FOR: Duration = Duration::from_hours(24);
const LIST_PRICES_FOR: Duration = Duration::from_hours(12);
const PRICES_FOR: Duration = Duration::from_mins(5);
const SCORES_FOR: Duration = Duration::from_mins(10);
const SUBNETS_FOR: Duration = Duration::from_mins(10);
/// How far back quotes are asked for.
const WINDOW: Duration = Duration::from_mins(10);
/// How long a call that failed is not made again for another pool; long for those that AWS counts by the day.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
const AFTER_SCORE_LIMIT: Duration = Duration::from_hours(1);
/// Clocks differ; a quote further in the future is a row that went wrong.
const FUTURE: Duration = Duration::from_mins(5);
/// AWS scores a set of fewer different types low, whatever there is of them.
const FEWEST_TYPES: usize = 3;

/// When something was read, and why it was not read since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Age {
    /// When what is used was read.
    pub at: Option<Timestamp>,
    /// Why it is not newer.
    pub error: Option<AwsError>,
}

/// When each part of a reading was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ages {
    /// Types and where they are offered.
    pub types: Age,
    /// Spot prices.
    pub prices: Age,
    /// Placement scores.
    pub scores: Age,
    /// Subnets; `None` when they were not asked for.
    pub subnets: Option<Age>,
    /// List prices; `None` when the built-in list is used.
    pub list_prices: Option<Age>,
}

/// What a region sells to a pool.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Everything.
    pub market: Market,
    /// How old it is.
    pub ages: Ages,
}

struct Entry<V> {
    value: Option<(Arc<V>, Timestamp)>,
    failed: Option<(AwsError, Timestamp)>,
}

struct Cache<K, V>(StdMutex<BTreeMap<K, Arc<Mutex<Entry<V>>>>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Cache(StdMutex::default())
    }
}

type Found<V> = (Option<Arc<V>>, Age);

impl<K: Ord, V> Cache<K, V> {
    /// What is in the cache, read again if it is too old. Pools that ask at once wait for one call.
    async fn get<F>(&self, key: K, good_for: Duration, now: Timestamp, read: F) -> Found<V>
    where
        F: Future<Output = Result<V, AwsError>>,
    {
        let slot = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let empty = || {
                Arc::new(Mutex::new(Entry {
                    value: None,
                    failed: None,
                }))
            };
            Arc::clone(all.entry(key).or_insert_with(empty))
        };
        let mut entry = slot.lock().await;
        let age = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        let fresh = entry
            .value
            .as_ref()
            .is_some_and(|(_, at)| age(*at) < good_for);
        let resting = entry.failed.as_ref().is_some_and(|(error, at)| {
            let rest = match error.kind {
                AwsErrorKind::ScoreLimit => AFTER_SCORE_LIMIT,
                _ => AFTER_FAILURE,
            };
            age(*at) < rest
        });
        if !fresh && !resting {
            match read.await {
                Ok(value) => {
                    entry.value = Some((Arc::new(value), now));
                    entry.failed = None;
                }
                Err(error) => {
                    tracing::warn!(action = %error.action, code = %error.code, message = %error.message, "AWS did not answer");
                    entry.failed = Some((error, now));
                }
            }
        }
        let value = entry.value.clone();
        let error = entry.failed.as_ref().map(|(error, _)| error.clone());
        let at = value.as_ref().map(|(_, at)| *at);
        (value.map(|(value, _)| value), Age { at, error })
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

type ByFamily = (String, Vec<String>);
type Tags = BTreeMap<String, String>;

/// AWS, shared by all pools.
pub struct Aws {
    http: Http,
    options: AwsOptions,
    credentials: Credentials,
    clock: Clock,
    types: Cache<ByFamily, Vec<InstanceType>>,
    offerings: Cache<ByFamily, Vec<TypeOffering>>,
    zones: Cache<String, Vec<Zone>>,
    list_prices: Cache<String, BTreeMap<String, Money>>,
    prices: Cache<(String, BTreeSet<String>), Vec<SpotPrice>>,
    scores: Cache<ScoreRequest, BTreeMap<String, u8>>,
    subnets: Cache<(String, Tags), BTreeSet<String>>,
    groups: Cache<(String, Tags), usize>,
}

impl Aws {
    /// Nothing is asked yet.
    pub fn new(http: Http, options: AwsOptions, credentials: Credentials, clock: Clock) -> Self {
        Aws {
            http,
            options,
            credentials,
            clock,
            types: Cache::default(),
            offerings: Cache::default(),
            zones: Cache::default(),
            list_prices: Cache::default(),
            prices: Cache::default(),
            scores: Cache::default(),
            subnets: Cache::default(),
            groups: Cache::default(),
        }
    }

    /// EC2 of a region.
    pub fn ec2(&self, region: &str) -> Result<Ec2, AwsError> {
        let (http, credentials) = (self.http.clone(), self.credentials.clone());
        Ec2::new(
            http,
            region,
            &self.options,
            credentials,
            Clock::clone(&self.clock),
        )
    }

    /// How many different requests for placement scores were made: AWS limits them by the day.
    pub fn score_configurations(&self) -> usize {
        self.scores.count()
    }

    /// Reads what a region sells to a pool. Fails only if types or prices were never read; what is merely old is used, and
    /// says so.
    pub async fn read(
        &self,
        region: &str,
        wanted: &Wanted,
        target: u32,
        subnet_tags: Option<&BTreeMap<String, String>>,
    ) -> Result<Reading, AwsError> {
        let now = (self.clock)();
        let ec2 = self.ec2(region)?;
        let (mut market, mut ages, fitting) = Box::pin(self.sold(&ec2, wanted, now)).await?;
        if let Some(tags) = subnet_tags {
            let (zones, age) = Box::pin(self.subnets(&ec2, tags, now)).await;
            market.subnets =
                zones.map(|zones| zones.iter().map(|one| one.as_str().into()).collect());
            ages.subnets = Some(age);
        }
        if wanted.capacity == Capacity::Spot && !fitting.is_empty() {
            let (scores, age) = Box::pin(self.zone_scores(&ec2, fitting, target, now)).await;
            market.scores = scores;
            ages.scores = age;
        }
        Ok(Reading { market, ages })
    }

    /// Reads what several regions sell to a pool, and one placement score for each of them; `home` is the region that is
    /// asked for scores. What cannot be read says why and holds up nothing else.
    pub async fn compare(
        &self,
        home: &str,
        regions: &BTreeSet<String>,
        wanted: &Wanted,
        target: u32,
    ) -> Vec<RegionMarket> {
        let now = (self.clock)();
        let mut all = Vec::new();
        let mut types = BTreeSet::new();
        // At once: a region that does not answer must not hold up the others.
        let mut reads = Vec::new();
        for region in regions {
            reads.push(async move {
                let ec2 = self.ec2(region)?;
                Box::pin(self.sold(&ec2, wanted, now)).await
            });
        }
        let reads = futures::future::join_all(reads).await;
        for (region, read) in regions.iter().zip(reads) {
            let (market, fresh) = match read {
                Ok((market, ages, fitting)) => {
                    types.extend(fitting);
                    (Ok(market), ages.prices.error.is_none())
                }
                Err(error) => (Err(error.to_string()), false),
            };
            all.push(RegionMarket {
                region: region.as_str().into(),
                market,
                fresh,
                score: None,
            });
        }
        if wanted.capacity == Capacity::Spot {
            let request = ScoreRequest {
                regions: regions.clone(),
                by_zone: false,
                types,
                target,
            };
            if let Ok(ec2) = self.ec2(home) {
                let (scores, _) = Box::pin(self.scored(&ec2, request, now)).await;
                for one in &mut all {
                    let found = scores.as_ref().and_then(|all| all.get(&*one.region));
                    one.score = found.copied();
                }
            }
        }
        all
    }

    /// How many security groups of a region have all of these tags.
    pub async fn security_groups(
        &self,
        region: &str,
        tags: &BTreeMap<String, String>,
    ) -> (Option<usize>, Age) {
        let now = (self.clock)();
        let ec2 = match self.ec2(region) {
            Ok(ec2) => ec2,
            Err(error) => {
                let error = Some(error);
                return (None, Age { at: None, error });
            }
        };
        let read = async { Ok(ec2.security_groups(tags).await?.len()) };
        let key = (region.to_owned(), tags.clone());
        let (count, age) = Box::pin(self.groups.get(key, SUBNETS_FOR, now, read)).await;
        (count.map(|count| *count), age)
    }

    /// Types, where they are offered, and at which prices; and the names of those that fit.
    async fn sold(
        &self,
        ec2: &Ec2,
        wanted: &Wanted,
        now: Timestamp,
    ) -> Result<(Market, Ages, BTreeSet<String>), AwsError> {
        let region = ec2.region();
        let mut patterns: Vec<String> = wanted
            .families
            .iter()
            .map(|one| format!("{one}*"))
            .collect();
        patterns.sort();
        patterns.dedup();
        let by_family = (region.to_owned(), patterns.clone());
        let read = ec2.instance_types(&patterns);
        let (types, types_age) =
            Box::pin(self.types.get(by_family.clone(), TYPES_FOR, now, read)).await;
        let types = required(types, &types_age)?;
        let read = ec2.offerings(&patterns);
        let (offerings, age) = Box::pin(self.offerings.get(by_family, TYPES_FOR, now, read)).await;
        let offerings = required(offerings, &age)?;
        let (list, list_prices) = Box::pin(self.list(region, now)).await;
        let mut market = Market::default();
        for one in types.iter() {
            let price = list_price(list.as_deref(), region, &one.instance_type);
            if let Some(gpu) = one.gpu(price) {
                market.types.insert(gpu.name.clone(), gpu);
            }
        }
        let known = offerings
            .iter()
            .filter(|one| market.types.contains_key(one.instance_type.as_str()));
        let pair = |one: &TypeOffering| {
            (
                Name::from(one.instance_type.as_str()),
                Name::from(one.location.as_str()),
            )
        };
        market.offered = known.map(pair).collect();
        let fitting: BTreeSet<String> = rank(&market, wanted, wanted.capacity)
            .fitting
            .iter()
            .map(ToString::to_string)
            .collect();
        let unasked = Age {
            at: None,
            error: None,
        };
        let mut ages = Ages {
            types: types_age,
            prices: unasked.clone(),
            scores: unasked,
            subnets: None,
            list_prices,
        };
        if wanted.capacity == Capacity::Spot && !fitting.is_empty() {
            let read = ec2.spot_prices(&fitting, before(now, WINDOW));
            let key = (region.to_owned(), fitting.clone());
            let (rows, age) = Box::pin(self.prices.get(key, PRICES_FOR, now, read)).await;
            market.spot = current(&required(rows, &age)?, now);
            ages.prices = age;
        }
        Ok((market, ages, fitting))
    }

    async fn list(
        &self,
        region: &str,
        now: Timestamp,
    ) -> (Option<Arc<BTreeMap<String, Money>>>, Option<Age>) {
        if !self.options.pricing {
            return (None, None);
        }
        let read = pricing::list_prices(
            &self.http,
            region,
            &self.options,
            &self.credentials,
            &self.clock,
        );
        let (list, age) =
            Box::pin(
                self.list_prices
                    .get(region.to_owned(), LIST_PRICES_FOR, now, read),
            )
            .await;
        (list, Some(age))
    }

    async fn subnets(&self, ec2: &Ec2, tags: &Tags, now: Timestamp) -> Found<BTreeSet<String>> {
        let key = (ec2.region().to_owned(), tags.clone());
        let read = async {
            let subnets = ec2.subnets(tags).await?;
            Ok(subnets
                .into_iter()
                .map(|one| one.availability_zone)
                .collect())
        };
        Box::pin(self.subnets.get(key, SUBNETS_FOR, now, read)).await
    }

    /// Scores by zone name; AWS gives them by zone id.
    async fn zone_scores(
        &self,
        ec2: &Ec2,
        types: BTreeSet<String>,
        target: u32,
        now: Timestamp,
    ) -> (Option<BTreeMap<Name, u8>>, Age) {
        let region = ec2.region().to_owned();
        let (zones, age) =
            Box::pin(self.zones.get(region.clone(), ZONES_FOR, now, ec2.zones())).await;
        let Some(zones) = zones else {
            return (None, age);
        };
        let request = ScoreRequest {
            regions: BTreeSet::from([region]),
            by_zone: true,
            types,
            target,
        };
        let (scores, age) = Box::pin(self.scored(ec2, request, now)).await;
        let by_name = scores.map(|scores| {
            let known = zones.iter().filter_map(|zone| {
                let score = scores.get(&zone.zone_id)?;
                Some((Name::from(zone.zone_name.as_str()), *score))
            });
            known.collect()
        });
        (by_name, age)
    }

    /// Scores by zone id, or by region.
    async fn scored(
        &self,
        ec2: &Ec2,
        request: ScoreRequest,
        now: Timestamp,
    ) -> Found<BTreeMap<String, u8>> {
        if request.types.len() < FEWEST_TYPES {
            let message = format!(
                "AWS scores fewer than {FEWEST_TYPES} types low whatever there is of them, so it is not asked for {}",
                request.types.len()
            );
            let error = AwsError::new(
                "GetSpotPlacementScores",
                "FewTypes",
                message,
                AwsErrorKind::Invalid,
            );
            let error = Some(error);
            return (None, Age { at: None, error });
        }
        let key = request.clone();
        let read = async {
            let scores = ec2.placement_scores(&request).await?;
            let own = scores
                .into_iter()
                .filter(|one| request.regions.contains(&one.region));
            let place = |one: PlacementScore| {
                let place = if request.by_zone {
                    one.availability_zone_id?
                } else {
                    one.region
                };
                Some((place, one.score))
            };
            Ok(own.filter_map(place).collect())
        };
        Box::pin(self.scores.get(key, SCORES_FOR, now, read)).await
    }
}

fn required<V>(value: Option<Arc<V>>, age: &Age) -> Result<Arc<V>, AwsError> {
    value.ok_or_else(|| {
        let unknown = || {
            AwsError::new(
                "read",
                "NoAnswer",
                "nothing was read",
                AwsErrorKind::Unavailable,
            )
        };
        age.error.clone().unwrap_or_else(unknown)
    })
}

/// The list price: of the region where the price list says so, otherwise that of us-east-1 and what the region is dearer
/// at most. Spot that costs more than this is passed over, so it may be too high and not too low.
fn list_price(list: Option<&BTreeMap<String, Money>>, region: &str, name: &str) -> Option<Money> {
    let listed = list.and_then(|list| list.get(name).copied());
    listed.or_else(|| {
        let built_in = facts().get(name).and_then(|one| one.list_price)?;
        Some(Money::from_nanos(
            built_in.nanos() / 100 * dearer_percent(region)?,
        ))
    })
}

/// What GPU instances cost at most in a region, in percent of what they cost in us-east-1.
fn dearer_percent(region: &str) -> Option<i64> {
    Some(match region {
        "us-east-1" | "us-east-2" | "us-west-2" => 100,
        // Prices are in another currency.
        one if one.starts_with("cn-") => return None,
        one if one.starts_with("us-") || one.starts_with("ca-") => 130,
        one if one.starts_with("eu-") => 140,
        one if one.starts_with("sa-") => 190,
        _ => 170,
    })
}

fn before(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_sub(by).unwrap_or(now)
}

/// The price in force of each type and zone: the newest row that is not of the future and can be read.
fn current(rows: &[SpotPrice], now: Timestamp) -> BTreeMap<(Name, Name), Money> {
    let latest = now.checked_add(FUTURE).unwrap_or(now);
    let mut newest: BTreeMap<(Name, Name), (Timestamp, Money)> = BTreeMap::new();
    for row in rows {
        let Ok(at) = row.timestamp.parse::<Timestamp>() else {
            continue;
        };
        let Ok(price) = row.spot_price.trim().parse::<f64>() else {
            continue;
        };
        if at > latest || !price.is_finite() || row.availability_zone.is_empty() {
            continue;
        }
        let key = (
            row.instance_type.as_str().into(),
            row.availability_zone.as_str().into(),
        );
        let new = (at, Money::from_dollars(price));
        // The same moment in both products: the higher, so that the order of rows does not matter.
        newest
            .entry(key)
            .and_modify(|old| *old = (*old).max(new))
            .or_insert(new);
    }
    newest
        .into_iter()
        .map(|(key, (_, price))| (key, price))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(price: &str, at: &str) -> SpotPrice {
        SpotPrice {
            instance_type: "g5.xlarge".into(),
            availability_zone: "us-east-1a".into(),
            spot_price: price.into(),
            timestamp: at.into(),
        }
    }

    #[test]
    fn what_is_good_spot_in_a_dear_region_is_not_cut_by_prices_of_a_cheap_one() {
        let price = |region: &str| list_price(None, region, "g5.xlarge").map(Money::dollars);
        let home = price("us-east-1").unwrap();
        assert_eq!(price("us-west-2"), Some(home));
        // What AWS asks for a g5.xlarge in São Paulo, Frankfurt and Tokyo is 1.7, 1.25 and 1.45 times as much.
        for (region, dearer) in [
            ("sa-east-1", 1.7),
            ("eu-central-1", 1.25),
            ("ap-northeast-1", 1.45),
        ] {
            assert!(price(region).unwrap() >= home * dearer, "{region}");
        }
        assert_eq!(price("cn-north-1"), None);
        let list = BTreeMap::from([("g5.xlarge".to_owned(), Money::from_dollars(1.2))]);
        let listed = list_price(Some(&list), "sa-east-1", "g5.xlarge");
        assert_eq!(listed, Some(Money::from_dollars(1.2)));
    }

    #[test]
    fn the_newest_row_counts_and_nonsense_does_not() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let rows = [
            row("0.5", "2026-01-01T00:00:00.000Z"),
            row("0.4", "2026-01-01T12:00:00.000Z"),
            row("0.1", "2027-01-01T00:00:00.000Z"),
            row("cheap", "2026-01-01T13:00:00.000Z"),
            row("0.3", "yesterday"),
        ];
        let found: Vec<f64> = current(&rows, now)
            .into_values()
            .map(Money::dollars)
            .collect();
        assert_eq!(found, [0.4]);
        assert!(current(&[], now).is_empty());
    }
}
