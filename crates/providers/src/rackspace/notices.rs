//! Losing a server, and how to see it coming.
//!
//! The cloud announces pre-emption only to a webhook whose form is not published. What can be read are the pools, the
//! bids and the market; six minutes pass between losing a bid and losing its server.

use std::sync::PoisonError;

use joiner_core::money::Money;

use super::bids::Bid;
use super::client::{Outcome, PoolKind};
use super::pools::{is_lost, machine_id, max_price, servers};
use super::types::Pool;
use super::{Market, Rackspace};
use crate::{Notice, NoticeKind, ProviderError};

/// A market that has used up so much of a bid's headroom, in percent, may reach it with its next step.
const NEAR_PERCENT: u32 = 50;

/// How a won bid stands.
enum Standing {
    Safe,
    /// Outbid unless more is bid.
    Threatened(NoticeKind),
}

impl Rackspace {
    /// Looks at every bid of ours: raises those that the market threatens where that is allowed and sensible, and
    /// announces the rest.
    pub(super) async fn watch_bids(&self) -> Result<Vec<Notice>, ProviderError> {
        let pools = self.client.pools(PoolKind::Spot).await?;
        let market = self.market().await.ok();
        let mut notices = Vec::new();
        let mut held = Vec::new();
        for pool in pools.iter().filter(|pool| self.owner().may_own(pool)) {
            if pool.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let name = pool.metadata.name.clone();
            let kind = if servers(PoolKind::Spot, pool) == 0 {
                // A bid that never won anything is no news: its state says so.
                self.was_won(&name).then_some(NoticeKind::Interruption)
            } else if is_lost(PoolKind::Spot, pool) {
                Some(NoticeKind::Interruption)
            } else {
                self.defend(pool, market.as_ref()).await
            };
            if servers(PoolKind::Spot, pool) > 0 || self.was_won(&name) {
                held.push(name.clone());
            }
            notices.extend(kind.map(|kind| Notice {
                id: machine_id(&self.options.cloudspace, PoolKind::Spot, &name),
                kind,
                at: None,
            }));
        }
        *self.won.lock().unwrap_or_else(PoisonError::into_inner) = held.into_iter().collect();
        Ok(notices)
    }

    fn was_won(&self, name: &str) -> bool {
        let won = self.won.lock().unwrap_or_else(PoisonError::into_inner);
        won.contains(name)
    }

    /// Keeps a bid above the market: cheaper than another server, since winners pay the market price anyway.
    async fn defend(&self, pool: &Pool, market: Option<&Market>) -> Option<NoticeKind> {
        let market = market?;
        let class = market.class(&pool.spec.server_class)?;
        let bid = pool.spec.bid_price.as_deref().and_then(Bid::parse)?;
        let quote = self.quote(market, class)?;
        let Standing::Threatened(kind) =
            standing(bid, quote.market, self.options.bids.headroom_percent)
        else {
            return None;
        };
        let announced = (quote.market >= bid.money()).then_some(kind);
        // Whoever pays the price of certainty should have certainty: let it go and be planned anew.
        if quote
            .on_demand
            .is_some_and(|certain| quote.cost() >= certain)
        {
            return announced;
        }
        let policy = self.options.bids.within(max_price(pool));
        let Some(higher) = policy.bid(&quote).filter(|higher| *higher > bid) else {
            return announced;
        };
        let name = &pool.metadata.name;
        match self.client.raise_bid(name, higher).await {
            Ok(Outcome::Done(_)) => {
                tracing::info!(pool = %name, class = %pool.spec.server_class, from = %bid, to = %higher,
                    market = %quote.market, "bid raised");
                return None;
            }
            Ok(Outcome::Refused(refusal, said)) => {
                let class = class.metadata.name.as_str().into();
                let _ = self.lessons().learn(&class, higher, refusal, market.now);
                tracing::warn!(pool = %name, to = %higher, %said, "a higher bid was refused");
            }
            Ok(Outcome::Exists) => {}
            Err(error) => {
                tracing::warn!(pool = %name, to = %higher, %error, "a bid could not be raised");
            }
        }
        announced
    }
}

fn standing(bid: Bid, market: Money, headroom_percent: u32) -> Standing {
    let bid = bid.money();
    let near = market.percent(100 + headroom_percent * NEAR_PERCENT / 100);
    if market > bid {
        Standing::Threatened(NoticeKind::Interruption)
    } else if near >= bid {
        Standing::Threatened(NoticeKind::Rebalance)
    } else {
        Standing::Safe
    }
}
