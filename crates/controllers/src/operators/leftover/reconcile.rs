//! One look at one pool: observe, decide, act, report.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use joiner_api::leftover::{CapacityType, LeftoverNodePool, LeftoverNodePoolStatus};
use joiner_api::validate::Validate as _;
use joiner_core::leftover::{
    Capacity, Change, Choice, Decision, Fallback, Held, Memory, decide, rank, select,
};
use joiner_core::name::Name;
use joiner_providers::aws::{Age, AwsError, AwsErrorKind, Reading};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;
use tracing::info;

use super::metrics::{PARTS, Pool, PoolWhat};
use super::objects::{self, Served};
use super::render::{self, ClassVersion, Source};
use super::report::{Cause, Report, about, write};
use super::{Known, Leftover, SOON};
use crate::edge::clients::WriteError;
use crate::edge::events::Severity;
use crate::operator::Seat;

/// Karpenter puts the name of a NodePool into a label of its nodes.
const LONGEST_NAME: usize = 63;

/// The class that nodes are made from.
struct Class {
    name: String,
    /// Zones of its subnets, where Karpenter says so.
    zones: Option<BTreeSet<Name>>,
    /// Why Karpenter does not use it, if so.
    unready: Option<String>,
    version: ClassVersion,
}

/// What is to be applied.
struct Plan<'a> {
    class: &'a Class,
    reading: &'a Reading,
    decision: &'a Decision,
    /// Whether the NodePool takes new nodes.
    open: bool,
}

impl Leftover {
    /// Looks at a pool and does what follows. Says when to look again, if earlier than usual.
    pub(super) async fn reconcile(
        &self,
        seat: &Seat,
        pool: &LeftoverNodePool,
        known: &mut Known,
    ) -> Result<Option<Duration>, WriteError> {
        if pool.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let now = seat.clock.now();
        let mut report = Report {
            status: pool.status.clone().unwrap_or_default(),
            unready: None,
            degraded: None,
            offers: String::new(),
        };
        let mut again = None;
        if let Err(cause) = Box::pin(self.look(seat, pool, known, &mut report, now)).await? {
            again = (cause.reason == "KarpenterNotInstalled").then_some(SOON);
            let standing = !report.status.selected_instance_types.is_empty();
            let outage = cause.reason.starts_with("AWS");
            if !(standing && outage) {
                report.unready = Some(cause.clone());
            }
            report.degraded = Some(cause);
            report.offers = offers(&render::pool_name(pool), &report.status);
        }
        let about = about(pool);
        if let Some(cause) = report.degraded.as_ref().or(report.unready.as_ref()) {
            seat.events
                .say(&about, Severity::Warning, cause.reason, &cause.message);
        }
        let status = report.status(pool.metadata.generation, now);
        if !seat.observe_only {
            write(&seat.clients.writes, pool, &status).await?;
        }
        Ok(again)
    }

    async fn look(
        &self,
        seat: &Seat,
        pool: &LeftoverNodePool,
        known: &mut Known,
        report: &mut Report,
        now: Timestamp,
    ) -> Result<Result<(), Cause>, WriteError> {
        if let Some(message) = invalid(pool) {
            return Ok(Err(Cause::new("InvalidSpec", message)));
        }
        let served = objects::served(&seat.clients.reads).await?;
        if let Some(message) = missing(&served) {
            return Ok(Err(Cause::new("KarpenterNotInstalled", message)));
        }
        let class = match self.class(seat, pool, &served).await? {
            Ok(class) => class,
            Err(message) => return Ok(Err(Cause::new("InvalidSpec", message))),
        };
        let wanted = render::wanted(pool);
        let rendered = Source::of(pool) == Source::Rendered;
        let tags = rendered.then_some(&pool.spec.subnet_selector_tags);
        let target = u32::try_from(pool.spec.target_count()).unwrap_or(1);
        let reading = Box::pin(self.aws.read(&pool.spec.region, &wanted, target, tags)).await;
        let count = i64::try_from(self.aws.score_configurations()).unwrap_or(i64::MAX);
        self.metrics.configurations.set(count);
        let mut reading = match reading {
            Ok(reading) => reading,
            Err(error) => return Ok(Err(outage(&error, report.status.prices_as_of.as_ref()))),
        };
        if reading.market.subnets.is_none() {
            reading.market.subnets = class.zones.clone();
        }
        let (in_use, _) = objects::in_use(&seat.clients.reads, &render::pool_name(pool)).await?;
        let memory = self.memory(seat, pool, known).await?;
        let held = held(&report.status, wanted.capacity, &pool.spec.region);
        let policy = &self.options.policy;
        let mut decision = decide(
            &reading.market,
            &wanted,
            held.as_ref(),
            &in_use,
            policy,
            memory,
            now,
        );
        let away = Box::pin(self.regions(seat, pool, known, &wanted, &mut report.status)).await;
        if away.is_some() {
            // With another region to go to, on-demand nodes do not stand in here.
            decision.fallback = Fallback::Closed;
            decision.memory.fallback = false;
        }
        known.memory = Some(decision.memory);
        self.measure(pool, known, &reading, &decision, now);
        let plan = Plan {
            class: &class,
            reading: &reading,
            decision: &decision,
            open: away.is_none(),
        };
        if let Err(cause) = self.act(seat, pool, known, &plan).await? {
            return Ok(Err(cause));
        }
        describe(report, &reading, &decision, now);
        if is_nothing(&decision) {
            let mut message = nothing_viable(&reading, &decision);
            if let Some(away) = away {
                message = format!("{message}; {away}");
            }
            return Ok(Err(Cause::new("NoQuotes", message)));
        }
        self.tell(seat, pool, &decision, memory);
        report.degraded = second_best(&reading, &decision, &class);
        if report.degraded.is_none() && rendered {
            report.degraded = self.groups(pool).await;
        }
        report.offers = offers(&render::pool_name(pool), &report.status);
        if let Some(away) = away {
            report.offers = format!("{} but is closed: {away}", report.offers);
        }
        Ok(Ok(()))
    }

    /// What was remembered, or after a restart whether the on-demand pool is there.
    async fn memory(
        &self,
        seat: &Seat,
        pool: &LeftoverNodePool,
        known: &Known,
    ) -> Result<Memory, WriteError> {
        if let Some(memory) = known.memory {
            return Ok(memory);
        }
        let pools = objects::pools(seat.clients.reads.clone());
        let there = pools.get_opt(&render::fallback_name(pool)).await?;
        let open = there.is_some_and(|one| one.data["spec"].get("limits").is_none());
        Ok(Memory {
            fallback: open,
            ..Memory::default()
        })
    }

    /// The class: the user's, or ours.
    async fn class(
        &self,
        seat: &Seat,
        pool: &LeftoverNodePool,
        served: &Served,
    ) -> Result<Result<Class, String>, WriteError> {
        let version = served.classes.first().copied().unwrap_or_default();
        let api = objects::classes(seat.clients.reads.clone(), version);
        let found = match Source::of(pool) {
            Source::Named(name) => match api.get_opt(&name).await? {
                Some(found) => found,
                None => {
                    return Ok(Err(format!(
                        "spec.nodeClassName: there is no EC2NodeClass {name:?}"
                    )));
                }
            },
            Source::Selected(labels) => {
                let terms: Vec<String> = labels
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                let selector = terms.join(",");
                let all = api
                    .list(&ListParams::default().labels(&selector))
                    .await?
                    .items;
                let names: Vec<String> = all.iter().map(kube::ResourceExt::name_any).collect();
                match <[DynamicObject; 1]>::try_from(all) {
                    Ok([one]) => one,
                    Err(_) if names.is_empty() => {
                        return Ok(Err(format!(
                            "spec.nodeClassSelector: no EC2NodeClass has the labels {selector}"
                        )));
                    }
                    Err(_) => {
                        return Ok(Err(format!(
                            "spec.nodeClassSelector: the labels {selector} fit more than one EC2NodeClass: {}",
                            names.join(", ")
                        )));
                    }
                }
            }
            Source::Rendered => {
                if let Err(message) = render::node_class(pool, &self.options.defaults, version) {
                    return Ok(Err(message));
                }
                let name = render::class_name(pool);
                let there = api.get_opt(&name).await?;
                let unready = there.as_ref().and_then(unready);
                return Ok(Ok(Class {
                    name,
                    zones: None,
                    unready,
                    version,
                }));
            }
        };
        Ok(Ok(Class {
            name: found.name_any(),
            zones: zones(&found),
            unready: unready(&found),
            version,
        }))
    }

    async fn act(
        &self,
        seat: &Seat,
        pool: &LeftoverNodePool,
        known: &mut Known,
        plan: &Plan<'_>,
    ) -> Result<Result<(), Cause>, WriteError> {
        let (class, decision) = (plan.class, plan.decision);
        if Source::of(pool) == Source::Rendered
            && !is_nothing(decision)
            && let Err(cause) = self.apply_class(seat, pool, known, class).await?
        {
            return Ok(Err(cause));
        }
        let (market, name) = (&plan.reading.market, &class.name);
        if !decision.offered.is_empty() {
            let open = render::node_pool(pool, &decision.offered, market, name);
            let wanted = if plan.open {
                open
            } else {
                render::closed(open)
            };
            if let Err(cause) = self.apply_pool(seat, pool, known, wanted).await? {
                return Ok(Err(cause));
            }
        }
        let fallback = render::fallback_name(pool);
        let uid = pool.uid().unwrap_or_default();
        match &decision.fallback {
            Fallback::Open(choice) => {
                let (running, _) = objects::in_use(&seat.clients.reads, &fallback).await?;
                let choice = joined(choice, &running);
                let wanted = render::fallback_pool(pool, &choice, market, name, true);
                self.apply_pool(seat, pool, known, wanted).await
            }
            Fallback::Closed => {
                let reads = objects::pools(seat.clients.reads.clone());
                if seat.observe_only || reads.get_opt(&fallback).await?.is_none() {
                    return Ok(Ok(()));
                }
                let (running, nodes) = objects::in_use(&seat.clients.reads, &fallback).await?;
                if nodes == 0 {
                    let writes = objects::pools(seat.clients.writes.clone());
                    objects::delete(&reads, &writes, &fallback, &uid).await?;
                    known.applied.remove(&format!("NodePool {fallback}"));
                    return Ok(Ok(()));
                }
                // Deleting it would drain its nodes: it takes no more, and goes when the last of them has.
                let ranking = rank(market, &render::wanted(pool), Capacity::OnDemand);
                let choice = select(&ranking, &render::wanted(pool));
                let wanted =
                    render::fallback_pool(pool, &joined(&choice, &running), market, name, false);
                self.apply_pool(seat, pool, known, wanted).await
            }
        }
    }

    async fn apply_class(
        &self,
        seat: &Seat,
        pool: &LeftoverNodePool,
        known: &mut Known,
        class: &Class,
    ) -> Result<Result<(), Cause>, WriteError> {
        let both = [class.version, ClassVersion::V1beta1];
        let mut refused = String::new();
        for version in both {
            let wanted = match render::node_class(pool, &self.options.defaults, version) {
                Ok(wanted) => wanted,
                Err(message) => return Ok(Err(Cause::new("InvalidSpec", message))),
            };
            let reads = objects::classes(seat.clients.reads.clone(), version);
            let writes = objects::classes(seat.clients.writes.clone(), version);
            match self.apply(seat, pool, known, wanted, &reads, &writes).await {
                Ok(()) => return Ok(Ok(())),
                // While Karpenter is being upgraded one of its versions may not be had.
                Err(WriteError::Unknown(said) | WriteError::Refused(said))
                    if said.contains("conversion webhook") && version == ClassVersion::V1 =>
                {
                    refused = said;
                }
                Err(WriteError::Refused(said)) => {
                    return Ok(Err(Cause::new("ApplyNodeClassError", said)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Err(Cause::new("ApplyNodeClassError", refused)))
    }

    async fn apply_pool(
        &self,
        seat: &Seat,
        pool: &LeftoverNodePool,
        known: &mut Known,
        wanted: Value,
    ) -> Result<Result<(), Cause>, WriteError> {
        let reads = objects::pools(seat.clients.reads.clone());
        let writes = objects::pools(seat.clients.writes.clone());
        match self.apply(seat, pool, known, wanted, &reads, &writes).await {
            Ok(()) => Ok(Ok(())),
            Err(WriteError::Refused(said)) => Ok(Err(Cause::new("ApplyNodePoolError", said))),
            Err(error) => Err(error),
        }
    }

    async fn apply(
        &self,
        seat: &Seat,
        pool: &LeftoverNodePool,
        known: &mut Known,
        wanted: Value,
        reads: &kube::Api<DynamicObject>,
        writes: &kube::Api<DynamicObject>,
    ) -> Result<(), WriteError> {
        let kind = wanted["kind"].as_str().unwrap_or_default().to_owned();
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        let key = format!("{kind} {name}");
        let uid = pool.uid().unwrap_or_default();
        let last = known.applied.get(&key);
        if seat.observe_only {
            if last != Some(&wanted) {
                info!(pool = %pool.name_any(), object = key, spec = %wanted["spec"], "observe-only: would apply");
            }
        } else if objects::apply(seat, reads, writes, &wanted, &uid, last).await? {
            info!(pool = %pool.name_any(), object = key, "applied");
            let label = PoolWhat {
                pool: pool.name_any(),
                what: kind,
            };
            self.metrics.applied.get_or_create(&label).inc();
        }
        known.applied.insert(key, wanted);
        Ok(())
    }

    /// Says what changed.
    fn tell(&self, seat: &Seat, pool: &LeftoverNodePool, decision: &Decision, before: Memory) {
        let about = about(pool);
        if decision.change.is_new() {
            let best = decision.chosen.best(&decision.ranking);
            let price = best.map(|one| {
                let per_gpu = one.per_gpu.money().dollars();
                format!(
                    "; best {} in {} at ${per_gpu:.4} per GPU",
                    one.type_name, one.zone
                )
            });
            let message = format!(
                "{}: offering {} in {}{}",
                decision.change,
                decision.chosen.types.join(", "),
                decision.chosen.zones.join(", "),
                price.unwrap_or_default()
            );
            info!(pool = %pool.name_any(), "{message}");
            seat.events
                .say(&about, Severity::Normal, "Selected", &message);
            let what = match decision.change {
                Change::First => "first",
                Change::NotAllowed => "not_allowed",
                Change::NotViable => "not_viable",
                Change::Cheaper(_) => "cheaper",
                Change::BetterScore(..) => "better_score",
                Change::Widened => "widened",
                Change::Nothing | Change::Kept(_) => "kept",
            };
            let label = PoolWhat {
                pool: pool.name_any(),
                what: what.to_owned(),
            };
            self.metrics.changes.get_or_create(&label).inc();
        }
        if decision.memory.fallback && !before.fallback {
            let message = "no spot capacity is viable: new nodes are on-demand until it is again";
            seat.events
                .say(&about, Severity::Warning, "FallbackOpened", message);
        }
        if before.fallback && !decision.memory.fallback {
            let message = "on-demand is not needed any more: no new on-demand nodes, those that run stay until they are empty";
            seat.events
                .say(&about, Severity::Normal, "FallbackClosed", message);
        }
    }

    /// What is wrong with the security groups of a rendered class. What AWS does not say is no fault of theirs.
    async fn groups(&self, pool: &LeftoverNodePool) -> Option<Cause> {
        let tags = &pool.spec.security_group_selector_tags;
        let (count, _) = Box::pin(self.aws.security_groups(&pool.spec.region, tags)).await;
        (count == Some(0)).then(|| {
            Cause::new(
                "SecurityGroupsNotFound",
                "no security group has all tags of spec.securityGroupSelectorTags: Karpenter will not use the EC2NodeClass; \
                 correct the tags, or tag a security group of the cluster",
            )
        })
    }

    fn measure(
        &self,
        pool: &LeftoverNodePool,
        known: &mut Known,
        reading: &Reading,
        decision: &Decision,
        now: Timestamp,
    ) {
        let metrics = &self.metrics;
        let label = Pool {
            pool: pool.name_any(),
        };
        let what = |what: &str| PoolWhat {
            pool: pool.name_any(),
            what: what.to_owned(),
        };
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        metrics
            .types
            .get_or_create(&label)
            .set(count(decision.offered.types.len()));
        metrics
            .zones
            .get_or_create(&label)
            .set(count(decision.offered.zones.len()));
        metrics
            .fallback
            .get_or_create(&label)
            .set(i64::from(decision.memory.fallback));
        if let Some(best) = decision.chosen.best(&decision.ranking) {
            metrics
                .per_gpu
                .get_or_create(&label)
                .set(best.per_gpu.money().dollars());
            metrics
                .price
                .get_or_create(&label)
                .set(best.price.dollars());
        }
        let scores = || reading.market.scores.iter().flatten();
        for (zone, score) in scores() {
            metrics
                .scores
                .get_or_create(&what(zone))
                .set(i64::from(*score));
        }
        let zones = scores().map(|(zone, _)| zone.to_string()).collect();
        let before = std::mem::replace(&mut known.zones, zones);
        for gone in before.difference(&known.zones) {
            metrics.scores.remove(&what(gone));
        }
        let ages = &reading.ages;
        let ages = PARTS
            .into_iter()
            .zip([&ages.types, &ages.prices, &ages.scores]);
        for (name, age) in ages {
            if let Some(at) = age.at {
                let seconds = now.duration_since(at).as_secs_f64();
                metrics.age.get_or_create(&what(name)).set(seconds);
            }
        }
    }
}

/// What is wrong with a pool that got past admission.
fn invalid(pool: &LeftoverNodePool) -> Option<String> {
    let longest = if pool.spec.on_demand_fallback() {
        render::fallback_name(pool)
    } else {
        render::pool_name(pool)
    };
    if longest.len() > LONGEST_NAME {
        return Some(format!(
            "metadata.name is too long: NodePool {longest:?} would have {} characters, and Karpenter allows {LONGEST_NAME}",
            longest.len()
        ));
    }
    if pool.spec.node_class_name.as_deref() == Some("") {
        return Some("spec.nodeClassName is empty: write the name of an EC2NodeClass, or leave the field out".to_owned());
    }
    let violations = pool.validate();
    let first = violations.first()?;
    Some(first.to_string())
}

fn missing(served: &Served) -> Option<String> {
    if served.classes.is_empty() {
        return Some(
            "Karpenter for AWS is not installed: the cluster serves no EC2NodeClass (karpenter.k8s.aws)".to_owned(),
        );
    }
    (!served.pools).then(|| {
        "Karpenter for AWS is too old: the cluster serves no NodePool karpenter.sh/v1; upgrade to v0.37.1 or later".to_owned()
    })
}

/// AWS cannot be read. The moment of the last reading is named rather than its age, so that the sentence stays the same.
fn outage(error: &AwsError, as_of: Option<&Time>) -> Cause {
    let reason = match error.kind {
        AwsErrorKind::Throttled => "AWSThrottled",
        AwsErrorKind::Denied => "AWSDenied",
        AwsErrorKind::Invalid => "AWSRefused",
        AwsErrorKind::Unavailable | AwsErrorKind::ScoreLimit => "AWSUnavailable",
    };
    let stays = match as_of {
        Some(at) => format!("; what was rendered stays, with prices of {}", at.0),
        None => String::new(),
    };
    Cause::new(reason, format!("{error}{stays}"))
}

fn stale(what: &str, age: &Age) -> Option<Cause> {
    let error = age.error.as_ref()?;
    let cause = outage(error, None);
    let as_of = age.at.map_or_else(
        || "none are known".to_owned(),
        |at| format!("those of {at} are used"),
    );
    Some(Cause::new(
        cause.reason,
        format!("{what} cannot be read, {as_of}: {error}"),
    ))
}

/// What is not as it should be although something is on offer.
fn second_best(reading: &Reading, decision: &Decision, class: &Class) -> Option<Cause> {
    if matches!(decision.fallback, Fallback::Open(_)) {
        let message = "no spot capacity is viable: on-demand nodes stand in until it is again";
        return Some(Cause::new("OnDemandFallback", message));
    }
    if let Some(said) = &class.unready {
        let message = format!("Karpenter does not use EC2NodeClass {}: {said}", class.name);
        return Some(Cause::new("NodeClassNotReady", message));
    }
    let ages = &reading.ages;
    stale("spot prices", &ages.prices)
        .or_else(|| stale("instance types", &ages.types))
        .or_else(|| {
            let error = ages
                .scores
                .error
                .as_ref()
                .filter(|error| error.code != "FewTypes")?;
            let known = if ages.scores.at.is_some() {
                "old ones are used"
            } else {
                "every zone counts as viable"
            };
            Some(Cause::new(
                "ScoresUnavailable",
                format!("placement scores cannot be read, {known}: {error}"),
            ))
        })
}

/// Whether there is nothing to offer.
fn is_nothing(decision: &Decision) -> bool {
    decision.offered.is_empty() && decision.fallback == Fallback::Closed
}

fn nothing_viable(reading: &Reading, decision: &Decision) -> String {
    let market = &reading.market;
    if market.types.is_empty() {
        return "no GPU instance type of this region fits spec.families".to_owned();
    }
    if market.subnets.as_ref().is_some_and(BTreeSet::is_empty) {
        return "no subnet has all tags of spec.subnetSelectorTags".to_owned();
    }
    if let Some(one) = decision.ranking.quotes.first() {
        return format!(
            "no spot quote is viable; the cheapest is {} in {} at ${:.4}: {}",
            one.type_name,
            one.zone,
            one.price.dollars(),
            one.verdict
        );
    }
    let why = decision.ranking.refused.iter().next();
    let why = why.map(|(name, why)| format!("; {name}: {why}"));
    format!("no spot quotes available{}", why.unwrap_or_default())
}

fn held(status: &LeftoverNodePoolStatus, capacity: Capacity, region: &str) -> Option<Held> {
    let same = status.selected_capacity_type.map(|one| match one {
        CapacityType::Spot => Capacity::Spot,
        CapacityType::OnDemand => Capacity::OnDemand,
    });
    if same.is_some_and(|one| one != capacity) {
        return None;
    }
    // What was chosen in another region is no choice here.
    let here = |zone: &String| zone.starts_with(region);
    if !status.selected_zones.iter().all(here) {
        return None;
    }
    let names = |all: &[String]| all.iter().map(|one| Name::from(one.as_str())).collect();
    let choice = Choice {
        types: names(&status.selected_instance_types),
        zones: names(&status.selected_zones),
    };
    let since = status
        .last_change_time
        .as_ref()
        .map_or(Timestamp::UNIX_EPOCH, |at| at.0);
    (!choice.is_empty()).then_some(Held { choice, since })
}

fn describe(report: &mut Report, reading: &Reading, decision: &Decision, now: Timestamp) {
    let whole = |at: Timestamp| Time(Timestamp::from_second(at.as_second()).unwrap_or(at));
    let list = |all: &[Name]| all.iter().map(ToString::to_string).collect();
    let status = &mut report.status;
    let (shown, capacity) = match (&decision.chosen, &decision.fallback) {
        (chosen, Fallback::Open(choice)) if chosen.is_empty() => (choice, Capacity::OnDemand),
        (chosen, _) => (chosen, decision.ranking.capacity),
    };
    status.selected_instance_types = list(&shown.types);
    status.selected_zones = list(&shown.zones);
    status.selected_capacity_type = Some(match capacity {
        Capacity::Spot => CapacityType::Spot,
        Capacity::OnDemand => CapacityType::OnDemand,
    });
    let (price, score) = decision.chosen.figures(&decision.ranking);
    let price = price.filter(|price| *price < joiner_core::money::Money::MAX);
    status.last_price_usd = price.map(|price| format!("{:.4}", price.dollars()));
    status.last_score = score.map(i64::from);
    status.last_sync_time = Some(whole(now));
    if decision.change.is_new() || status.last_change_time.is_none() {
        status.last_change_time = Some(whole(now));
    }
    status.prices_as_of = reading.ages.prices.at.map(whole);
    status.scores_as_of = reading.ages.scores.at.map(whole);
}

fn offers(name: &str, status: &LeftoverNodePoolStatus) -> String {
    format!(
        "NodePool {name} offers {} instance types in {} zones",
        status.selected_instance_types.len(),
        status.selected_zones.len()
    )
}

fn joined(choice: &Choice, running: &joiner_core::leftover::InUse) -> Choice {
    let mut all = choice.clone();
    all.types.extend(running.types.iter().cloned());
    all.zones.extend(running.zones.iter().cloned());
    all
}

fn zones(class: &DynamicObject) -> Option<BTreeSet<Name>> {
    let subnets = class.data["status"]["subnets"].as_array()?;
    let zones: BTreeSet<Name> = subnets
        .iter()
        .filter_map(|one| Some(Name::from(one["zone"].as_str()?)))
        .collect();
    (!zones.is_empty()).then_some(zones)
}

/// What Karpenter says against a class.
fn unready(class: &DynamicObject) -> Option<String> {
    let conditions = class.data["status"]["conditions"].as_array()?;
    let against = |one: &&Value| one["status"] == "False";
    let of = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let detail = conditions
        .iter()
        .filter(against)
        .find(|one| one["type"] != "Ready");
    let ready = conditions
        .iter()
        .filter(against)
        .find(|one| one["type"] == "Ready")?;
    let one = detail.unwrap_or(ready);
    Some(format!("{}: {}", of(one, "type"), of(one, "message")))
}
