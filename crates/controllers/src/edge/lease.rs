//! Who leads: a Lease, after client-go's rules, and a fence that falls before anybody else may take over.
//!
//! Others wait a whole lease from when *they* saw it change or vanish, on their own clocks; we stop a margin before a
//! whole lease from when we *asked* for the last renewal, on ours, and break off what is under way. The margin covers what
//! is still on its way to the server then. docs/concepts/leadership.md has the whole argument.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::edge::clients::{Clients, Fence};
use crate::edge::clock::SharedClock;

/// How to lead.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are; unique to this process.
    pub identity: String,
    /// How long a lease lasts from its last renewal.
    pub duration: Duration,
    /// How often it is renewed, or looked at while another process leads.
    pub period: Duration,
    /// How soon another try follows one that failed.
    pub retry: Duration,
    /// How long before the lease ends nothing is written any more and writes under way are broken off: covers the time
    /// that a request may still be on its way after that.
    pub margin: Duration,
}

impl LeaseOptions {
    /// Karpenter's timing, but renewed three times a lease instead of seven: at rest that is all that is written.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        LeaseOptions {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(15),
            period: Duration::from_secs(5),
            retry: Duration::from_secs(2),
            margin: Duration::from_secs(3),
        }
    }
}

/// Tries to lead, and keeps leading.
pub struct Elector {
    api: Api<Lease>,
    options: LeaseOptions,
    fence: Fence,
    clock: SharedClock,
    leading: watch::Sender<bool>,
    /// Version of the lease that we saw last, and when we saw it first: only our own clock says when it has run out.
    seen: Option<(String, Instant)>,
    /// Since when there is no lease although there was one.
    missing: Option<Instant>,
    /// The lease as we wrote it last: while nobody else does, it need not be read before it is renewed.
    held: Option<Lease>,
}

impl Elector {
    /// Over the lease client; the fence opens and falls with the lease.
    pub fn new(clients: &Clients, options: LeaseOptions, clock: SharedClock) -> Self {
        Elector {
            api: Api::namespaced(clients.lease.clone(), &options.namespace),
            options,
            fence: clients.fence.clone(),
            clock,
            leading: watch::channel(false).0,
            seen: None,
            missing: None,
            held: None,
        }
    }

    /// Whether we lead, as it changes.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.leading.subscribe()
    }

    /// Tries and renews for ever.
    pub async fn run(mut self) {
        loop {
            let asked = Instant::now();
            let mut pause = self.options.period;
            match self.attempt().await {
                Ok(true) => {
                    self.fence
                        .extend(asked + self.options.duration - self.options.margin);
                    if !self.leading.send_replace(true) {
                        info!(
                            lease = self.options.name,
                            identity = self.options.identity,
                            "leading"
                        );
                    }
                }
                Ok(false) => {
                    self.fence.close();
                    if self.leading.send_replace(false) {
                        warn!(
                            lease = self.options.name,
                            "lost the leader election to another process"
                        );
                    }
                }
                Err(error) => {
                    pause = self.options.retry;
                    warn!(%error, "lease could not be renewed");
                    if !self.fence.holds() && self.leading.send_replace(false) {
                        warn!(lease = self.options.name, "lease has expired");
                    }
                }
            }
            tokio::time::sleep_until(asked + pause).await;
        }
    }

    /// Gives the lease back, so that the next leader need not wait.
    pub async fn release(clients: &Clients, options: &LeaseOptions) {
        clients.fence.close();
        let api: Api<Lease> = Api::namespaced(clients.lease.clone(), &options.namespace);
        let Ok(mut lease) = api.get(&options.name).await else {
            return;
        };
        let Some(spec) = lease.spec.as_mut() else {
            return;
        };
        if spec.holder_identity.as_deref() == Some(&options.identity) {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            if let Err(error) = api
                .replace(&options.name, &PostParams::default(), &lease)
                .await
            {
                warn!(%error, "lease could not be released");
            }
        }
    }

    /// One try: whether we hold the lease afterwards.
    async fn attempt(&mut self) -> Result<bool, kube::Error> {
        if let Some(lease) = self.held.take() {
            match self.write(lease).await {
                // Somebody else wrote or deleted it: then it has to be read.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                renewed => return renewed,
            }
        }
        let Some(lease) = self.api.get_opt(&self.options.name).await? else {
            if !self.may_create() {
                return Ok(false);
            }
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.options.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.claim(None)),
            };
            let made = self.api.create(&PostParams::default(), &lease).await?;
            self.note(&made);
            self.held = Some(made);
            return Ok(true);
        };
        let first_seen = self.note(&lease);
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let lasts = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(self.options.duration, Duration::from_secs);
        if !holder.is_empty() && holder != self.options.identity && first_seen.elapsed() < lasts {
            return Ok(false);
        }
        self.write(lease).await
    }

    /// Writes the lease as ours. The resourceVersion in the object makes this fail if anybody else was faster; another
    /// error leaves open who holds it, and the fence runs down by itself.
    async fn write(&mut self, mut lease: Lease) -> Result<bool, kube::Error> {
        lease.spec = Some(self.claim(lease.spec.as_ref()));
        let name = &self.options.name;
        let written = self
            .api
            .replace(name, &PostParams::default(), &lease)
            .await?;
        self.note(&written);
        self.held = Some(written);
        Ok(true)
    }

    /// Remembers a version of the lease; when it was seen first.
    fn note(&mut self, lease: &Lease) -> Instant {
        self.missing = None;
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        match &self.seen {
            Some((seen, at)) if *seen == version => *at,
            _ => {
                let now = Instant::now();
                self.seen = Some((version, now));
                now
            }
        }
    }

    /// Whether a lease that is not there may be made. Whoever deletes a lease takes it from nobody: its holder goes on
    /// until it finds out. The holder itself may make it anew at once, others after a whole lease; only a process that
    /// never saw one takes it that nobody leads.
    fn may_create(&mut self) -> bool {
        if self.seen.is_none() || self.fence.holds() {
            return true;
        }
        let missing = *self.missing.get_or_insert_with(Instant::now);
        missing.elapsed() >= self.options.duration
    }

    fn claim(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        let mut spec = before.cloned().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(&self.options.identity) {
            spec.holder_identity = Some(self.options.identity.clone());
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions =
                Some(before.map_or(0, |old| old.lease_transitions.unwrap_or(0) + 1));
        }
        spec.lease_duration_seconds = i32::try_from(self.options.duration.as_secs()).ok();
        spec.renew_time = Some(now);
        spec
    }
}
