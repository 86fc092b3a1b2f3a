//! EC2's query protocol: form-encoded POST, XML back, pages until there is no token.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use quick_xml::de::from_str;
use serde::de::DeserializeOwned;

use super::credentials::Credentials;
use super::error::{AwsError, AwsErrorKind};
use super::sign::{self, Scope};
use super::types::{
    InstanceType, Page, PlacementScore, SecurityGroup, SpotPrice, Subnet, TypeOffering, Zone,
};
use super::{AwsOptions, Clock};
use crate::http::{Endpoint, Http, Reply, Retry};

const VERSION: &str = "2016-11-15";
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
/// More pages than EC2 has types at its smallest page: a server that hands out more hands them out in circles.
const MOST_PAGES: usize = 500;
/// As the AWS SDKs: three attempts, waits from one second on, twenty at most.
const ATTEMPTS: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// EC2 in one region.
#[derive(Clone)]
pub struct Ec2 {
    http: Http,
    endpoint: Endpoint,
    region: String,
    credentials: Credentials,
    clock: Clock,
}

/// What placement scores are asked for. Equal requests are one configuration to AWS, which limits how many different ones
/// an account may ask within a day: types are sorted, and each stands once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScoreRequest {
    /// Regions: AWS takes ten at most.
    pub regions: BTreeSet<String>,
    /// Whether each zone is scored, rather than each region as a whole. AWS answers with the ten best zones of all regions,
    /// so zones are asked of one region only.
    pub by_zone: bool,
    /// Types.
    pub types: BTreeSet<String>,
    /// Instances.
    pub target: u32,
}

impl Ec2 {
    /// EC2 of a region. Nothing is sent yet.
    pub fn new(
        http: Http,
        region: &str,
        options: &AwsOptions,
        credentials: Credentials,
        clock: Clock,
    ) -> Result<Self, AwsError> {
        let invalid = |error: String| {
            AwsError::new("endpoint", "InvalidRegion", error, AwsErrorKind::Invalid)
        };
        if !is_region(region) {
            return Err(invalid(format!(
                "spec.region {region:?} is no AWS region: write it like eu-central-1"
            )));
        }
        let (url, allowed) = match &options.ec2_endpoint {
            Some(url) => (url.clone(), super::host_of(url)),
            None => (format!("https://ec2.{region}.{}", domain(region)), None),
        };
        let allowed: Vec<String> = allowed.into_iter().collect();
        let endpoint =
            Endpoint::parse(&url, &allowed).map_err(|error| invalid(error.to_string()))?;
        Ok(Ec2 {
            http,
            endpoint,
            region: region.to_owned(),
            credentials,
            clock,
        })
    }

    /// The region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// All types whose names match one of the patterns (`g5*`); all types without any.
    pub async fn instance_types(&self, patterns: &[String]) -> Result<Vec<InstanceType>, AwsError> {
        let mut form = Form::new("DescribeInstanceTypes");
        form.filter("instance-type", patterns);
        self.pages(form, Some(100)).await
    }

    /// In which zones types are offered.
    pub async fn offerings(&self, patterns: &[String]) -> Result<Vec<TypeOffering>, AwsError> {
        let mut form = Form::new("DescribeInstanceTypeOfferings");
        form.set("LocationType", "availability-zone");
        form.filter("instance-type", patterns);
        self.pages(form, Some(1000)).await
    }

    /// Spot prices of types in force since `since`: every change in between, and the one before it.
    pub async fn spot_prices(
        &self,
        types: &BTreeSet<String>,
        since: Timestamp,
    ) -> Result<Vec<SpotPrice>, AwsError> {
        let mut form = Form::new("DescribeSpotPriceHistory");
        // Accounts differ in which of the two they are told.
        form.list(
            "ProductDescription",
            ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
        );
        form.list("InstanceType", types);
        form.set("StartTime", &instant(since));
        form.set("EndTime", &instant((self.clock)()));
        self.pages(form, Some(1000)).await
    }

    /// How likely so many instances of any of these types are to be had, zone by zone or region by region.
    pub async fn placement_scores(
        &self,
        request: &ScoreRequest,
    ) -> Result<Vec<PlacementScore>, AwsError> {
        let mut form = Form::new("GetSpotPlacementScores");
        form.list("InstanceType", &request.types);
        form.set("TargetCapacity", &request.target.to_string());
        form.set("TargetCapacityUnitType", "units");
        let by_zone = if request.by_zone { "true" } else { "false" };
        form.set("SingleAvailabilityZone", by_zone);
        form.list("RegionName", &request.regions);
        self.pages(form, Some(1000)).await
    }

    /// The zones of the region that can be used.
    pub async fn zones(&self) -> Result<Vec<Zone>, AwsError> {
        let mut form = Form::new("DescribeAvailabilityZones");
        form.filter("state", &["available".to_owned()]);
        form.filter("zone-type", &["availability-zone".to_owned()]);
        self.pages(form, None).await
    }

    /// Subnets with all of these tags; the value `*` stands for any.
    pub async fn subnets<'a>(
        &self,
        tags: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Vec<Subnet>, AwsError> {
        let mut form = Form::new("DescribeSubnets");
        form.tags(tags);
        self.pages(form, Some(1000)).await
    }

    /// Security groups with all of these tags.
    pub async fn security_groups<'a>(
        &self,
        tags: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Vec<SecurityGroup>, AwsError> {
        let mut form = Form::new("DescribeSecurityGroups");
        form.tags(tags);
        self.pages(form, Some(1000)).await
    }

    async fn pages<T: DeserializeOwned>(
        &self,
        form: Form,
        size: Option<u32>,
    ) -> Result<Vec<T>, AwsError> {
        let action = form.action;
        let mut items = Vec::new();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut next = String::new();
        for _ in 0..MOST_PAGES {
            let mut form = form.clone();
            if let Some(size) = size {
                form.set("MaxResults", &size.to_string());
            }
            if !next.is_empty() {
                form.set("NextToken", &next);
            }
            let reply = self.call(&form).await?;
            let text = String::from_utf8_lossy(&reply.body);
            let page: Page<T> = from_str(&text)
                .map_err(|error| AwsError::unreadable(action, &error.to_string(), &reply.body))?;
            items.extend(page.items.item);
            next = page.next.unwrap_or_default();
            // Price history ends with an empty token; a token that comes twice would never end.
            if next.is_empty() || !seen.insert(next.clone()) {
                return Ok(items);
            }
        }
        let message = format!("there is no end after {MOST_PAGES} pages");
        Err(AwsError::new(
            action,
            "EndlessPages",
            message,
            AwsErrorKind::Unavailable,
        ))
    }

    async fn call(&self, form: &Form) -> Result<Reply, AwsError> {
        let mut attempt = 1;
        loop {
            let error = match self.once(form).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if matches!(error.code.as_str(), "RequestExpired" | "ExpiredToken") {
                self.credentials.forget().await;
            } else if !matches!(
                error.kind,
                AwsErrorKind::Throttled | AwsErrorKind::Unavailable
            ) {
                return Err(error);
            }
            if attempt >= ATTEMPTS {
                return Err(error);
            }
            let own = FIRST_WAIT * 2_u32.pow(attempt - 1);
            let wait = error.retry_after.unwrap_or(own).min(LONGEST_WAIT);
            tracing::debug!(action = form.action, code = %error.code, ?wait, "trying again");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    async fn once(&self, form: &Form) -> Result<Reply, AwsError> {
        let now = (self.clock)();
        let keys = self.credentials.keys(now).await?;
        let scope = Scope {
            region: &self.region,
            service: "ec2",
            action: form.action,
        };
        let body = Bytes::from(form.text.clone());
        let url = self.endpoint.at("/");
        let request = sign::post(&url, &[("content-type", FORM)], body, &keys, &scope, now)?;
        tracing::trace!(action = form.action, region = %self.region, "asking");
        let reply = self.http.send(request, Retry::Never).await;
        let reply = reply
            .map_err(|error| AwsError::transport(form.action, self.endpoint.host(), &error))?;
        if reply.status.is_success() {
            return Ok(reply);
        }
        Err(AwsError::refusal(form.action, &reply))
    }
}

/// Whether a text could be a region: it becomes part of a host name that gets signed requests.
fn is_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() >= 3
        && text.len() <= 32
        && parts.iter().all(|one| {
            !one.is_empty()
                && one
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
        && parts
            .last()
            .is_some_and(|one| one.bytes().all(|b| b.is_ascii_digit()))
}

fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    }
}

fn instant(at: Timestamp) -> String {
    let seconds = Timestamp::from_second(at.as_second()).unwrap_or(at);
    seconds.to_string()
}

/// A request body: lists are flat and count from one.
#[derive(Clone)]
struct Form {
    action: &'static str,
    text: String,
    filters: usize,
}

impl Form {
    fn new(action: &'static str) -> Self {
        Form {
            action,
            text: format!("Action={action}&Version={VERSION}"),
            filters: 0,
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.text.push('&');
        self.text.push_str(name);
        self.text.push('=');
        escape(value, &mut self.text);
    }

    fn list<T: AsRef<str>>(&mut self, name: &str, values: impl IntoIterator<Item = T>) {
        for (index, value) in values.into_iter().enumerate() {
            self.set(&format!("{name}.{}", index + 1), value.as_ref());
        }
    }

    fn filter(&mut self, name: &str, values: &[String]) {
        if values.is_empty() {
            return;
        }
        self.filters += 1;
        let index = self.filters;
        self.set(&format!("Filter.{index}.Name"), name);
        self.list(&format!("Filter.{index}.Value"), values);
    }

    fn tags<'a>(&mut self, tags: impl IntoIterator<Item = (&'a String, &'a String)>) {
        for (key, value) in tags {
            if value == "*" {
                self.filter("tag-key", std::slice::from_ref(key));
            } else {
                self.filter(&format!("tag:{key}"), std::slice::from_ref(value));
            }
        }
    }
}

fn escape(text: &str, into: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            into.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(into, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_what_ec2_reads() {
        let mut form = Form::new("DescribeSubnets");
        let tags = [
            ("kubernetes.io/cluster/a b".to_owned(), "owned".to_owned()),
            ("x".to_owned(), "*".to_owned()),
        ];
        form.tags(tags.iter().map(|(key, value)| (key, value)));
        assert_eq!(
            form.text,
            "Action=DescribeSubnets&Version=2016-11-15&Filter.1.Name=tag%3Akubernetes.io%2Fcluster%2Fa%20b&\
             Filter.1.Value.1=owned&Filter.2.Name=tag-key&Filter.2.Value.1=x"
        );
    }

    #[test]
    fn only_regions_become_part_of_a_host_name() {
        for good in [
            "eu-central-1",
            "us-gov-west-1",
            "cn-north-1",
            "ap-southeast-4",
        ] {
            assert!(is_region(good), "{good}");
        }
        for bad in [
            "",
            "eu",
            "EU-central-1",
            "eu-central",
            "evil.example/-1",
            "us-east-1a",
            "a-b-1.",
        ] {
            assert!(!is_region(bad), "{bad}");
        }
    }
}
