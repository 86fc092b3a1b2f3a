//! The wire.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use joiner_providers::aws::{Fact, facts};
use serde_json::json;

use super::sign::{Claim, Unsigned};
use super::story::STEP;
use super::xml::{Xml, answer, refusal};
use super::{ALL, Ec2Cloud, Ec2Fault, Region};

type Form = BTreeMap<String, String>;

/// A refusal: status, code, message.
struct Refused(u16, &'static str, String);

pub(super) fn router(cloud: Ec2Cloud) -> Router {
    Router::new().route("/", post(handle)).with_state(cloud)
}

async fn handle(State(cloud): State<Ec2Cloud>, headers: HeaderMap, body: Bytes) -> Response {
    let text = String::from_utf8_lossy(&body);
    let prices = headers.contains_key("x-amz-target");
    let form = form(&text);
    let action = if prices {
        "GetProducts".to_owned()
    } else {
        form.get("Action").cloned().unwrap_or_default()
    };
    let now = cloud.clock.now();
    cloud.lock().calls.push((now, action.clone()));
    let fault = take_fault(&cloud, &action);
    match &fault {
        Some(Ec2Fault::Refused(status, code)) => {
            return say(*status, refusal(code, "asked for by the test"));
        }
        Some(Ec2Fault::Says(status, text)) => return say(*status, text.clone()),
        Some(Ec2Fault::Truncated) | None => {}
    }
    let answered = if action == "AssumeRoleWithWebIdentity" {
        Ok(identity(&cloud, &form, now))
    } else {
        act(&cloud, &action, &form, &headers, &body, now)
    };
    match answered {
        Ok(text) if fault.is_some() => say(
            200,
            text.get(..text.len() / 2).unwrap_or_default().to_owned(),
        ),
        Ok(text) => say(200, text),
        Err(Refused(status, code, message)) => say(status, refusal(code, &message)),
    }
}

fn say(status: u16, text: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [("content-type", "text/xml;charset=UTF-8")], text).into_response()
}

fn take_fault(cloud: &Ec2Cloud, action: &str) -> Option<Ec2Fault> {
    let mut inner = cloud.lock();
    let fits = |name: &str| name == "*" || name == action;
    let (_, fault, times) = inner
        .faults
        .iter_mut()
        .find(|(name, _, times)| *times > 0 && fits(name))?;
    *times -= 1;
    Some(fault.clone())
}

fn act(
    cloud: &Ec2Cloud,
    action: &str,
    form: &Form,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<String, Refused> {
    let region = signed(cloud, headers, body, now)?;
    throttle(cloud, action, now)?;
    if action == "GetProducts" {
        return Ok(products(body));
    }
    let Some(here) = ALL.get(&region) else {
        return Err(Refused(
            401,
            "AuthFailure",
            format!("there is no region {region}"),
        ));
    };
    if cloud.lock().closed.contains(&region) {
        return Err(Refused(
            401,
            "OptInRequired",
            "You are not subscribed to this service. Please go to http://aws.amazon.com to subscribe.".into(),
        ));
    }
    match action {
        "DescribeInstanceTypes" => paged(
            action,
            "instanceTypeSet",
            form,
            &types(here, &region, form)?,
            100,
            |xml, one| describe(xml, one),
        ),
        "DescribeInstanceTypeOfferings" => {
            let rows = offerings(here, &region, form);
            paged(
                action,
                "instanceTypeOfferingSet",
                form,
                &rows,
                1000,
                |xml, (name, zone)| {
                    xml.leaf("instanceType", name);
                    xml.leaf("locationType", "availability-zone");
                    xml.leaf("location", zone);
                },
            )
        }
        "DescribeSpotPriceHistory" => history(cloud, here, &region, form, now),
        "GetSpotPlacementScores" => scores(cloud, &region, form, now),
        "DescribeAvailabilityZones" => Ok(zones(here, &region)),
        "DescribeSubnets" => {
            let rows = if tagged(cloud, form) {
                subnets(cloud, here)
            } else {
                Vec::new()
            };
            paged(action, "subnetSet", form, &rows, 1000, |xml, zone| {
                xml.leaf("subnetId", format!("subnet-{zone}"));
                xml.leaf("availabilityZone", zone);
                xml.leaf(
                    "availabilityZoneId",
                    here.zones.get(zone).cloned().unwrap_or_default(),
                );
                xml.leaf("availableIpAddressCount", 4000);
                xml.leaf("state", "available");
            })
        }
        "DescribeSecurityGroups" => {
            let rows = if tagged(cloud, form) {
                vec!["sg-nodes"]
            } else {
                Vec::new()
            };
            paged(action, "securityGroupInfo", form, &rows, 1000, |xml, id| {
                xml.leaf("groupId", id);
                xml.leaf("groupName", "nodes");
            })
        }
        other => Err(Refused(
            400,
            "InvalidAction",
            format!("The action {other} is not valid for this web service."),
        )),
    }
}

fn zones(here: &Region, region: &str) -> String {
    answer("DescribeAvailabilityZones", |xml| {
        xml.node("availabilityZoneInfo", |xml| {
            for (name, id) in &here.zones {
                xml.node("item", |xml| {
                    xml.leaf("zoneName", name);
                    xml.leaf("zoneId", id);
                    xml.leaf("zoneState", "available");
                    xml.leaf("zoneType", "availability-zone");
                    xml.leaf("regionName", region);
                });
            }
        });
    })
}

fn signed(
    cloud: &Ec2Cloud,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<String, Refused> {
    let refuse = |why: Unsigned| match why {
        Unsigned::Missing => Refused(
            401,
            "MissingAuthenticationToken",
            "Request is missing Authentication Token".into(),
        ),
        Unsigned::Incomplete(what) => {
            Refused(400, "IncompleteSignature", format!("{what} is missing"))
        }
        Unsigned::UnknownKey => Refused(
            401,
            "AuthFailure",
            "AWS was not able to validate the provided access credentials".into(),
        ),
        Unsigned::Wrong => Refused(
            403,
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided.".into(),
        ),
    };
    let claim = Claim::read(headers).map_err(refuse)?;
    if claim.key_id.starts_with("ASIA") {
        let end = cloud.lock().tokens.get(&claim.key_id).copied();
        match end {
            Some(end) if end > now => {}
            Some(_) => {
                return Err(Refused(
                    400,
                    "RequestExpired",
                    "Request has expired.".into(),
                ));
            }
            None => return Err(refuse(Unsigned::UnknownKey)),
        }
    } else if claim.key_id != cloud.options.key_id {
        return Err(refuse(Unsigned::UnknownKey));
    }
    claim
        .check(headers, body, &cloud.options.secret)
        .map_err(refuse)?;
    Ok(claim.region)
}

fn throttle(cloud: &Ec2Cloud, action: &str, now: Timestamp) -> Result<(), Refused> {
    let (size, rate) = cloud.options.bucket;
    let mut inner = cloud.lock();
    let (tokens, at) = inner
        .buckets
        .entry(action.to_owned())
        .or_insert((size, now));
    let passed = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
    *tokens = (*tokens + passed.as_secs_f64() * rate).min(size);
    *at = now;
    if *tokens < 1.0 {
        return Err(Refused(
            503,
            "RequestLimitExceeded",
            "Request limit exceeded.".into(),
        ));
    }
    *tokens -= 1.0;
    Ok(())
}

fn identity(cloud: &Ec2Cloud, form: &Form, now: Timestamp) -> String {
    let id = format!("ASIA{:08}", cloud.lock().tokens.len() + 1);
    let end = now.checked_add(cloud.options.token_life).unwrap_or(now);
    cloud.lock().tokens.insert(id.clone(), end);
    let role = form.get("RoleArn").cloned().unwrap_or_default();
    let mut xml = Xml::default();
    xml.node("AssumeRoleWithWebIdentityResult", |xml| {
        xml.node("Credentials", |xml| {
            xml.leaf("AccessKeyId", &id);
            xml.leaf("SecretAccessKey", &cloud.options.secret);
            xml.leaf("SessionToken", "simulated-session");
            xml.leaf("Expiration", joiner_embedded::clock::rfc3339(end));
        });
        xml.node("AssumedRoleUser", |xml| {
            xml.leaf("Arn", role);
            xml.leaf("AssumedRoleId", "AROASIM:joiner");
        });
    });
    format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">{}\
         <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>",
        xml.0
    )
}

/// One page: from the token on, as many as are asked for and allowed.
fn paged<T>(
    action: &str,
    set: &str,
    form: &Form,
    rows: &[T],
    most: usize,
    write: impl Fn(&mut Xml, &T),
) -> Result<String, Refused> {
    let number = |name: &str| form.get(name).and_then(|text| text.parse::<usize>().ok());
    let from = match form.get("NextToken") {
        None => 0,
        Some(_) => number("NextToken")
            .ok_or_else(|| Refused(400, "InvalidNextToken", "The token is not valid.".into()))?,
    };
    let size = number("MaxResults").unwrap_or(most).clamp(1, most);
    let next = (from + size < rows.len()).then_some(from + size);
    Ok(answer(action, |xml| {
        xml.node(set, |xml| {
            for row in rows.iter().skip(from).take(size) {
                xml.node("item", |xml| write(xml, row));
            }
        });
        xml.leaf(
            "nextToken",
            next.map(|one| one.to_string()).unwrap_or_default(),
        );
    }))
}

/// The values of a filter, if it is set.
fn filter(form: &Form, name: &str) -> Option<Vec<String>> {
    let index = (1..=20).find(|index| {
        form.get(&format!("Filter.{index}.Name"))
            .is_some_and(|one| one == name)
    })?;
    Some(list(form, &format!("Filter.{index}.Value")))
}

fn list(form: &Form, name: &str) -> Vec<String> {
    let all = (1..).map_while(|index| form.get(&format!("{name}.{index}")).cloned());
    all.collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            tail.is_empty()
                || (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| matches(tail, rest)))
        }),
    }
}

fn zones_of(here: &Region, region: &str, one: &Fact) -> Vec<String> {
    let letters = if region == "us-east-1" {
        one.zones
    } else {
        here.offered.get(one.name).map_or("", String::as_str)
    };
    let name = |letter: char| format!("{region}{letter}");
    letters
        .chars()
        .map(name)
        .filter(|zone| here.zones.contains_key(zone))
        .collect()
}

fn wanted(form: &Form, name: &str) -> bool {
    let filter = filter(form, "instance-type");
    filter.is_none_or(|all| all.iter().any(|pattern| matches(pattern, name)))
}

fn types(here: &Region, region: &str, form: &Form) -> Result<Vec<&'static Fact>, Refused> {
    let named = list(form, "InstanceType");
    let unknown: Vec<&str> = named
        .iter()
        .map(String::as_str)
        .filter(|name| !facts().contains_key(name))
        .collect();
    if !unknown.is_empty() {
        let message = format!(
            "The following supplied instance types do not exist: [{}]",
            unknown.join(", ")
        );
        return Err(Refused(400, "InvalidInstanceType", message));
    }
    let all = facts()
        .values()
        .filter(|one| named.is_empty() || named.iter().any(|name| name == one.name));
    let sold = |one: &&Fact| one.gpu.is_none() || !zones_of(here, region, one).is_empty();
    Ok(all
        .filter(|one| wanted(form, one.name))
        .filter(sold)
        .collect())
}

fn offerings(here: &Region, region: &str, form: &Form) -> Vec<(&'static str, String)> {
    let all = facts().values().filter(|one| wanted(form, one.name));
    all.flat_map(|one| {
        zones_of(here, region, one)
            .into_iter()
            .map(move |zone| (one.name, zone))
    })
    .collect()
}

fn describe(xml: &mut Xml, one: &Fact) {
    xml.leaf("instanceType", one.name);
    xml.leaf("bareMetal", one.sold.contains('m'));
    xml.node("supportedUsageClasses", |xml| {
        for (letter, word) in [('o', "on-demand"), ('s', "spot"), ('c', "capacity-block")] {
            if one.sold.contains(letter) {
                xml.leaf("item", word);
            }
        }
    });
    xml.node("processorInfo", |xml| {
        let arch = if one.arch == "amd64" {
            "x86_64"
        } else {
            one.arch
        };
        xml.node("supportedArchitectures", |xml| xml.leaf("item", arch));
    });
    xml.node("vCpuInfo", |xml| xml.leaf("defaultVCpus", one.vcpu));
    xml.node("memoryInfo", |xml| xml.leaf("sizeInMiB", one.memory_mib));
    let Some(gpu) = &one.gpu else { return };
    xml.node("gpuInfo", |xml| {
        xml.node("gpus", |xml| {
            xml.node("item", |xml| {
                xml.leaf("name", gpu.name);
                xml.leaf("manufacturer", gpu.manufacturer);
                xml.leaf("count", gpu.count);
                xml.leaf("logicalGpuCount", gpu.devices);
                xml.leaf("gpuPartitionSize", gpu.share);
                xml.node("memoryInfo", |xml| xml.leaf("sizeInMiB", gpu.memory_mib));
            });
        });
        xml.leaf(
            "totalGpuMemoryInMiB",
            gpu.memory_mib * u64::from(gpu.devices),
        );
    });
}

fn history(
    cloud: &Ec2Cloud,
    here: &Region,
    region: &str,
    form: &Form,
    now: Timestamp,
) -> Result<String, Refused> {
    let named: BTreeSet<String> = list(form, "InstanceType").into_iter().collect();
    let since = form
        .get("StartTime")
        .and_then(|text| text.parse::<Timestamp>().ok())
        .unwrap_or(now);
    let mut rows = Vec::new();
    for one in facts().values().filter(|one| one.gpu.is_some()) {
        if !named.is_empty() && !named.contains(one.name) {
            continue;
        }
        for zone in zones_of(here, region, one) {
            // The row in force, and every change since.
            let mut step = now.as_second().div_euclid(STEP) * STEP;
            loop {
                let at = Timestamp::from_second(step).unwrap_or(now);
                if let Some(price) = cloud.price(one.name, &zone, at) {
                    rows.push((one.name, zone.clone(), price, at));
                }
                if at <= since {
                    break;
                }
                step -= STEP;
            }
        }
    }
    paged(
        "DescribeSpotPriceHistory",
        "spotPriceHistorySet",
        form,
        &rows,
        1000,
        |xml, (name, zone, price, at)| {
            xml.leaf("instanceType", name);
            xml.leaf("productDescription", "Linux/UNIX");
            xml.leaf("spotPrice", format!("{:.6}", price.dollars()));
            xml.leaf("timestamp", format!("{at:.3}"));
            xml.leaf("availabilityZone", zone);
            xml.leaf(
                "availabilityZoneId",
                here.zones.get(zone).cloned().unwrap_or_default(),
            );
        },
    )
}

/// The regions that scores are asked for: the one that is asked, unless others are named.
fn regions(form: &Form, here: &str) -> Result<BTreeSet<String>, Refused> {
    let mut regions: BTreeSet<String> = list(form, "RegionName").into_iter().collect();
    if regions.is_empty() {
        regions.insert(here.to_owned());
    }
    let invalid = |message: String| Err(Refused(400, "InvalidParameterValue", message));
    if let Some(unknown) = regions.iter().find(|one| !ALL.contains_key(*one)) {
        return invalid(format!("There is no region {unknown}"));
    }
    if regions.len() > 10 {
        return invalid("RegionName: at most 10".to_owned());
    }
    Ok(regions)
}

fn scores(cloud: &Ec2Cloud, region: &str, form: &Form, now: Timestamp) -> Result<String, Refused> {
    let types: BTreeSet<String> = list(form, "InstanceType").into_iter().collect();
    if types.is_empty() {
        return Err(Refused(
            400,
            "MissingParameter",
            "The request must contain the parameter InstanceType".into(),
        ));
    }
    let target = form.get("TargetCapacity").cloned();
    let Some(target) = target.filter(|text| text.parse::<u32>().is_ok_and(|one| one > 0)) else {
        return Err(Refused(
            400,
            "InvalidParameterValue",
            "TargetCapacity must be at least 1".into(),
        ));
    };
    let regions = regions(form, region)?;
    let by_zone = form
        .get("SingleAvailabilityZone")
        .is_some_and(|one| one == "true");
    {
        let configuration = format!("{types:?} {target} {regions:?} {by_zone}");
        let mut inner = cloud.lock();
        let day = Duration::from_hours(24);
        inner
            .asked
            .retain(|_, at| Duration::try_from(now.duration_since(*at)).unwrap_or_default() < day);
        let known = inner.asked.contains_key(&configuration);
        if !known && inner.asked.len() >= cloud.options.score_configurations {
            let message = "You have exceeded your maximum allowed Spot placement configurations. You can retry \
                           configurations that you used within the last 24 hours, or wait for 24 hours before specifying a \
                           new configuration.";
            return Err(Refused(400, "MaxConfigLimitExceeded", message.into()));
        }
        inner.asked.insert(configuration, now);
    }
    let low = if types.len() < 3 { 3 } else { 10 };
    let mut rows: Vec<(u8, &str, Option<&str>)> = Vec::new();
    for (name, one) in ALL.iter().filter(|(name, _)| regions.contains(*name)) {
        if by_zone {
            let zones = one.zones.iter();
            rows.extend(
                zones.map(|(zone, id)| (cloud.score(zone, now), name.as_str(), Some(id.as_str()))),
            );
        } else {
            rows.push((cloud.region_score(name, one, now), name.as_str(), None));
        }
    }
    for row in &mut rows {
        row.0 = row.0.min(low);
    }
    rows.sort_by(|a, b| b.0.cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    rows.truncate(10);
    paged(
        "GetSpotPlacementScores",
        "spotPlacementScoreSet",
        form,
        &rows,
        1000,
        |xml, (score, region, zone)| {
            xml.leaf("region", region);
            if let Some(id) = zone {
                xml.leaf("availabilityZoneId", id);
            }
            xml.leaf("score", score);
        },
    )
}

fn subnets(cloud: &Ec2Cloud, here: &Region) -> Vec<String> {
    let has = |zone: &&String| {
        cloud
            .options
            .subnets
            .as_ref()
            .is_none_or(|all| all.contains(*zone))
    };
    here.zones.keys().filter(has).cloned().collect()
}

/// Whether what is asked for by tags is there.
fn tagged(cloud: &Ec2Cloud, form: &Form) -> bool {
    let Some(tags) = &cloud.options.tags else {
        return true;
    };
    (1..=20)
        .map_while(|index| {
            form.get(&format!("Filter.{index}.Name"))
                .map(|name| (index, name))
        })
        .all(|(index, name)| {
            let values = list(form, &format!("Filter.{index}.Value"));
            match name.strip_prefix("tag:") {
                Some(key) => tags.get(key).is_some_and(|has| values.contains(has)),
                None if name == "tag-key" => values.iter().any(|key| tags.contains_key(key)),
                None => true,
            }
        })
}

/// All list prices on one page.
fn products(_: &[u8]) -> String {
    let products = facts().values().filter_map(|one| {
        let price = one.list_price?;
        let text = json!({"product": {"attributes": {"instanceType": one.name}},
            "terms": {"OnDemand": {"T": {"priceDimensions": {"D": {"pricePerUnit": {"USD": price.dollars().to_string()}}}}}}});
        Some(text.to_string())
    });
    json!({"FormatVersion": "aws_v1", "PriceList": products.collect::<Vec<String>>()}).to_string()
}

fn form(text: &str) -> Form {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (unescape(key), unescape(value)))
        .collect()
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut digit = || {
                    rest.next()
                        .and_then(|one| char::from(one).to_digit(16))
                        .unwrap_or_default()
                };
                let value = digit() * 16 + digit();
                bytes.push(u8::try_from(value).unwrap_or_default());
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
