//! The public price catalogue: read, understood where it can be, and kept.
//!
//! A catalogue that is down never empties what is known: the last good one stays, and before there was one the built-in
//! table has to do, and says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::client::Client;
use super::table;
use crate::ProviderError;
use crate::http::excerpt;

/// How long a catalogue is used before it is read again.
const TRUST: Duration = Duration::from_hours(6);
/// How long after a failure it is tried again.
const PATIENCE: Duration = Duration::from_mins(5);
/// Hours of a month, as the trade counts.
const HOURS_PER_MONTH: i64 = 730;
/// The catalogue counts in hundred-millionths, [`Money`] in billionths.
const NANOS_PER_UNIT: i64 = 10;

#[derive(Deserialize)]
struct Feed {
    #[serde(default)]
    addons: Vec<Addon>,
    #[serde(default)]
    locale: Locale,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Locale {
    currency_code: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Addon {
    plan_code: String,
    #[serde(default)]
    product: String,
    #[serde(default)]
    pricings: Vec<Pricing>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Pricing {
    price: i64,
    capacities: Vec<String>,
}

/// Where prices come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The public catalogue.
    Catalogue,
    /// The built-in table: nobody has answered yet.
    BuiltIn,
}

/// What things cost.
#[derive(Clone, Debug)]
pub struct PriceList {
    /// By plan code, as the catalogue has it: an hour's or a month's.
    plans: BTreeMap<String, i64>,
    /// Currency, such as `EUR`.
    pub currency: String,
    /// Where it comes from.
    pub source: Source,
    /// When it was read.
    pub as_of: Option<Timestamp>,
}

/// Which price of a flavour.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Flavour.
    pub flavor: &'a str,
    /// Plan code of the flavour in its region, if it is known.
    pub code: Option<&'a str>,
    /// Paid by the month.
    pub monthly: bool,
    /// In a region of three zones.
    pub multi_zone: bool,
}

impl PriceList {
    /// The built-in table.
    pub fn built_in() -> Self {
        PriceList {
            plans: BTreeMap::new(),
            currency: "EUR".to_owned(),
            source: Source::BuiltIn,
            as_of: None,
        }
    }

    /// Reads a catalogue.
    pub fn parse(feed: &[u8], as_of: Timestamp) -> Result<Self, ProviderError> {
        let malformed = |why: String| {
            ProviderError::Transient(format!(
                "the OVHcloud price catalogue cannot be used: {why}"
            ))
        };
        let read: Feed = serde_json::from_slice(feed)
            .map_err(|error| malformed(format!("{error}, in {:?}", excerpt(feed))))?;
        let plans: BTreeMap<String, i64> = read
            .addons
            .into_iter()
            .filter(|addon| addon.product == "publiccloud-instance")
            .filter_map(|addon| {
                let pricing = addon.pricings.iter().find(|one| {
                    one.price > 0 && !one.capacities.iter().any(|what| what == "installation")
                })?;
                Some((addon.plan_code, pricing.price))
            })
            .collect();
        if plans.is_empty() {
            return Err(malformed("it lists no instance with a price".to_owned()));
        }
        Ok(PriceList {
            plans,
            currency: read.locale.currency_code,
            source: Source::Catalogue,
            as_of: Some(as_of),
        })
    }

    /// What an hour costs; `None` if nobody says.
    pub fn hour(&self, plan: Plan<'_>) -> Option<Money> {
        let flavor = plan.flavor;
        if self.source == Source::BuiltIn {
            let row = table::find(flavor)?;
            let micros = if plan.monthly {
                row.monthly? / HOURS_PER_MONTH
            } else {
                row.hourly?
            };
            return Some(Money::from_nanos(micros * 1000));
        }
        let wanted: Vec<String> = if plan.monthly {
            vec![
                plan.code.unwrap_or_default().to_owned(),
                format!("{flavor}.monthly.postpaid"),
            ]
        } else if plan.multi_zone {
            vec![
                plan.code.unwrap_or_default().to_owned(),
                format!("{flavor}.consumption.3AZ"),
                format!("{flavor}.consumption"),
            ]
        } else {
            vec![
                plan.code.unwrap_or_default().to_owned(),
                format!("{flavor}.consumption"),
            ]
        };
        let price = wanted.iter().find_map(|code| self.plans.get(code))?;
        let hours = if plan.monthly { HOURS_PER_MONTH } else { 1 };
        Some(Money::from_nanos(
            price.saturating_mul(NANOS_PER_UNIT) / hours,
        ))
    }

    /// Every plan code with its price as the catalogue has it.
    pub fn plans(&self) -> impl Iterator<Item = (&str, i64)> {
        self.plans
            .iter()
            .map(|(code, price)| (code.as_str(), *price))
    }
}

struct Kept {
    list: Arc<PriceList>,
    tried: Option<Timestamp>,
    trouble: Option<String>,
}

/// Keeps prices.
pub struct Prices {
    subsidiary: String,
    kept: Mutex<Kept>,
}

impl Prices {
    /// Prices of a subsidiary: `FR`, `CA`, `US`.
    pub fn new(subsidiary: impl Into<String>) -> Self {
        Prices {
            subsidiary: subsidiary.into(),
            kept: Mutex::new(Kept {
                list: Arc::new(PriceList::built_in()),
                tried: None,
                trouble: None,
            }),
        }
    }

    /// The prices to use now: as new as can be had.
    pub async fn list(&self, client: &Client, now: Timestamp) -> Arc<PriceList> {
        let mut kept = self.kept.lock().await;
        let wait = if kept.trouble.is_some() {
            PATIENCE
        } else {
            TRUST
        };
        let due = kept
            .tried
            .is_none_or(|tried| now.duration_since(tried).unsigned_abs() >= wait);
        if due {
            kept.tried = Some(now);
            let read = client.price_list(&self.subsidiary).await;
            match read.and_then(|feed| PriceList::parse(&feed, now)) {
                Ok(list) => {
                    kept.list = Arc::new(list);
                    kept.trouble = None;
                }
                Err(error) => {
                    tracing::warn!(%error, "prices stay what they were");
                    kept.trouble = Some(error.to_string());
                }
            }
        }
        Arc::clone(&kept.list)
    }

    /// What is wrong with the prices in use.
    pub async fn trouble(&self) -> Option<String> {
        let kept = self.kept.lock().await;
        let trouble = kept.trouble.as_ref()?;
        Some(match kept.list.as_of {
            Some(as_of) => format!("{trouble}; prices are those of {as_of}"),
            None => format!(
                "{trouble}; prices are those of the built-in table of September 2026, in euro"
            ),
        })
    }

    /// When the prices in use were read.
    pub async fn as_of(&self) -> Option<Timestamp> {
        self.kept.lock().await.list.as_of
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list() -> PriceList {
        let addon = |code: &str, price: i64| {
            json!({"planCode": code, "product": "publiccloud-instance",
                "pricings": [{"price": price, "capacities": ["consumption"], "interval": 0, "intervalUnit": "none"}]})
        };
        let feed = json!({"locale": {"currencyCode": "EUR"}, "addons": [
            addon("b3-8.consumption", 5_120_000), addon("b3-8.consumption.3AZ", 6_120_000),
            addon("b2-7.consumption", 6_810_000), addon("b2-7.monthly.postpaid", 2_420_000_000),
            addon("b3-8.consumption.LZ.EU", 9_000_000),
            {"planCode": "disk.consumption", "product": "publiccloud-volume", "pricings": [{"price": 1}]}]});
        PriceList::parse(feed.to_string().as_bytes(), Timestamp::UNIX_EPOCH).unwrap()
    }

    fn plan(flavor: &str) -> Plan<'_> {
        Plan {
            flavor,
            code: None,
            monthly: false,
            multi_zone: false,
        }
    }

    #[test]
    fn prices_are_found_by_their_exact_plan_code() {
        let list = list();
        let hour = |plan| list.hour(plan).map(Money::nanos);
        assert_eq!(hour(plan("b3-8")), Some(51_200_000));
        let three = Plan {
            multi_zone: true,
            ..plan("b3-8")
        };
        assert_eq!(hour(three), Some(61_200_000));
        let told = Plan {
            code: Some("b3-8.consumption.LZ.EU"),
            ..plan("b3-8")
        };
        assert_eq!(hour(told), Some(90_000_000));
        let month = Plan {
            monthly: true,
            ..plan("b2-7")
        };
        assert_eq!(hour(month), Some(24_200_000_000 / 730));
        assert_eq!(hour(plan("b3-16")), None);
    }

    #[test]
    fn the_built_in_table_is_the_last_resort() {
        let list = PriceList::built_in();
        assert_eq!(list.source, Source::BuiltIn);
        assert_eq!(list.hour(plan("b3-8")).map(Money::nanos), Some(51_200_000));
        assert_eq!(list.hour(plan("t1-45")), None);
        let month = Plan {
            monthly: true,
            ..plan("b2-7")
        };
        assert!(list.hour(month) < list.hour(plan("b2-7")));
    }

    #[test]
    fn a_page_that_is_no_catalogue_is_refused() {
        for odd in ["<html>", "{}", r#"{"addons": []}"#] {
            assert!(PriceList::parse(odd.as_bytes(), Timestamp::UNIX_EPOCH).is_err());
        }
    }
}
