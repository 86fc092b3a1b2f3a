//! Rackspace's client on the wire: what it sends, byte for byte, and what it makes of the answers.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::time::Duration;

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::CapacityType;
use joiner_core::resources::Resources;
use joiner_core::taints::{Effect, Taint};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::http::Http;
use joiner_providers::rackspace::bids::{BidPolicy, Percentile};
use joiner_providers::rackspace::{Clock as Now, Rackspace, RackspaceOptions};
use joiner_providers::{
    LaunchRequest, Machine, MachineState, NodeLink, NoticeKind, Provider, ProviderError, Uid,
};
use joiner_sim::clouds::rackspace::{CallFault, RackspaceCloud, RackspaceCloudOptions};
use joiner_sim::clouds::sim::Rack;
use secrecy::SecretString;

const UID: &str = "7c1f0f1e-5b53-4e0a-9a55-0c6f2f7a9d10";
const CLASS: &str = "gp.vs1.large-ord";
const POOLS: &str = "/apis/ngpc.rxt.io/v1/namespaces/org-abc123/spotnodepools";

struct NoRack;

impl Rack for NoRack {
    fn boot(&self, _: NodeSpec) {}
    fn kill(&self, _: &str) {}
}

fn cloud() -> RackspaceCloud {
    let cloud = RackspaceCloud::new(
        RackspaceCloudOptions::calm(1),
        Clock::virtual_time(),
        Arc::new(NoRack),
    );
    let runner = cloud.clone();
    tokio::spawn(async move { runner.run().await });
    cloud
}

fn options() -> RackspaceOptions {
    let token = SecretString::from("sim-refresh-token\n");
    RackspaceOptions::new("cluster-1", "demo", token).unwrap()
}

fn provider(cloud: &RackspaceCloud, change: impl FnOnce(&mut RackspaceOptions)) -> Rackspace {
    let mut options = options();
    change(&mut options);
    let clock = Clock::virtual_time();
    let now: Now = Arc::new(move || clock.now());
    Rackspace::new(Http::new(cloud.router()), options, now).unwrap()
}

fn request(capacity_type: CapacityType) -> LaunchRequest {
    LaunchRequest {
        uid: Uid(UID.into()),
        name: "web-1".into(),
        purchase: Purchase {
            catalog: "rackspace".into(),
            instance_type: CLASS.into(),
            zone: "us-central-ord-1".into(),
            capacity_type,
            reservation: None,
            host: None,
            price: Money::from_dollars(0.012),
        },
        capacity: Resources::new(),
        labels: Labels::from([
            ("team".into(), "a".into()),
            (labels::INSTANCE_TYPE.into(), CLASS.into()),
        ]),
        taints: vec![Taint {
            key: "team".into(),
            value: "a".into(),
            effect: Effect::NoSchedule,
        }],
        startup_taints: vec![Taint {
            key: "karpenter.sh/unregistered".into(),
            value: "".into(),
            effect: Effect::NoExecute,
        }],
        max_price: None,
    }
}

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_mins(count)).await;
}

#[tokio::test(start_paused = true)]
async fn a_spot_pool_is_asked_for_as_documented() {
    let cloud = cloud();
    let machine = provider(&cloud, |_| {})
        .launch(&request(CapacityType::Spot))
        .await
        .unwrap();
    assert_eq!(
        cloud.bodies(),
        [concat!(
            r#"{"apiVersion":"ngpc.rxt.io/v1","kind":"SpotNodePool","metadata":{"#,
            r#""name":"7c1f0f1e-5b53-4e0a-9a55-0c6f2f7a9d10","namespace":"org-abc123","#,
            r#""labels":{"ngpc.rxt.io/cloudspace":"demo"}},"#,
            r#""spec":{"serverClass":"gp.vs1.large-ord","desired":1,"bidPrice":"0.04","cloudSpace":"demo","#,
            r#""customLabels":{"joiner.dev/cluster":"cluster-1","joiner.dev/family":"karpenter","#,
            r#""joiner.dev/machine":"7c1f0f1e-5b53-4e0a-9a55-0c6f2f7a9d10","team":"a"},"#,
            r#""customTaints":[{"key":"team","value":"a","effect":"NoSchedule"}]}}"#
        )]
    );
    assert_eq!(&*machine.id.0, format!("rackspace://demo/spot/{UID}"));
    assert_eq!(machine.uid, Some(Uid(UID.into())));
    assert_eq!(machine.price, Some(Money::from_dollars(0.012)));
    assert_eq!(
        machine.links,
        [NodeLink::Label {
            key: "nodepool.ngpc.rxt.io/name".into(),
            value: UID.into()
        }]
    );
}

#[tokio::test(start_paused = true)]
async fn an_on_demand_pool_has_no_bid() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    let machine = provider
        .launch(&request(CapacityType::OnDemand))
        .await
        .unwrap();
    let body = &cloud.bodies()[0];
    assert!(body.contains(r#""kind":"OnDemandNodePool""#), "{body}");
    assert!(!body.contains("bidPrice"), "{body}");
    assert_eq!(machine.price, Some(Money::from_dollars(0.11)));
    minutes(1).await;
    let state = provider.get(&machine.id).await.unwrap().state;
    assert_eq!(state, MachineState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_fetched_once_and_again_before_it_ends() {
    let cloud = cloud();
    let provider = Arc::new(provider(&cloud, |_| {}));
    let tokens = || {
        let calls = cloud.calls();
        calls
            .iter()
            .filter(|call| call.ends_with("/oauth/token"))
            .count()
    };
    let (one, two, three) = tokio::join!(provider.list(), provider.list(), provider.catalog());
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert_eq!(
        tokens(),
        1,
        "whoever comes together waits for the same token"
    );
    minutes(58).await;
    provider.list().await.unwrap();
    assert_eq!(tokens(), 1);
    minutes(2).await;
    provider.list().await.unwrap();
    assert_eq!(tokens(), 2);
    cloud.revoke_tokens();
    provider.list().await.unwrap();
    assert_eq!(tokens(), 3, "a refused token is replaced once");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_refresh_token_is_a_persons_business_and_is_never_repeated() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    cloud.change(|options| options.refresh_token = "another".to_owned());
    let error = provider.list().await.unwrap_err();
    assert_eq!(error.kind(), "unauthorised");
    assert!(!error.to_string().contains("sim-refresh-token"), "{error}");
    // Even a server that repeats it does not bring it into a condition or a log.
    let echo = r#"{"error":"bad token sim-refresh-token"}"#.to_owned();
    cloud.fail("POST", CallFault::Says(401, echo), 1);
    let error = provider.list().await.unwrap_err().to_string();
    assert!(error.contains("bad token [redacted]"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_missing_is_named() {
    let provider = provider(&cloud(), |options| {
        options.refresh_token = Arc::new(SecretString::from(" \n"));
    });
    let error = provider.list().await.unwrap_err().to_string();
    assert!(
        error.contains("Rackspace Spot refresh token is required"),
        "{error}"
    );
}

/// A frugal bidder whose first bid is barely above the market, and a market that rises after it was read.
async fn refused_once(
    max_price: Option<Money>,
) -> (RackspaceCloud, Result<Machine, ProviderError>) {
    let cloud = cloud();
    let provider = provider(&cloud, |options| {
        options.bids = BidPolicy {
            percentile: Percentile::P20,
            headroom_percent: 0,
            max_price,
        };
    });
    provider.catalog().await.unwrap();
    cloud.change_class("gp.vs1.xlarge-ord", |class| class.pinned = Some(45));
    let mut request = request(CapacityType::Spot);
    request.purchase.instance_type = "gp.vs1.xlarge-ord".into();
    request.purchase.price = Money::from_dollars(0.033);
    let launched = provider.launch(&request).await;
    (cloud, launched)
}

fn bids(cloud: &RackspaceCloud) -> Vec<String> {
    let bodies = cloud.bodies();
    let bid = |body: &String| {
        let body: serde_json::Value = serde_json::from_str(body).ok()?;
        body["spec"]["bidPrice"].as_str().map(str::to_owned)
    };
    bodies.iter().filter_map(bid).collect()
}

#[tokio::test(start_paused = true)]
async fn a_bid_that_the_market_refuses_is_raised_to_what_it_asks_for() {
    let (cloud, launched) = refused_once(None).await;
    launched.unwrap();
    assert_eq!(
        bids(&cloud),
        ["0.04", "0.06"],
        "strictly above the market, on the ladder"
    );
}

#[tokio::test(start_paused = true)]
async fn no_bid_goes_above_the_highest_price() {
    let (cloud, launched) = refused_once(Some(Money::from_dollars(0.05))).await;
    assert_eq!(launched.unwrap_err().kind(), "out_of_capacity");
    assert_eq!(bids(&cloud), ["0.04"]);
    assert!(cloud.pools().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_reveals_a_runaway_market_ends_the_bidding() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    provider.catalog().await.unwrap();
    cloud.change_class(CLASS, |class| class.pinned = Some(90));
    let error = provider
        .launch(&request(CapacityType::Spot))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "out_of_capacity");
    assert_eq!(bids(&cloud), ["0.04"]);
}

#[tokio::test(start_paused = true)]
async fn a_market_that_ran_away_since_the_plan_is_left_alone() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    cloud.change_class(CLASS, |class| class.pinned = Some(1200));
    let error = provider
        .launch(&request(CapacityType::Spot))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "out_of_capacity");
    assert!(cloud.bodies().is_empty(), "nothing was bid");
}

#[tokio::test(start_paused = true)]
async fn each_refusal_of_a_purchase_means_one_kind() {
    let status = |code: u16, message: &str| {
        let body = serde_json::json!({"kind": "Status", "message": message, "code": code});
        CallFault::Says(code, body.to_string())
    };
    let webhook = r#"admission webhook "vspotnodepool.ngpc.rxt.io" denied the request: "#;
    for (fault, kind) in [
        (
            status(403, &format!("{webhook}billing is not enabled")),
            "unauthorised",
        ),
        (
            status(403, &format!("{webhook}maximum number of 50 servers")),
            "quota",
        ),
        (
            status(403, &format!("{webhook}cloudspace \"x\" not found")),
            "invalid",
        ),
        (
            status(
                403,
                &format!("{webhook}failed to parse serverclass min bid price while validating"),
            ),
            "out_of_capacity",
        ),
        (
            status(
                422,
                "spec.bidPrice: Invalid value: \"string\": bidPrice can only be a positive number",
            ),
            "invalid",
        ),
        (
            status(404, "the server could not find the requested resource"),
            "invalid",
        ),
        (
            CallFault::Refused(429, Some(Duration::from_secs(30))),
            "throttled",
        ),
        (CallFault::Refused(500, None), "transient"),
        (
            CallFault::Says(200, "<html>maintenance</html>".into()),
            "transient",
        ),
        (CallFault::Hangs, "transient"),
    ] {
        let cloud = cloud();
        let provider = provider(&cloud, |_| {});
        cloud.fail(&format!("POST {POOLS}"), fault.clone(), 9);
        let error = provider
            .launch(&request(CapacityType::Spot))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{fault:?}: {error}");
        assert!(error.to_string().chars().count() < 400, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cloudspace_that_is_not_there_is_named() {
    let cloud = cloud();
    let provider = provider(&cloud, |options| {
        options.cloudspace = "elsewhere".to_owned();
    });
    let error = provider.catalog().await.unwrap_err();
    assert_eq!(
        error,
        ProviderError::Invalid("the organisation has no cloudspace \"elsewhere\": write the name that the console shows".into())
    );
}

#[tokio::test(start_paused = true)]
async fn an_organisation_is_found_by_name_id_or_namespace_and_otherwise_named() {
    let cloud = cloud();
    for wanted in ["acme", "org_AbC123", "org-abc123"] {
        let provider = provider(&cloud, |options| {
            options.organization = Some(wanted.to_owned());
        });
        assert!(provider.list().await.is_ok(), "{wanted}");
    }
    let provider = provider(&cloud, |options| {
        options.organization = Some("other".to_owned());
    });
    assert_eq!(provider.list().await.unwrap_err().kind(), "invalid");
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_is_down_or_garbage_never_empties_the_catalogue() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    let before = provider.catalog().await.unwrap();
    assert!(before.types.len() > 10);
    let as_of = provider.prices_as_of().await;
    let feed = "GET /percentiles.json";
    cloud.fail(feed, CallFault::Says(200, "<html>".into()), 10);
    minutes(1).await;
    assert_eq!(provider.catalog().await.unwrap(), before);
    assert_eq!(provider.prices_as_of().await, as_of, "the age shows");
    cloud.fail(
        "GET /apis/ngpc.rxt.io/v1/serverclasses",
        CallFault::Refused(500, None),
        10,
    );
    minutes(1).await;
    assert_eq!(provider.catalog().await.unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn bare_metal_and_other_regions_are_not_offered() {
    let catalog = provider(&cloud(), |_| {}).catalog().await.unwrap();
    let names: Vec<&str> = catalog.types.iter().map(|kind| &*kind.name).collect();
    assert!(names.contains(&CLASS));
    assert!(
        !names
            .iter()
            .any(|name| name.contains(".bm2") || name.ends_with("-sjc")),
        "{names:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_bid_that_the_market_nears_is_raised_in_place() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    provider.launch(&request(CapacityType::Spot)).await.unwrap();
    minutes(1).await;
    assert!(provider.notices().await.unwrap().is_empty());
    cloud.change_class(CLASS, |class| class.pinned = Some(27));
    minutes(1).await;
    assert!(provider.notices().await.unwrap().is_empty());
    assert_eq!(
        cloud.bodies().last().unwrap(),
        r#"{"spec":{"bidPrice":"0.06"}}"#
    );
    assert_eq!(
        cloud.pools()[0]["spec"]["customLabels"]["team"],
        "a",
        "nothing else changed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_lost_is_announced_before_it_goes() {
    let cloud = cloud();
    let provider = provider(&cloud, |options| {
        options.bids.max_price = Some(Money::from_dollars(0.02));
    });
    let machine = provider.launch(&request(CapacityType::Spot)).await.unwrap();
    minutes(1).await;
    assert!(provider.notices().await.unwrap().is_empty());
    cloud.change_class(CLASS, |class| class.pinned = Some(50));
    minutes(1).await;
    let notices = provider.notices().await.unwrap();
    assert_eq!(
        (notices[0].kind, &notices[0].id),
        (NoticeKind::Interruption, &machine.id)
    );
    minutes(7).await;
    let state = provider.get(&machine.id).await.unwrap().state;
    assert_eq!(
        state,
        MachineState::Failed(format!("the bid of $0.02 for {CLASS} was lost"))
    );
    assert_eq!(
        provider.notices().await.unwrap().len(),
        1,
        "said again until it is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_others_changed_has_drifted() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    let machine = provider.launch(&request(CapacityType::Spot)).await.unwrap();
    assert_eq!(provider.drift(&machine).await.unwrap(), None);
    let strict = self::provider(&cloud, |options| {
        options.bids.max_price = Some(Money::from_dollars(0.01));
    });
    let reason = strict.drift(&machine).await.unwrap().unwrap();
    assert!(reason.contains("above the highest price"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn servers_of_another_family_on_the_same_cloudspace_are_not_ours() {
    let cloud = cloud();
    let own = provider(&cloud, |_| {});
    let other = provider(&cloud, |options| options.family = "karpetrack".to_owned());
    let bought = own.launch(&request(CapacityType::Spot)).await.unwrap();
    minutes(30).await;
    assert_eq!(own.list().await.unwrap().len(), 1);
    assert_eq!(other.list().await.unwrap(), Vec::new());
    for refused in [
        other.terminate(&bought.id).await,
        other.get(&bought.id).await.map(drop),
    ] {
        assert!(
            matches!(refused, Err(ProviderError::NotFound(_))),
            "{refused:?}"
        );
    }
    assert!(other.notices().await.unwrap().is_empty());
    assert_eq!(cloud.pools().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_with_an_older_mark_is_found_by_its_uid_and_is_nobodys_to_miss() {
    let cloud = cloud();
    let older = serde_json::json!({"cloudSpace": "demo", "desired": 1, "serverClass": CLASS, "bidPrice": "0.02",
        "customLabels": {"joiner.dev/cluster": "demo", "joiner.dev/machine": UID}});
    assert!(cloud.plant(UID, &older));
    let own = provider(&cloud, |options| {
        options.older_cluster_id = Some("demo".to_owned());
    });
    let found = own.find(&Uid(UID.into())).await.unwrap();
    let listed = own.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].id, &listed[0].uid), (&found.id, &None));
    assert_eq!(own.terminate(&found.id).await, Ok(()));
    let strict = provider(&cloud, |_| {});
    assert_eq!(strict.list().await.unwrap(), Vec::new());
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_the_cloud_scales_by_itself_is_not_ours_any_more() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    let spec = serde_json::json!({"serverClass": CLASS, "desired": 1, "bidPrice": "0.02", "cloudSpace": "demo",
        "autoscaling": {"enabled": true, "minNodes": 1, "maxNodes": 5},
        "customLabels": {"joiner.dev/cluster": "cluster-1", "joiner.dev/family": "karpenter", "joiner.dev/machine": UID}});
    assert!(cloud.plant(UID, &spec));
    assert!(provider.list().await.unwrap().is_empty());
    let id = joiner_providers::MachineId(format!("rackspace://demo/spot/{UID}").into());
    assert_eq!(
        provider.terminate(&id).await.unwrap_err().kind(),
        "not_found"
    );
    assert!(cloud.pools()[0]["metadata"]["deletionTimestamp"].is_null());
}

/// A refresh token that somebody replaces.
struct Drawer(std::sync::Mutex<&'static str>);

#[async_trait::async_trait]
impl joiner_providers::rackspace::TokenSource for Drawer {
    async fn refresh_token(&self) -> Result<SecretString, ProviderError> {
        Ok(SecretString::from(*self.0.lock().unwrap()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresh_token_that_was_replaced_is_found_without_a_restart() {
    let cloud = cloud();
    let drawer = Arc::new(Drawer(std::sync::Mutex::new("old")));
    let source = Arc::clone(&drawer);
    let provider = provider(&cloud, |options| options.refresh_token = source);
    assert_eq!(provider.list().await.unwrap_err().kind(), "unauthorised");
    *drawer.0.lock().unwrap() = "sim-refresh-token";
    assert!(provider.list().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_has_a_highest_price_of_its_own_and_no_later_bid_goes_beyond_it() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    let mut wanted = request(CapacityType::Spot);
    wanted.max_price = Some(Money::from_dollars(0.02));
    provider.launch(&wanted).await.unwrap();
    let body = &cloud.bodies()[0];
    assert!(body.contains(r#""bidPrice":"0.02""#), "{body}");
    assert!(
        body.contains(r#""customAnnotations":{"joiner.dev/max-price":"0.02"}"#),
        "{body}"
    );
    minutes(1).await;
    // The market comes near: without the limit the bid would be raised.
    cloud.change_class(CLASS, |class| class.pinned = Some(19));
    minutes(1).await;
    provider.notices().await.unwrap();
    assert_eq!(cloud.bodies().len(), 1, "{:?}", cloud.bodies());
    wanted.max_price = Some(Money::from_dollars(0.005));
    wanted.uid = Uid("8c1f0f1e-5b53-4e0a-9a55-0c6f2f7a9d10".into());
    assert_eq!(
        provider.launch(&wanted).await.unwrap_err().kind(),
        "out_of_capacity"
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_revoked_later_shows_in_the_catalogue() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    provider.catalog().await.unwrap();
    cloud.change(|options| options.refresh_token = "another".to_owned());
    cloud.revoke_tokens();
    minutes(1).await;
    assert_eq!(provider.catalog().await.unwrap_err().kind(), "unauthorised");
    cloud.change(|options| options.refresh_token = "sim-refresh-token".to_owned());
    minutes(1).await;
    assert!(provider.catalog().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_is_down_is_a_concern_and_no_failure() {
    let cloud = cloud();
    let provider = provider(&cloud, |_| {});
    provider.catalog().await.unwrap();
    assert_eq!(provider.concern().await, None);
    cloud.fail(
        "GET /percentiles.json",
        CallFault::Refused(503, None),
        u32::MAX,
    );
    minutes(1).await;
    let types = provider.catalog().await.unwrap().types.len();
    let said = provider.concern().await.unwrap();
    assert!(
        said.contains("price feed") && said.contains("past prices are those of"),
        "{said}"
    );
    assert!(types > 5);
    cloud.forgive();
    minutes(1).await;
    provider.catalog().await.unwrap();
    assert_eq!(provider.concern().await, None);
}
