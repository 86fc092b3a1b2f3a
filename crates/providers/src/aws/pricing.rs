//! List prices: the price list service, JSON 1.1, offered in a few regions for all.

use std::collections::BTreeMap;

use bytes::Bytes;
use joiner_core::money::Money;
use serde::Deserialize;
use serde_json::{Value, json};

use super::credentials::Credentials;
use super::error::{AwsError, AwsErrorKind};
use super::sign::{self, Scope};
use super::{AwsOptions, Clock};
use crate::http::{Endpoint, Http, Retry};

const ACTION: &str = "GetProducts";
const MOST_PAGES: usize = 200;

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "PriceList", default)]
    list: Vec<String>,
    #[serde(rename = "NextToken", default)]
    next: Option<String>,
}

/// Where the price list of a region is asked for.
fn home(region: &str) -> &'static str {
    match region {
        one if one.starts_with("cn-") => "cn-northwest-1",
        one if one.starts_with("ap-") => "ap-south-1",
        one if one.starts_with("eu-") => "eu-central-1",
        _ => "us-east-1",
    }
}

/// List prices of GPU instance types of a region, by type.
pub(super) async fn list_prices(
    http: &Http,
    region: &str,
    options: &AwsOptions,
    credentials: &Credentials,
    clock: &Clock,
) -> Result<BTreeMap<String, Money>, AwsError> {
    let home = home(region);
    let invalid =
        |error: String| AwsError::new(ACTION, "InvalidEndpoint", error, AwsErrorKind::Invalid);
    let (url, allowed) = match &options.pricing_endpoint {
        Some(url) => (url.clone(), super::host_of(url)),
        None => (format!("https://api.pricing.{home}.amazonaws.com"), None),
    };
    let allowed: Vec<String> = allowed.into_iter().collect();
    let endpoint = Endpoint::parse(&url, &allowed).map_err(|error| invalid(error.to_string()))?;
    let mut prices = BTreeMap::new();
    let mut next: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let body = request(region, next.as_deref());
        let now = clock();
        let keys = credentials.keys(now).await?;
        let scope = Scope {
            region: home,
            service: "pricing",
            action: ACTION,
        };
        let headers = [
            ("content-type", "application/x-amz-json-1.1"),
            ("x-amz-target", "AWSPriceListService.GetProducts"),
        ];
        let request = sign::post(
            &endpoint.at("/"),
            &headers,
            Bytes::from(body),
            &keys,
            &scope,
            now,
        )?;
        let reply = http.send(request, Retry::READ).await;
        let reply = reply.map_err(|error| AwsError::transport(ACTION, endpoint.host(), &error))?;
        if !reply.status.is_success() {
            return Err(AwsError::refusal(ACTION, &reply));
        }
        let page: Answer = serde_json::from_slice(&reply.body)
            .map_err(|error| AwsError::unreadable(ACTION, &error.to_string(), &reply.body))?;
        prices.extend(page.list.iter().filter_map(|text| product(text)));
        next = page.next.filter(|token| !token.is_empty());
        if next.is_none() {
            return Ok(prices);
        }
    }
    let message = format!("there is no end after {MOST_PAGES} pages");
    Err(AwsError::new(
        ACTION,
        "EndlessPages",
        message,
        AwsErrorKind::Unavailable,
    ))
}

fn request(region: &str, next: Option<&str>) -> String {
    let term =
        |field: &str, value: &str| json!({"Type": "TERM_MATCH", "Field": field, "Value": value});
    let mut body = json!({
        "ServiceCode": "AmazonEC2",
        "FormatVersion": "aws_v1",
        "MaxResults": 100,
        "Filters": [
            term("regionCode", region),
            term("serviceCode", "AmazonEC2"),
            term("preInstalledSw", "NA"),
            term("operatingSystem", "Linux"),
            term("capacitystatus", "Used"),
            term("marketoption", "OnDemand"),
            term("tenancy", "Shared"),
            term("productFamily", "Compute Instance"),
        ],
    });
    if let Some(next) = next {
        body["NextToken"] = next.into();
    }
    body.to_string()
}

/// A product is a JSON text within the JSON answer.
fn product(text: &str) -> Option<(String, Money)> {
    let product: Value = serde_json::from_str(text).ok()?;
    let name = product
        .pointer("/product/attributes/instanceType")?
        .as_str()?;
    let terms = product.pointer("/terms/OnDemand")?.as_object()?;
    let dimensions = terms
        .values()
        .filter_map(|term| term["priceDimensions"].as_object());
    let price = dimensions
        .flat_map(|all| all.values())
        .filter_map(|one| one["pricePerUnit"]["USD"].as_str()?.parse::<f64>().ok())
        .find(|price| *price > 0.0)?;
    Some((name.to_owned(), Money::from_dollars(price)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_found_inside_its_text_and_zero_is_none() {
        let text = |price: &str| {
            json!({"product": {"attributes": {"instanceType": "g5.xlarge"}},
                "terms": {"OnDemand": {"A.B": {"priceDimensions": {"A.B.C": {"pricePerUnit": {"USD": price}}}}}}})
            .to_string()
        };
        let found = product(&text("1.0060000000"));
        assert_eq!(
            found,
            Some(("g5.xlarge".to_owned(), Money::from_dollars(1.006)))
        );
        assert_eq!(product(&text("0.0000000000")), None);
        assert_eq!(product("{}"), None);
    }
}
