//! The regions of a pool: read, compared, told. Instances are offered in the region of the cluster only, because its
//! Karpenter launches nowhere else; what the comparison decides is whether they are offered there just now.

use joiner_api::leftover::{LeftoverNodePool, LeftoverNodePoolStatus, RegionPolicy, RegionStatus};
use joiner_core::leftover::{Comparison, RegionQuote, Wanted, compare_regions};
use kube::ResourceExt as _;
use tracing::info;

use super::metrics::PoolRegion;
use super::report::about;
use super::{Known, Leftover, objects, render};
use crate::edge::events::Severity;
use crate::operator::Seat;

impl Leftover {
    /// Compares the regions of a pool, if it names others, and says so in its status. Returns why no new nodes are to be
    /// offered here, if so.
    pub(super) async fn regions(
        &self,
        seat: &Seat,
        pool: &LeftoverNodePool,
        known: &mut Known,
        wanted: &Wanted,
        status: &mut LeftoverNodePoolStatus,
    ) -> Option<String> {
        let regions = pool.spec.compared_regions();
        let before = status.recommended_region.take();
        status.regions.clear();
        if regions.is_empty() {
            known.behind = None;
            return None;
        }
        let home = pool.spec.region.as_str();
        let target = u32::try_from(pool.spec.target_count()).unwrap_or(1);
        let markets = Box::pin(self.aws.compare(home, &regions, wanted, target)).await;
        let policy = &self.options.policy;
        let behind = match known.behind {
            Some(behind) => behind,
            // After a restart a pool that is closed was closed for long enough.
            None if is_closed(seat, pool).await => policy.patience,
            None => 0,
        };
        let held = before.as_deref();
        let compared = compare_regions(&markets, wanted, home, held, policy, behind);
        known.behind = Some(compared.behind);
        self.measure_regions(pool, known, &compared);
        let recommended = compared.recommended.as_ref().map(ToString::to_string);
        if recommended != before
            && let Some(name) = &recommended
        {
            let message = recommendation(&compared, name, home);
            info!(pool = %pool.name_any(), "{message}");
            let about = about(pool);
            seat.events
                .say(&about, Severity::Normal, "RegionRecommended", &message);
        }
        status.recommended_region = recommended;
        status.regions = compared.quotes.iter().map(described).collect();
        let better = compared.better?;
        (pool.spec.region_policy() == RegionPolicy::BestOnly).then(|| {
            format!(
                "region {better} is clearly cheaper than {home} (spec.regionPolicy is BestOnly): no new nodes are \
                 offered here, those that run stay"
            )
        })
    }

    fn measure_regions(&self, pool: &LeftoverNodePool, known: &mut Known, compared: &Comparison) {
        let label = |region: &str| PoolRegion {
            pool: pool.name_any(),
            region: region.to_owned(),
        };
        for quote in &compared.quotes {
            let label = label(&quote.region);
            let best = quote.best.as_ref().filter(|_| quote.is_viable());
            match best {
                Some(best) => {
                    let dollars = best.per_gpu.money().dollars();
                    self.metrics
                        .region_per_gpu
                        .get_or_create(&label)
                        .set(dollars);
                }
                None => {
                    self.metrics.region_per_gpu.remove(&label);
                }
            }
            let recommended = compared.recommended.as_ref() == Some(&quote.region);
            self.metrics
                .region_recommended
                .get_or_create(&label)
                .set(i64::from(recommended));
        }
        let now = compared
            .quotes
            .iter()
            .map(|one| one.region.to_string())
            .collect();
        let before = std::mem::replace(&mut known.regions, now);
        for gone in before.difference(&known.regions) {
            self.metrics.forget_region(&label(gone));
        }
    }
}

/// Whether the pool's NodePool takes no more nodes.
async fn is_closed(seat: &Seat, pool: &LeftoverNodePool) -> bool {
    if pool.spec.region_policy() != RegionPolicy::BestOnly {
        return false;
    }
    let pools = objects::pools(seat.clients.reads.clone());
    let there = pools.get_opt(&render::pool_name(pool)).await;
    there.is_ok_and(|one| one.is_some_and(|one| one.data["spec"]["limits"]["cpu"] == "0"))
}

fn described(quote: &RegionQuote) -> RegionStatus {
    let best = quote.best.as_ref();
    RegionStatus {
        region: quote.region.to_string(),
        instance_type: best.map(|one| one.type_name.to_string()),
        zone: best.map(|one| one.zone.to_string()),
        price_per_gpu: best.map(|one| format!("{:.4}", one.per_gpu.money().dollars())),
        score: quote.score.map(i64::from),
        message: (!quote.is_viable()).then(|| quote.verdict.to_string()),
    }
}

fn recommendation(compared: &Comparison, name: &str, home: &str) -> String {
    let find = |name: &str| compared.quotes.iter().find(|one| &*one.region == name);
    let price = |name: &str| {
        let quote = find(name).filter(|one| one.is_viable())?;
        Some(quote.best.as_ref()?.per_gpu.money().dollars())
    };
    let of = compared.quotes.len();
    let best = find(name).and_then(|one| one.best.as_ref());
    let what = best.map(|one| {
        format!(
            ": {} in {} at ${:.4} per GPU",
            one.type_name,
            one.zone,
            one.per_gpu.money().dollars()
        )
    });
    let here = match price(home) {
        _ if name == home => String::new(),
        Some(here) => format!(", here ${here:.4}"),
        None => ", nothing viable here".to_owned(),
    };
    format!(
        "{name} is the best of {of} regions{}{here}",
        what.unwrap_or_default()
    )
}
