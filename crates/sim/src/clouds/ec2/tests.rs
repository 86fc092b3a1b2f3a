use std::sync::Arc;

use joiner_core::leftover::{Capacity, Wanted, rank, select};
use joiner_core::name::Name;
use joiner_providers::aws::{Aws, AwsErrorKind, AwsOptions, Credentials};
use joiner_providers::http::Http;

use super::*;

fn aws(cloud: &Ec2Cloud, secret: &str) -> Aws {
    let options = AwsOptions {
        ec2_endpoint: Some("http://ec2.sim".to_owned()),
        pricing_endpoint: Some("http://ec2.sim".to_owned()),
        pricing: true,
    };
    let clock = cloud.clock.clone();
    let credentials = Credentials::fixed("AKIASIMULATED", secret, None);
    Aws::new(
        Http::new(cloud.in_process("ec2.sim")),
        options,
        credentials,
        Arc::new(move || clock.now()),
    )
}

fn wanted(families: &[&str]) -> Wanted {
    Wanted {
        families: families.iter().map(|one| Name::from(*one)).collect(),
        min_gpus: 1,
        max_types: 5,
        max_zones: 2,
        min_score: 5,
        capacity: Capacity::Spot,
        fallback: true,
    }
}

#[tokio::test(start_paused = true)]
async fn a_region_is_read_in_pages_with_scores_by_zone_name() {
    let cloud = Ec2Cloud::new(Ec2CloudOptions::calm(1), Clock::virtual_time());
    let aws = aws(&cloud, "simulated-secret");
    let reading = Box::pin(aws.read("us-east-1", &wanted(&[]), 2, None))
        .await
        .unwrap();
    assert!(
        cloud.count("DescribeInstanceTypes") > 10,
        "pages of a hundred"
    );
    assert_eq!(cloud.count("GetSpotPlacementScores"), 1);
    let scores = reading.market.scores.as_ref().unwrap();
    assert!(
        scores.keys().all(|zone| zone.starts_with("us-east-1")),
        "{scores:?}"
    );
    let choice = select(
        &rank(&reading.market, &wanted(&[]), Capacity::Spot),
        &wanted(&[]),
    );
    assert_eq!((choice.types.len(), choice.zones.len()), (5, 2));
    // Within five minutes nothing is asked again.
    let before = cloud.calls().len();
    Box::pin(aws.read("us-east-1", &wanted(&[]), 2, None))
        .await
        .unwrap();
    assert_eq!(cloud.calls().len(), before);
    tokio::time::sleep(Duration::from_mins(6)).await;
    Box::pin(aws.read("us-east-1", &wanted(&[]), 2, None))
        .await
        .unwrap();
    assert_eq!(cloud.calls().len(), before + 1, "prices alone");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_secret_is_refused_and_never_retried() {
    let cloud = Ec2Cloud::new(Ec2CloudOptions::calm(1), Clock::virtual_time());
    let error = Box::pin(aws(&cloud, "wrong").read("us-east-1", &wanted(&["g5"]), 2, None))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.kind),
        ("SignatureDoesNotMatch", AwsErrorKind::Denied)
    );
    assert_eq!(cloud.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn throttling_is_waited_out_and_what_was_read_outlives_an_outage() {
    let cloud = Ec2Cloud::new(Ec2CloudOptions::calm(1), Clock::virtual_time());
    let aws = aws(&cloud, "simulated-secret");
    cloud.fail(
        "*",
        Ec2Fault::Refused(503, "RequestLimitExceeded".into()),
        2,
    );
    let first = Box::pin(aws.read("us-east-1", &wanted(&["g5"]), 2, None))
        .await
        .unwrap();
    cloud.fail("*", Ec2Fault::Says(500, "<html>".into()), 1000);
    tokio::time::sleep(Duration::from_mins(30)).await;
    let later = Box::pin(aws.read("us-east-1", &wanted(&["g5"]), 2, None))
        .await
        .unwrap();
    assert_eq!(later.market, first.market);
    assert_eq!(later.ages.prices.at, first.ages.prices.at);
    assert_eq!(later.ages.prices.error.unwrap().code, "Http500");
    cloud.forgive();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let again = Box::pin(aws.read("us-east-1", &wanted(&["g5"]), 2, None))
        .await
        .unwrap();
    assert_eq!(again.ages.prices.error, None);
    assert!(again.ages.prices.at > first.ages.prices.at);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_score_configurations_is_no_lack_of_capacity() {
    let options = Ec2CloudOptions {
        score_configurations: 0,
        ..Ec2CloudOptions::calm(1)
    };
    let cloud = Ec2Cloud::new(options, Clock::virtual_time());
    let aws = aws(&cloud, "simulated-secret");
    let reading = Box::pin(aws.read("us-east-1", &wanted(&["g5"]), 2, None))
        .await
        .unwrap();
    assert_eq!(reading.market.scores, None);
    assert_eq!(
        reading.ages.scores.error.unwrap().kind,
        AwsErrorKind::ScoreLimit
    );
    assert!(
        !select(
            &rank(&reading.market, &wanted(&["g5"]), Capacity::Spot),
            &wanted(&["g5"])
        )
        .is_empty()
    );
    tokio::time::sleep(Duration::from_mins(30)).await;
    Box::pin(aws.read("us-east-1", &wanted(&["g5"]), 2, None))
        .await
        .unwrap();
    assert_eq!(
        cloud.count("GetSpotPlacementScores"),
        1,
        "not asked again within the hour"
    );
}

#[tokio::test(start_paused = true)]
async fn truncated_answers_are_an_outage_and_list_prices_are_optional() {
    let cloud = Ec2Cloud::new(Ec2CloudOptions::calm(1), Clock::virtual_time());
    let aws = aws(&cloud, "simulated-secret");
    cloud.fail("DescribeSpotPriceHistory", Ec2Fault::Truncated, 10);
    cloud.fail(
        "GetProducts",
        Ec2Fault::Refused(400, "AccessDeniedException".into()),
        10,
    );
    let error = Box::pin(aws.read("us-east-1", &wanted(&["g5"]), 2, None))
        .await
        .unwrap_err();
    assert_eq!(error.code, "UnreadableAnswer");
    cloud.forgive();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let reading = Box::pin(aws.read("us-east-1", &wanted(&["g5"]), 2, None))
        .await
        .unwrap();
    assert!(
        reading
            .market
            .types
            .values()
            .any(|one| one.list_price.is_some())
    );
}

#[tokio::test(start_paused = true)]
async fn regions_are_compared_with_one_request_for_scores() {
    let cloud = Ec2Cloud::new(Ec2CloudOptions::calm(1), Clock::virtual_time());
    cloud.close_region("me-south-1");
    cloud.set_score("eu-west-1", 9);
    let aws = aws(&cloud, "simulated-secret");
    let regions = ["eu-central-1", "eu-west-1", "me-south-1", "us-east-1"].map(str::to_owned);
    let regions: BTreeSet<String> = regions.into_iter().collect();
    let pool = wanted(&["g5", "g6"]);
    let found = Box::pin(aws.compare("eu-central-1", &regions, &pool, 2)).await;
    assert_eq!(cloud.count("GetSpotPlacementScores"), 1);
    assert_eq!(aws.score_configurations(), 1);
    let of = |name: &str| found.iter().find(|one| &*one.region == name).unwrap();
    assert_eq!(
        (of("eu-west-1").score, of("eu-west-1").fresh),
        (Some(9), true)
    );
    let refused = of("me-south-1").market.as_ref().unwrap_err();
    assert!(refused.contains("OptInRequired"), "{refused}");
    for name in ["eu-central-1", "eu-west-1", "us-east-1"] {
        let market = of(name).market.as_ref().unwrap();
        assert!(
            !market.spot.is_empty() && market.spot.keys().all(|(_, zone)| zone.starts_with(name))
        );
        assert_eq!(
            market.scores, None,
            "scores of zones are asked of the own region only"
        );
    }
    // A pool of one of these regions shares what was read of it: only scores of its zones are asked for.
    let before = cloud.calls().len();
    Box::pin(aws.read("eu-west-1", &pool, 2, None))
        .await
        .unwrap();
    let new: Vec<String> = cloud.calls()[before..]
        .iter()
        .map(|(_, one)| one.clone())
        .collect();
    assert_eq!(new, ["DescribeAvailabilityZones", "GetSpotPlacementScores"]);
}
