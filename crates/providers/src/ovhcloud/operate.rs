//! Reading, growing, shrinking and tidying: everything that happens under the one lock on the fleet.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;

use super::errors::{Meaning, Refused};
use super::fleet::{Entry, Fleet, Made, Order, not_leading, passed};
use super::pools::{self, ANTI_AFFINITY_NODES, Shape, stray_node};
use super::types::{Node, PoolChange};
use super::{Ovh, flavors};
use crate::{LaunchRequest, LedgerEntry, ProviderError, Uid};

/// How old the reading may be that reads are answered from.
pub(super) const FRESH: Duration = Duration::from_secs(10);
/// How long a reading that failed is not repeated.
const FAILED: Duration = Duration::from_secs(5);
/// How old it may be when the calls of this minute are needed for writes.
const SHORT: Duration = Duration::from_mins(1);
/// How old it may be when nodes are named that are to go.
const JUST_READ: Duration = Duration::from_secs(2);
/// Calls that readings leave for writes.
const KEPT_FOR_WRITES: u32 = 4;
/// Nodes of a pool in which nothing moves are read so often, where they have to be read pool by pool.
const POOL_TRUST: Duration = Duration::from_mins(10);
/// How long a pool stays empty before it is removed: churn of one shape reuses it.
const EMPTY: Duration = Duration::from_mins(5);
/// How long a permission that is missing is not tried again.
const REFUSED: Duration = Duration::from_hours(1);
/// How long a flavour is left alone that was out of stock or over quota.
const LEFT_ALONE: Duration = Duration::from_mins(5);
/// How often a launch begins again because a refusal has taught something.
const LESSONS: usize = 4;

/// A machine to be placed.
pub(super) struct Wanted<'a> {
    pub(super) request: &'a LaunchRequest,
    pub(super) answer: Option<Result<(), ProviderError>>,
}

impl Ovh {
    /// Loads the ledger, once in each leadership.
    pub(super) async fn load(&self, fleet: &mut Fleet) -> Result<(), ProviderError> {
        let term = self.options.ledger.term();
        if term.is_some() && fleet.term == term {
            return Ok(());
        }
        let entries = self.options.ledger.load().await?;
        let mut read = BTreeMap::new();
        for LedgerEntry { key, value } in entries {
            let entry: Entry = serde_json::from_str(&value).map_err(|error| {
                ProviderError::Invalid(format!(
                    "the record of machine {key} cannot be read: {error}; nothing is bought or removed until it is \
                     mended or deleted"
                ))
            })?;
            read.insert(key, entry);
        }
        *fleet = Fleet {
            term,
            entries: read,
            began: Some(self.now()),
            ..Fleet::default()
        };
        Ok(())
    }

    async fn store(
        &self,
        fleet: &mut Fleet,
        uid: &Name,
        entry: Entry,
    ) -> Result<(), ProviderError> {
        let value = serde_json::to_string(&entry)
            .map_err(|error| ProviderError::Invalid(error.to_string()))?;
        let key = uid.clone();
        self.options
            .ledger
            .store(&LedgerEntry { key, value })
            .await?;
        fleet.entries.insert(uid.clone(), entry);
        Ok(())
    }

    async fn erase(&self, fleet: &mut Fleet, uid: &Name) -> Result<(), ProviderError> {
        self.options.ledger.erase(uid).await?;
        fleet.entries.remove(uid);
        Ok(())
    }

    /// Sees to it that the reading is not older than `age`. One that failed a moment ago is not repeated: calls are too
    /// few to fail once for each machine.
    pub(super) async fn refresh(
        &self,
        fleet: &mut Fleet,
        age: Duration,
    ) -> Result<(), ProviderError> {
        if let Some((at, error)) = &fleet.failed
            && passed(self.now(), *at) < FAILED
        {
            return Err(error.clone());
        }
        let read = self.read(fleet, age).await;
        fleet.failed = read.as_ref().err().map(|error| (self.now(), error.clone()));
        read
    }

    /// Sees to it that the reading is not older than `age`, gives new nodes to the machines that wait for them, and
    /// forgets machines whose nodes are gone.
    async fn read(&self, fleet: &mut Fleet, age: Duration) -> Result<(), ProviderError> {
        let now = self.now();
        if let Some(read) = fleet.read {
            let old = passed(now, read);
            let spare = self.client.spare().await;
            if fleet.unread() == 0
                && (old < age || (old < SHORT.max(age) && spare < KEPT_FOR_WRITES))
            {
                return Ok(());
            }
        }
        let site = self.site().await?;
        let kube = site.kube.as_str();
        let pools = self.client.pools(kube).await.map_err(not_an_answer)?;
        fleet.take_pools(pools, |pool| self.options.mark.owns(pool), now);
        if self.may_try("GET node", now) {
            match self.client.nodes(kube).await {
                Ok(all) => {
                    let mut by_pool: BTreeMap<String, Vec<Node>> = BTreeMap::new();
                    for node in all {
                        by_pool
                            .entry(node.node_pool_id.clone())
                            .or_default()
                            .push(node);
                    }
                    let own: Vec<(String, String)> = fleet
                        .pools
                        .values()
                        .map(|pool| (pool.name.clone(), pool.id.clone()))
                        .collect();
                    for (name, id) in own {
                        fleet.take_nodes(&name, by_pool.remove(&id).unwrap_or_default(), now);
                    }
                }
                Err(Refused {
                    meaning: Meaning::NotGranted(call),
                    ..
                }) => self.note_refused("GET node", &call, now),
                Err(refused) => return Err(not_an_answer(refused)),
            }
        }
        self.read_pools(fleet, kube, now).await?;
        self.settle(fleet).await?;
        self.catch_up(fleet).await;
        self.tidy(fleet, kube).await;
        Ok(())
    }

    /// Tells pools what could not be told before: they were not listed yet, or the call failed.
    async fn catch_up(&self, fleet: &mut Fleet) {
        if self.options.ledger.term().is_none() {
            return;
        }
        let known: Vec<String> = fleet
            .pools
            .values()
            .filter(|pool| !pool.is_leaving() && fleet.nodes.contains_key(&pool.id))
            .map(|pool| pool.name.clone())
            .collect();
        for name in known {
            if let Err(refused) = self.sync(fleet, &name, None).await {
                tracing::warn!(pool = %name, error = %refused.error, "a node pool is not what it should be yet");
            }
        }
    }

    /// Reads nodes pool by pool, as many as there are calls to spare: those that have been unread longest.
    async fn read_pools(
        &self,
        fleet: &mut Fleet,
        kube: &str,
        now: Timestamp,
    ) -> Result<(), ProviderError> {
        if self.may_try("GET node", now) {
            return Ok(());
        }
        let stale = fleet.stale(now, POOL_TRUST);
        let unread = fleet.unread();
        let spare = self.client.spare().await.saturating_sub(KEPT_FOR_WRITES);
        let most = usize::try_from(spare).unwrap_or(0).max(1);
        for (name, id) in stale.into_iter().take(most.max(unread)) {
            let begun = self.now();
            match self.client.pool_nodes(kube, &id).await {
                Ok(nodes) => fleet.take_nodes(&name, nodes, begun),
                // Listed and not there: just made, or just gone. The next list says which.
                Err(Refused {
                    meaning: Meaning::NotFound,
                    ..
                }) => fleet.take_nodes(&name, Vec::new(), begun),
                Err(refused) => return Err(not_an_answer(refused)),
            }
        }
        Ok(())
    }

    /// Gives nodes to machines and forgets machines that are gone, in the ledger first.
    async fn settle(&self, fleet: &mut Fleet) -> Result<(), ProviderError> {
        if self.options.ledger.term().is_none() {
            return Ok(());
        }
        let now = self.now();
        for uid in fleet.gone(now) {
            self.erase(fleet, &uid).await?;
        }
        let names: Vec<String> = fleet.pools.keys().cloned().collect();
        for name in names {
            self.bind(fleet, &name).await?;
        }
        Ok(())
    }

    /// Gives the nodes of a pool that are no machine's to machines of the pool that have none.
    async fn bind(&self, fleet: &mut Fleet, name: &str) -> Result<(), ProviderError> {
        for (uid, entry) in fleet.bindings(name) {
            if let Some(node) = fleet
                .nodes_of(&entry.pool)
                .iter()
                .find(|node| Some(&node.id) == entry.node.as_ref())
                .filter(|node| node.status == "FLAVOR_OUT_OF_STOCK_ERROR")
            {
                tracing::info!(node = %node.id, flavor = %entry.flavor, "out of stock");
                self.leave_alone(&entry.flavor, &entry.zone, self.now());
            }
            self.store(fleet, &uid, entry).await?;
        }
        Ok(())
    }

    /// Removes pools that have been empty for a while, at once when pools are short.
    async fn tidy(&self, fleet: &mut Fleet, kube: &str) {
        if self.options.ledger.term().is_none() {
            return;
        }
        let now = self.now();
        let short = fleet.pool_count * 10 >= self.most_pools() * 9;
        let mut budget = 2;
        for (name, id, since) in fleet.note_empty(now) {
            let desired = fleet.pools.get(&name).map_or(0, |pool| pool.desired_nodes);
            let waited = passed(now, since);
            if budget == 0 || (waited < EMPTY && !(short && desired == 0)) {
                continue;
            }
            budget -= 1;
            let outcome = if desired > 0 {
                // Somebody wanted nodes here and is not there any more.
                let change = PoolChange::default();
                self.client.change(kube, &id, &change).await
            } else {
                self.client.delete(kube, &id).await
            };
            match outcome {
                Ok(()) => {
                    tracing::info!(pool = %name, "removed an empty node pool");
                    if let Some(pool) = fleet.pools.get_mut(&name) {
                        if desired > 0 {
                            pool.desired_nodes = 0;
                        } else {
                            "DELETING".clone_into(&mut pool.status);
                        }
                    }
                }
                Err(refused) => {
                    tracing::debug!(pool = %name, error = %refused.error, "an empty node pool stays for now");
                }
            }
        }
    }

    /// Tells a pool what its machines ask for, if it has not been told.
    pub(super) async fn sync(
        &self,
        fleet: &mut Fleet,
        name: &str,
        shape: Option<&Shape>,
    ) -> Result<(), Refused> {
        let now = self.now();
        // A node that the service made in place of a lost one is there for whichever machine comes next.
        self.bind(fleet, name).await?;
        let mut given_up = fleet.given_up(name, now);
        let mut order = fleet.order(name, &given_up);
        let site = self.site().await?;
        if fleet.shrinks(name, &order)
            && !fleet.is_told(name, &order, now)
            && self.look_again(fleet, &site.kube, name).await?
        {
            given_up = fleet.given_up(name, now);
            order = fleet.order(name, &given_up);
        }
        if !fleet.is_told(name, &order, now) {
            self.tell(fleet, &site.kube, name, &order, shape).await?;
        }
        for uid in given_up {
            self.erase(fleet, &uid).await?;
        }
        Ok(())
    }

    /// Reads the nodes of a pool again before it shrinks, unless that was just done. For a node that it has lost meanwhile,
    /// or that it has made and nobody has looked at yet, the service would choose another to go.
    async fn look_again(&self, fleet: &mut Fleet, kube: &str, name: &str) -> Result<bool, Refused> {
        let now = self.now();
        let Some(id) = fleet.aged(name, now, JUST_READ) else {
            return Ok(false);
        };
        let nodes = self.client.pool_nodes(kube, &id).await;
        let nodes = nodes.map_err(not_an_answer)?;
        fleet.take_nodes(name, nodes, now);
        self.bind(fleet, name).await?;
        Ok(true)
    }

    async fn tell(
        &self,
        fleet: &mut Fleet,
        kube: &str,
        name: &str,
        order: &Order,
        shape: Option<&Shape>,
    ) -> Result<(), Refused> {
        let now = self.now();
        let id = fleet
            .pools
            .get(name)
            .map(|pool| pool.id.clone())
            .or_else(|| fleet.made.get(name).and_then(|made| made.id.clone()));
        if let Some(id) = id {
            let change = PoolChange {
                desired_nodes: order.desired,
                nodes_to_remove: order.victims.clone(),
            };
            tracing::info!(pool = %name, desired = order.desired, remove = ?order.victims, "changing a node pool");
            match self.client.change(kube, &id, &change).await {
                Ok(()) => {
                    fleet.told(name, order, now);
                    return Ok(());
                }
                // Just made, and not there for everybody yet: the next reading tells it.
                Err(refused)
                    if refused.meaning == Meaning::NotFound && fleet.made.contains_key(name) =>
                {
                    return Ok(());
                }
                Err(refused) if refused.meaning == Meaning::NotFound => {
                    fleet.read = None;
                    let error = ProviderError::Transient(refused.error.to_string());
                    return Err(error.into());
                }
                Err(refused) => {
                    fleet.read = None;
                    return Err(refused);
                }
            }
        }
        if fleet.made.contains_key(name) {
            // Made by a call whose answer was lost: the next reading tells it.
            return Ok(());
        }
        let Some(shape) = shape else {
            // Nobody can say what it should look like, and nothing of it is there.
            return Ok(());
        };
        let max = self.most_nodes(shape.anti_affinity);
        let pool = shape.pool(&self.options.mark, name, order.desired, max, self.zoned());
        tracing::info!(pool = %name, desired = order.desired, "making a node pool");
        let made = |id: Option<String>, desired: u32| Made {
            at: now,
            id,
            desired,
        };
        match self.client.create(kube, &pool).await {
            Ok(new) => {
                let id = Some(new.id).filter(|id| !id.is_empty());
                fleet
                    .made
                    .insert(name.to_owned(), made(id, pool.desired_nodes));
                fleet.grown.insert(name.to_owned(), now);
                Ok(())
            }
            // An earlier call whose answer was lost.
            Err(refused) if refused.meaning == Meaning::Exists => {
                fleet.made.insert(name.to_owned(), made(None, 0));
                fleet.read = None;
                Ok(())
            }
            Err(refused) => {
                fleet.read = None;
                Err(refused)
            }
        }
    }

    /// Finds places for machines, writes them down, and lets the pools grow: one call for each pool.
    pub(super) async fn place(
        &self,
        fleet: &mut Fleet,
        wanted: &mut [Wanted<'_>],
    ) -> Result<(), ProviderError> {
        if self.options.ledger.term().is_none() {
            return Err(not_leading());
        }
        for _ in 0..LESSONS {
            let groups = self.assign(fleet, wanted).await?;
            let mut learned = false;
            for (name, (shape, uids)) in groups {
                let outcome = self.grow(fleet, &name, &shape, uids, wanted).await;
                learned |= outcome?;
            }
            if !learned {
                break;
            }
        }
        for one in wanted.iter_mut().filter(|one| one.answer.is_none()) {
            one.answer = Some(Err(ProviderError::Transient(
                "the API refuses what it asked for before; trying again".to_owned(),
            )));
        }
        Ok(())
    }

    /// Which pool each machine comes from. Machines that have one keep it.
    async fn assign(
        &self,
        fleet: &mut Fleet,
        wanted: &mut [Wanted<'_>],
    ) -> Result<BTreeMap<String, (Shape, Vec<Name>)>, ProviderError> {
        let now = self.now();
        let mut groups: BTreeMap<String, (Shape, Vec<Name>)> = BTreeMap::new();
        let mut fresh: Vec<String> = Vec::new();
        for one in wanted.iter_mut().filter(|one| one.answer.is_none()) {
            let uid = one.request.uid.0.clone();
            let shape = self.shape(one.request);
            if let Some(entry) = fleet.entries.get(&uid) {
                if entry.leaving.is_some() || entry.node.is_some() {
                    one.answer = Some(Ok(()));
                } else {
                    // Bought before; its shape may have changed since, its pool has not.
                    let shape = self.shape_in(&shape, &entry.pool);
                    let group = groups.entry(entry.pool.clone());
                    group.or_insert_with(|| (shape, Vec::new())).1.push(uid);
                }
                continue;
            }
            if let Err(error) = self.check(one.request).await {
                one.answer = Some(Err(error));
                continue;
            }
            let (shape, name) = match self.choose(fleet, &shape, &mut fresh) {
                Ok(found) => found,
                Err(error) => {
                    one.answer = Some(Err(error));
                    continue;
                }
            };
            let entry = Entry {
                pool: name.clone(),
                flavor: shape.flavor.clone(),
                zone: shape.zone.clone(),
                node: None,
                at: now,
                leaving: None,
            };
            if let Some(place) = fleet.free_place(&name) {
                self.erase(fleet, &place).await?;
            }
            self.store(fleet, &uid, entry).await?;
            groups
                .entry(name)
                .or_insert_with(|| (shape, Vec::new()))
                .1
                .push(uid);
        }
        Ok(groups)
    }

    /// A pool of the shape that has room, or the next one to be made.
    fn choose(
        &self,
        fleet: &Fleet,
        shape: &Shape,
        fresh: &mut Vec<String>,
    ) -> Result<(Shape, String), ProviderError> {
        let most_pools = self.most_pools();
        let count = fleet.count() + fresh.len();
        let short = count * 10 >= most_pools * 9;
        let shapes = [Some(shape.clone()), short.then(|| shape.bared())];
        let mut new = None;
        for shape in shapes.into_iter().flatten() {
            let room = usize::try_from(self.most_nodes(shape.anti_affinity)).unwrap_or(usize::MAX);
            for number in 1..=u32::try_from(most_pools).unwrap_or(100) {
                let name = shape.pool_name(&self.options.mark, number);
                let listed = fleet.pools.get(&name);
                if listed.is_some_and(|pool| pool.is_leaving() || pool.is_broken()) {
                    continue;
                }
                let room = room.min(self.learned_room(&name));
                let known = listed.is_some()
                    || fleet.made.contains_key(&name)
                    || fresh.contains(&name)
                    || fleet.entries.values().any(|one| one.pool == name);
                if !known {
                    // The last shape is the one that the fewest pools are needed for.
                    new = Some((shape.clone(), name));
                    break;
                }
                if fleet.taken(&name) < room {
                    return Ok((shape, name));
                }
            }
        }
        let (shape, name) = new.ok_or_else(|| {
            ProviderError::OutOfCapacity("every node pool of this shape is full".to_owned())
        })?;
        if count >= most_pools {
            let free = if fleet.empty.is_empty() {
                "none of them is empty"
            } else {
                "an empty one is being removed"
            };
            return Err(ProviderError::OutOfCapacity(format!(
                "the cluster has {count} node pools and may have {most_pools}; {free}"
            )));
        }
        fresh.push(name.clone());
        Ok((shape, name))
    }

    /// Lets one pool grow by the machines that were given to it. Says whether something was learned that makes another
    /// try worth while. Machines that were refused are taken out of the ledger again.
    async fn grow(
        &self,
        fleet: &mut Fleet,
        name: &str,
        shape: &Shape,
        mut uids: Vec<Name>,
        wanted: &mut [Wanted<'_>],
    ) -> Result<bool, ProviderError> {
        loop {
            let refused = match self.sync(fleet, name, Some(shape)).await {
                Ok(()) => {
                    answer(wanted, &uids, &Ok(()));
                    return Ok(false);
                }
                Err(refused) => refused,
            };
            let now = self.now();
            match &refused.meaning {
                // Whether it took effect is not known: the ledger keeps the machines, and asking again is safe.
                Meaning::Transient
                | Meaning::Throttled
                | Meaning::Busy
                | Meaning::Exists
                | Meaning::Clock
                | Meaning::NotFound => {
                    answer(wanted, &uids, &Err(refused.error));
                    return Ok(false);
                }
                Meaning::Quota if uids.len() > 1 => {
                    // Fewer may still fit.
                    let keep = uids.len() / 2;
                    let over = uids.split_off(keep);
                    for uid in &over {
                        self.erase(fleet, uid).await?;
                    }
                    answer(wanted, &over, &Err(refused.error));
                    continue;
                }
                _ => {}
            }
            for uid in &uids {
                self.erase(fleet, uid).await?;
            }
            let lesson = self.learn(fleet, name, shape, &refused, now);
            if !lesson {
                answer(wanted, &uids, &Err(refused.error));
            }
            return Ok(lesson);
        }
    }

    /// Remembers what a refusal teaches; says whether another try may do better.
    fn learn(
        &self,
        fleet: &Fleet,
        name: &str,
        shape: &Shape,
        refused: &Refused,
        now: Timestamp,
    ) -> bool {
        let mut lessons = self.lessons();
        match &refused.meaning {
            Meaning::SingleZone => {
                let first = lessons.zoned != Some(false);
                lessons.zoned = Some(false);
                first
            }
            Meaning::ZoneWanted => {
                lessons.zoned = Some(true);
                false
            }
            Meaning::NoMonthly => lessons.no_monthly.insert(shape.flavor.clone()),
            Meaning::PoolLimit => {
                let most = fleet.count().max(1);
                let first = lessons.most_pools != Some(most);
                lessons.most_pools = Some(most);
                first
            }
            Meaning::NodeLimit => {
                let most = fleet.taken(name).max(1);
                lessons.room.insert(name.to_owned(), most) != Some(most)
            }
            Meaning::Quota => {
                let cores = lessons.cores.get(&shape.flavor).copied().unwrap_or(0);
                lessons.over_quota = Some((cores, now));
                false
            }
            Meaning::OutOfStock => {
                let key = (shape.flavor.clone(), shape.zone.clone());
                lessons.sold_out.insert(key, now);
                false
            }
            _ => false,
        }
    }

    /// Leaves a flavour alone for a while.
    fn leave_alone(&self, flavor: &str, zone: &str, now: Timestamp) {
        let key = (flavor.to_owned(), zone.to_owned());
        self.lessons().sold_out.insert(key, now);
    }

    /// Why a flavour should not be bought now, if so.
    pub(super) fn shunned(&self, flavor: &str, zone: &str, now: Timestamp) -> Option<&'static str> {
        let lessons = self.lessons();
        let key = (flavor.to_owned(), zone.to_owned());
        let recent = |at: &Timestamp| passed(now, *at) < LEFT_ALONE;
        if lessons.sold_out.get(&key).is_some_and(recent) {
            return Some("it was out of stock a few minutes ago");
        }
        let cores = lessons.cores.get(flavor).copied().unwrap_or(0);
        match &lessons.over_quota {
            Some((most, at)) if recent(at) && cores >= *most => {
                Some("the quota of the project was used up a few minutes ago")
            }
            _ => None,
        }
    }

    /// Marks machines as leaving and lets their pools shrink: one call for each pool, naming the nodes.
    pub(super) async fn dismiss(
        &self,
        fleet: &mut Fleet,
        leaving: Vec<Uid>,
    ) -> Result<(), ProviderError> {
        if self.options.ledger.term().is_none() {
            return Err(not_leading());
        }
        let now = self.now();
        for uid in leaving {
            let uid = uid.0;
            let entry = match fleet.entries.get(&uid) {
                Some(entry) if entry.leaving.is_some() => continue,
                Some(entry) => entry.clone(),
                None => match stray_entry(fleet, &uid, now) {
                    Some(entry) => entry,
                    None => continue,
                },
            };
            let entry = Entry {
                leaving: Some(now),
                ..entry
            };
            self.store(fleet, &uid, entry).await?;
        }
        Ok(())
    }

    /// The shape that a request asks for with the class as it is.
    pub(super) fn shape(&self, request: &LaunchRequest) -> Shape {
        let monthly = self.pays_monthly(&request.purchase.instance_type);
        let options = &self.options;
        Shape::of(request, monthly, options.anti_affinity, &options.tags)
    }

    /// The shape that leads to this pool: bare pools are found by the bare shape.
    fn shape_in(&self, shape: &Shape, pool: &str) -> Shape {
        let bare = shape.bared();
        let head = bare.pool_name(&self.options.mark, 1);
        if pool.starts_with(&head) {
            bare
        } else {
            shape.clone()
        }
    }

    /// Whether machines of a flavour are paid by the month.
    pub(super) fn pays_monthly(&self, flavor: &str) -> bool {
        self.options.monthly_billed
            && flavors::is_gen2(flavor)
            && !self.lessons().no_monthly.contains(flavor)
    }

    pub(super) fn most_pools(&self) -> usize {
        let learned = self.lessons().most_pools;
        learned.unwrap_or(self.options.max_pools)
    }

    fn most_nodes(&self, anti_affinity: bool) -> u32 {
        if anti_affinity {
            ANTI_AFFINITY_NODES
        } else {
            self.options.max_pool_nodes
        }
    }

    fn learned_room(&self, name: &str) -> usize {
        self.lessons().room.get(name).copied().unwrap_or(usize::MAX)
    }

    /// Whether an optional call is worth trying.
    pub(super) fn may_try(&self, call: &'static str, now: Timestamp) -> bool {
        let lessons = self.lessons();
        lessons
            .refused
            .get(call)
            .is_none_or(|at| passed(now, *at) >= REFUSED)
    }

    /// Remembers that an optional call is not granted.
    pub(super) fn note_refused(&self, call: &'static str, full: &str, now: Timestamp) {
        if self.lessons().refused.insert(call, now).is_none() {
            tracing::info!(call = %full, "this optional call is not granted; doing without");
        }
    }
}

/// A node that nobody asked for, as a machine to be removed.
fn stray_entry(fleet: &Fleet, uid: &str, now: Timestamp) -> Option<Entry> {
    let id = stray_node(uid)?;
    let pool = fleet
        .pools
        .values()
        .find(|pool| fleet.strays(&pool.name).iter().any(|node| node.id == id))?;
    Some(Entry {
        pool: pool.name.clone(),
        flavor: pool.flavor.clone(),
        zone: pool
            .availability_zones
            .first()
            .cloned()
            .unwrap_or_else(|| pools::SINGLE_ZONE.to_owned()),
        node: Some(id.to_owned()),
        at: now,
        leaving: None,
    })
}

/// A list that is not there is not an empty list, and never means that machines are gone.
pub(super) fn not_an_answer(refused: Refused) -> ProviderError {
    match refused.error {
        ProviderError::NotFound(said) => ProviderError::Transient(said),
        other => other,
    }
}

fn answer(wanted: &mut [Wanted<'_>], uids: &[Name], said: &Result<(), ProviderError>) {
    for one in wanted {
        if uids.contains(&one.request.uid.0) {
            one.answer = Some(said.clone());
        }
    }
}
