//! Rackspace Spot: servers won in an auction, or reserved at a fixed price, that join a cluster run by the cloud.
//!
//! ```text
//!  request ── Owner::pool ──► SpotNodePool / OnDemandNodePool (one per machine, named by its UID)
//!                                   │ won, built: 8 to 45 minutes
//!                                   ▼
//!  machine ◄── Owner::machine ── pool ◄── label nodepool.ngpc.rxt.io/name ── node
//! ```

mod auth;
pub mod bids;
pub mod catalog;
pub mod client;
mod notices;
pub mod pools;
pub mod prices;
pub mod types;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, Catalog};
use secrecy::SecretString;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

pub use self::auth::{CLIENT_ID, TokenSource};
use self::bids::{Bid, BidPolicy, Lessons, Quote};
use self::catalog::Knowledge;
use self::client::{Client, Outcome, PoolKind, is_path_segment};
use self::pools::{Owner, Whose, is_label_value, max_price, parse_id, pool_name};
use self::prices::{Book, FEED_URL, Prices};
use self::types::{Pool, ServerClass};
use crate::http::{Endpoint, EndpointError, Http};
use crate::{
    LaunchRequest, Machine, MachineId, Notice, Provider, ProviderError, RepairPolicy, Timeouts, Uid,
};

/// Where the API is.
pub const API_URL: &str = "https://spot.rackspace.com";
/// Where tokens are exchanged.
pub const OAUTH_URL: &str = "https://login.spot.rackspace.com";

/// How often a bid is made again at what a refusal asked for, before another offering is tried.
const MOST_BIDS: u32 = 4;
/// A market that rose by so much between plan and purchase makes another offering the better one.
const TOLERATED_RISE_PERCENT: u32 = 150;
/// An auction that has not been decided after this never will be.
const DECISION: Duration = Duration::from_mins(20);

const REPAIR: [RepairPolicy; 2] = [
    RepairPolicy {
        condition: "Ready",
        status: "False",
        tolerated: Duration::from_mins(10),
    },
    RepairPolicy {
        condition: "Ready",
        status: "Unknown",
        tolerated: Duration::from_mins(10),
    },
];

/// Says what time it is: the system's clock, or a simulation's.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Which cloudspace, with which credentials, and how to buy.
#[derive(Clone)]
pub struct RackspaceOptions {
    /// What tells our pools from those of other clusters; the value of a label.
    pub cluster_id: String,
    /// What tells our pools from those of other families in this cluster; the value of a label.
    pub family: String,
    /// What stood in the place of `cluster_id` on pools that were made before marks named a family.
    pub older_cluster_id: Option<String>,
    /// Name of the cloudspace: the cluster that servers join.
    pub cloudspace: String,
    /// Organisation by name or id; without it, the one that the token belongs to.
    pub organization: Option<String>,
    /// Where the refresh token of the console comes from.
    pub refresh_token: Arc<dyn TokenSource>,
    /// Client id of the token exchange.
    pub client_id: String,
    /// Where the API is.
    pub api: Endpoint,
    /// Where tokens are exchanged.
    pub oauth: Endpoint,
    /// Where the price feed is.
    pub feed: Endpoint,
    /// How bids are made.
    pub bids: BidPolicy,
    /// How long prices and server classes are used before they are asked for again.
    pub price_ttl: Duration,
    /// Prices older than this are as good as unknown.
    pub price_max_age: Duration,
    /// How long a server may take to become a node.
    pub registration_timeout: Duration,
    /// Name of the catalogue.
    pub catalog: Name,
}

impl RackspaceOptions {
    /// The real cloud, with everything at its default.
    pub fn new(
        cluster_id: impl Into<String>,
        cloudspace: impl Into<String>,
        refresh_token: SecretString,
    ) -> Result<Self, EndpointError> {
        Ok(RackspaceOptions {
            cluster_id: cluster_id.into(),
            family: "karpenter".to_owned(),
            older_cluster_id: None,
            cloudspace: cloudspace.into(),
            organization: None,
            refresh_token: Arc::new(refresh_token),
            client_id: CLIENT_ID.to_owned(),
            api: Endpoint::parse(API_URL, &[])?,
            oauth: Endpoint::parse(OAUTH_URL, &[])?,
            feed: Endpoint::parse(FEED_URL, &[])?,
            bids: BidPolicy::default(),
            price_ttl: Duration::from_secs(30),
            price_max_age: Duration::from_hours(6),
            registration_timeout: Duration::from_mins(45),
            catalog: "rackspace".into(),
        })
    }

    fn check(&self) -> Result<(), ProviderError> {
        let invalid = |text: String| Err(ProviderError::Invalid(text));
        if !is_path_segment(&self.cloudspace) {
            return invalid(if self.cloudspace.is_empty() {
                "Rackspace Spot cloudspace ID is required".to_owned()
            } else {
                format!("cloudspace {:?} is not the name of one", self.cloudspace)
            });
        }
        for (what, text) in [("cluster id", &self.cluster_id), ("family", &self.family)] {
            if !is_label_value(text) {
                return invalid(format!("{what} {text:?} cannot be a label"));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RackspaceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RackspaceOptions")
            .field("cluster_id", &self.cluster_id)
            .field("cloudspace", &self.cloudspace)
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}

struct Classes {
    known: Arc<Vec<ServerClass>>,
    as_of: Timestamp,
    tried: Timestamp,
}

/// One cloudspace of Rackspace Spot.
pub struct Rackspace {
    options: RackspaceOptions,
    client: Client,
    prices: Prices,
    clock: Clock,
    region: OnceCell<Name>,
    classes: AsyncMutex<Option<Classes>>,
    lessons: Mutex<Lessons>,
    /// Pools that have been seen with a server: losing it is news, not having one yet is not.
    won: Mutex<BTreeSet<String>>,
}

/// What is known about the market at one moment.
struct Market {
    classes: Arc<Vec<ServerClass>>,
    book: Arc<Book>,
    now: Timestamp,
}

impl Market {
    fn class(&self, name: &str) -> Option<&ServerClass> {
        self.classes
            .iter()
            .find(|class| class.metadata.name == name)
    }
}

impl Rackspace {
    /// A provider that talks through `http`. Nothing is sent yet.
    pub fn new(http: Http, options: RackspaceOptions, clock: Clock) -> Result<Self, ProviderError> {
        options.check()?;
        Ok(Rackspace {
            client: Client::new(http.clone(), &options, Clock::clone(&clock)),
            prices: Prices::new(http, options.feed.to_string(), options.price_ttl),
            clock,
            region: OnceCell::new(),
            classes: AsyncMutex::new(None),
            lessons: Mutex::default(),
            won: Mutex::default(),
            options,
        })
    }

    /// The region of the cloudspace: the only one whose servers can join it.
    pub async fn region(&self) -> Result<&Name, ProviderError> {
        self.region.get_or_try_init(|| self.find_region()).await
    }

    async fn find_region(&self) -> Result<Name, ProviderError> {
        let name = &self.options.cloudspace;
        let space = match self.client.cloudspace(name).await {
            Err(ProviderError::NotFound(_)) => {
                return Err(ProviderError::Invalid(format!(
                    "the organisation has no cloudspace {name:?}: write the name that the console shows"
                )));
            }
            other => other?,
        };
        if space.spec.region.0.is_empty() {
            return Err(ProviderError::Transient(format!(
                "cloudspace {name:?} has no region"
            )));
        }
        Ok(space.spec.region.0.as_str().into())
    }

    fn owner(&self) -> Owner<'_> {
        Owner {
            cluster: &self.options.cluster_id,
            family: &self.options.family,
            older: self.options.older_cluster_id.as_deref(),
            cloudspace: &self.options.cloudspace,
        }
    }

    fn lessons(&self) -> MutexGuard<'_, Lessons> {
        self.lessons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Server classes from the cache, which keeps the last good list for as long as prices may be old.
    async fn classes(&self, now: Timestamp) -> Result<Arc<Vec<ServerClass>>, ProviderError> {
        let mut slot = self.classes.lock().await;
        let age = |since: Timestamp| now.duration_since(since).unsigned_abs();
        if let Some(last) = slot
            .as_ref()
            .filter(|one| age(one.tried) < self.options.price_ttl)
        {
            return Ok(Arc::clone(&last.known));
        }
        match (self.client.server_classes().await, slot.as_mut()) {
            // An empty list where there was one before is a fault, not a market without servers.
            (Ok(classes), last) if !classes.is_empty() || last.is_none() => {
                let classes = Arc::new(classes);
                *slot = Some(Classes {
                    known: Arc::clone(&classes),
                    as_of: now,
                    tried: now,
                });
                Ok(classes)
            }
            // A person must act, and nothing can be bought until then: it must show.
            (Err(error), _) if !error.passes() => Err(error),
            (outcome, Some(last)) if age(last.as_of) <= self.options.price_max_age => {
                let error = outcome.err().map(|error| error.to_string());
                tracing::warn!(?error, as_of = %last.as_of, "server classes stay what they were");
                last.tried = now;
                Ok(Arc::clone(&last.known))
            }
            (Err(error), _) => Err(error),
            (Ok(_), _) => Err(ProviderError::Transient(
                "the list of server classes is empty".to_owned(),
            )),
        }
    }

    async fn market(&self) -> Result<Market, ProviderError> {
        let now = (self.clock)();
        let classes = self.classes(now).await?;
        let book = self.prices.book(now).await;
        self.lessons().tidy(now);
        Ok(Market { classes, book, now })
    }

    fn knowing<T>(&self, market: &Market, ask: impl FnOnce(&Knowledge<'_>) -> T) -> T {
        let lessons = self.lessons();
        ask(&Knowledge {
            book: &market.book,
            lessons: &lessons,
            policy: &self.options.bids,
            max_age: self.options.price_max_age,
            now: market.now,
        })
    }

    fn quote(&self, market: &Market, class: &ServerClass) -> Option<Quote> {
        self.knowing(market, |knowledge| catalog::quote(class, knowledge))
    }

    /// A pool as a machine, with what is known about its class; nothing is asked for that cannot be had.
    fn shown(
        &self,
        kind: PoolKind,
        pool: &Pool,
        region: &Name,
        market: Option<&Market>,
    ) -> Machine {
        let class = market.and_then(|market| market.class(&pool.spec.server_class));
        let price: Option<Money> = market.zip(class).and_then(|(market, class)| match kind {
            PoolKind::Spot => self.quote(market, class).map(|quote| quote.cost()),
            PoolKind::OnDemand => catalog::on_demand_price(class),
        });
        self.owner().machine(kind, pool, region, class, price)
    }

    /// The machine that was bought for this UID before, however it was paid for.
    async fn bought(&self, uid: &Uid) -> Result<Option<(PoolKind, Pool)>, ProviderError> {
        let name = pool_name(uid);
        for kind in PoolKind::ALL {
            match self.client.pool(kind, &name).await {
                Ok(pool) if self.owner().may_own(&pool) => return Ok(Some((kind, pool))),
                Ok(_) => {
                    return Err(ProviderError::Invalid(format!(
                        "there is a pool {name} that is not ours"
                    )));
                }
                Err(ProviderError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn buy(
        &self,
        kind: PoolKind,
        request: &LaunchRequest,
        bid: Option<Bid>,
    ) -> Result<Outcome, ProviderError> {
        let namespace = self.client.namespace().await?;
        let pool = self.owner().pool(namespace, request, bid)?;
        match self.client.create(kind, &pool).await {
            // The path exists, so what is missing is something that the pool names.
            Err(ProviderError::NotFound(said)) => Err(ProviderError::Invalid(said)),
            Ok(Outcome::Exists) => {
                let pool = self.client.pool(kind, &pool.metadata.name).await?;
                if self.owner().may_own(&pool) {
                    return Ok(Outcome::Done(Box::new(pool)));
                }
                Err(ProviderError::Invalid(format!(
                    "there is a pool {} that is not ours",
                    pool.metadata.name
                )))
            }
            other => other,
        }
    }

    async fn buy_spot(
        &self,
        request: &LaunchRequest,
        class: &ServerClass,
        market: &Market,
    ) -> Result<Pool, ProviderError> {
        let name = &request.purchase.instance_type;
        let sold_out = |why: &str| ProviderError::OutOfCapacity(format!("{name}: {why}"));
        if self.lessons().is_closed(name, market.now) {
            return Err(sold_out("bids on it are refused"));
        }
        let quote = self
            .quote(market, class)
            .ok_or_else(|| sold_out("it cannot be bid on, or its price is not known"))?;
        let planned = request.purchase.price;
        let dear =
            |cost: Money| planned > Money::ZERO && cost > planned.percent(TOLERATED_RISE_PERCENT);
        if dear(quote.cost()) {
            let cost = quote.cost();
            return Err(sold_out(&format!("it costs {cost} by now, not {planned}")));
        }
        let policy = self.options.bids.within(request.max_price);
        let mut bid = policy
            .bid(&quote)
            .ok_or_else(|| sold_out("no bid within the highest price can win"))?;
        let mut said = String::new();
        for _ in 0..MOST_BIDS {
            let refusal = match self.buy(PoolKind::Spot, request, Some(bid)).await? {
                Outcome::Done(pool) => return Ok(*pool),
                Outcome::Exists => break,
                Outcome::Refused(refusal, message) => {
                    said = message;
                    refusal
                }
            };
            tracing::debug!(class = %name, %bid, ?refusal, "bid refused");
            let next = self.lessons().learn(name, bid, refusal, market.now);
            let cost = self
                .quote(market, class)
                .map_or_else(|| quote.cost(), |now| now.cost());
            let limit = policy.max_price.unwrap_or(Money::MAX);
            bid = next
                .filter(|next| next.money() <= limit && !dear(cost))
                .ok_or_else(|| sold_out(&said))?;
        }
        Err(sold_out(&said))
    }
}

#[async_trait]
impl Provider for Rackspace {
    fn name(&self) -> &'static str {
        "rackspace"
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        let region = self.region().await?;
        let market = self.market().await?;
        let name = &self.options.catalog;
        Ok(self.knowing(&market, |knowledge| {
            catalog::catalog(name, region, &market.classes, knowledge)
        }))
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        let region = self.region().await?;
        if let Some((kind, pool)) = self.bought(&request.uid).await? {
            let market = self.market().await.ok();
            return Ok(self.shown(kind, &pool, region, market.as_ref()));
        }
        let wanted = &request.purchase;
        if wanted.zone != *region {
            return Err(ProviderError::Invalid(format!(
                "servers of {} cannot join a cloudspace in {region}",
                wanted.zone
            )));
        }
        let market = self.market().await?;
        let class = market
            .class(&wanted.instance_type)
            .filter(|class| class.spec.region.0 == **region && catalog::is_sold(class))
            .ok_or_else(|| {
                let name = &wanted.instance_type;
                ProviderError::OutOfCapacity(format!("{name} is not sold in {region}"))
            })?;
        let (kind, pool) = match wanted.capacity_type {
            CapacityType::Spot => (
                PoolKind::Spot,
                self.buy_spot(request, class, &market).await?,
            ),
            CapacityType::OnDemand => match self.buy(PoolKind::OnDemand, request, None).await? {
                Outcome::Done(pool) => (PoolKind::OnDemand, *pool),
                Outcome::Exists => return Err(ProviderError::Transient("it exists".to_owned())),
                Outcome::Refused(_, said) => return Err(ProviderError::OutOfCapacity(said)),
            },
            CapacityType::Reserved => {
                return Err(ProviderError::Invalid(
                    "Rackspace Spot sells no reservations".to_owned(),
                ));
            }
        };
        Ok(self.shown(kind, &pool, region, Some(&market)))
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        let (kind, name) = parse_id(&self.options.cloudspace, id)?;
        let pool = self.client.pool(kind, &name).await?;
        if !self.owner().may_own(&pool) {
            return Err(ProviderError::NotFound(format!("{id} is not ours")));
        }
        if pool.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        match self.client.delete(kind, &name).await {
            // It was there a moment ago: gone by our own doing, or another's.
            Err(ProviderError::NotFound(_)) => Ok(()),
            other => other,
        }
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        let (kind, name) = parse_id(&self.options.cloudspace, id)?;
        let region = self.region().await?;
        let pool = self.client.pool(kind, &name).await?;
        if !self.owner().may_own(&pool) {
            return Err(ProviderError::NotFound(format!("{id} is not ours")));
        }
        let market = self.market().await.ok();
        Ok(self.shown(kind, &pool, region, market.as_ref()))
    }

    async fn find(&self, uid: &Uid) -> Result<Machine, ProviderError> {
        let region = self.region().await?;
        let Some((kind, pool)) = self.bought(uid).await? else {
            return Err(ProviderError::NotFound(format!(
                "no pool was made for {}",
                uid.0
            )));
        };
        let market = self.market().await.ok();
        Ok(self.shown(kind, &pool, region, market.as_ref()))
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        let region = self.region().await?;
        let mut pools = Vec::new();
        for kind in PoolKind::ALL {
            let all = self.client.pools(kind).await?;
            pools.extend(all.into_iter().map(|pool| (kind, pool)));
        }
        let market = self.market().await.ok();
        let mut machines: Vec<Machine> = pools
            .iter()
            .filter(|(_, pool)| self.owner().may_own(pool))
            .map(|(kind, pool)| {
                let machine = self.shown(*kind, pool, region, market.as_ref());
                // An older pool is nobody's to miss: only who knows its UID may say that it is theirs.
                let uid = machine.uid.clone();
                let uid = uid.filter(|_| self.owner().whose(pool) == Whose::Ours);
                Machine { uid, ..machine }
            })
            .collect();
        // A page may repeat what another had.
        machines.sort_by(|a, b| a.id.cmp(&b.id));
        machines.dedup_by(|a, b| a.id == b.id);
        Ok(machines)
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        let (kind, name) = parse_id(&self.options.cloudspace, &machine.id)?;
        let pool = self.client.pool(kind, &name).await?;
        if pool.spec.desired != 1 {
            let desired = pool.spec.desired;
            return Ok(Some(format!("its pool wants {desired} servers, not one")));
        }
        let bid = pool.spec.bid_price.as_deref().and_then(Bid::parse);
        Ok(
            match (bid, self.options.bids.within(max_price(&pool)).max_price) {
                (Some(bid), Some(limit)) if bid.money() > limit => Some(format!(
                    "its bid of ${bid} is above the highest price of {limit}"
                )),
                _ => None,
            },
        )
    }

    async fn notices(&self) -> Result<Vec<Notice>, ProviderError> {
        self.watch_bids().await
    }

    async fn concern(&self) -> Option<String> {
        let (trouble, as_of) = self.prices.trouble().await?;
        let since = as_of.map_or_else(
            || "there are no past prices to bid by".to_owned(),
            |as_of| format!("past prices are those of {as_of}"),
        );
        Some(format!("{trouble}; {since}"))
    }

    async fn prices_as_of(&self) -> Option<Timestamp> {
        self.prices.book((self.clock)()).await.as_of
    }

    fn timeouts(&self, _: &Purchase) -> Timeouts {
        Timeouts {
            launch: DECISION.min(self.options.registration_timeout),
            registration: self.options.registration_timeout,
        }
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &REPAIR
    }
}
