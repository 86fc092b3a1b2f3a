//! The public price feed: fetched, understood where it can be, and kept.
//!
//! A feed that is down, replaced by a web page, or has lost a class never empties what is known: the last good value
//! of each class stays, with the time at which it was true.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Name;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::Mutex;

use super::bids::Percentile;
use super::types::{Text, gigabytes};
use crate::http::{Http, HttpError, Retry, excerpt};

/// Where the feed is.
pub const FEED_URL: &str =
    "https://ngpc-prod-public-data.s3.us-east-2.amazonaws.com/percentiles.json";
/// The feed's word for servers that nobody can bid on although it lists a price for them.
const BARE_METAL: &str = "Bare Metal";

/// Why the feed cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FeedError {
    /// There is no answer.
    #[error("the price feed cannot be read: {0}")]
    Unreachable(String),
    /// The answer is not a price feed.
    #[error("the price feed is not what it should be: {0}")]
    Malformed(String),
    /// There is not one usable class in it.
    #[error("the price feed lists no server class with a price")]
    Empty,
}

/// What the feed says about one server class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// Server class.
    pub class: Name,
    /// Region.
    pub region: Name,
    /// `v1` or `v2`: which generation of data centre.
    pub generation: Name,
    /// Category in the feed's words.
    pub category: Name,
    /// Name for people.
    pub display_name: Name,
    /// Cores, in thousandths.
    pub cpu_millis: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Where the market stands.
    pub market: Money,
    /// The price was below this a fifth of the time.
    pub p20: Option<Money>,
    /// Half of the time.
    pub p50: Option<Money>,
    /// Four fifths of the time.
    pub p80: Option<Money>,
}

impl Listing {
    /// Whether it is bare metal: listed for next to nothing, and refused to every bidder.
    pub fn is_bare_metal(&self) -> bool {
        &*self.category == BARE_METAL || self.class.contains(".bm")
    }

    /// A past price.
    pub fn past(&self, percentile: Percentile) -> Option<Money> {
        match percentile {
            Percentile::P20 => self.p20,
            Percentile::P50 => self.p50,
            Percentile::P80 => self.p80,
        }
    }
}

/// Reads a feed. Entries that lack what matters are left out.
pub fn parse(feed: &[u8]) -> Result<Vec<Listing>, FeedError> {
    let value: Value = serde_json::from_slice(feed)
        .map_err(|error| FeedError::Malformed(format!("{error}, in {:?}", excerpt(feed))))?;
    let regions = value
        .get("regions")
        .and_then(Value::as_object)
        .ok_or_else(|| FeedError::Malformed("it has no regions".to_owned()))?;
    let mut listings = Vec::new();
    for (region, inside) in regions {
        let generation = text(inside, "generation");
        let Some(classes) = inside.get("serverclasses").and_then(Value::as_object) else {
            continue;
        };
        listings.extend(
            classes
                .iter()
                .filter_map(|(class, entry)| listing(region, &generation, class, entry)),
        );
    }
    if listings.is_empty() {
        return Err(FeedError::Empty);
    }
    Ok(listings)
}

fn text(entry: &Value, key: &str) -> String {
    let Text(text) = entry
        .get(key)
        .and_then(|value| serde_json::from_value(value.clone()).ok())
        .unwrap_or_default();
    text
}

fn listing(region: &str, generation: &str, class: &str, entry: &Value) -> Option<Listing> {
    let price = |key: &str| Text(text(entry, key)).dollars();
    let cores = Text(text(entry, "cpu"))
        .count()
        .filter(|cores| *cores > 0)?;
    let category = text(entry, "category");
    if category.is_empty() {
        return None;
    }
    Some(Listing {
        class: class.into(),
        region: region.into(),
        generation: generation.into(),
        category: category.into(),
        display_name: text(entry, "display_name").into(),
        cpu_millis: i64::from(cores) * 1000,
        memory_bytes: gigabytes(&text(entry, "memory"))?,
        market: price("market_price")?,
        p20: price("20_percentile"),
        p50: price("50_percentile"),
        p80: price("80_percentile"),
    })
}

/// A listing and when it was true.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// What the feed said.
    pub listing: Listing,
    /// When it said so.
    pub as_of: Timestamp,
}

/// All that is known, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Book {
    /// By server class.
    pub classes: BTreeMap<Name, Known>,
    /// When the feed was last read with success.
    pub as_of: Option<Timestamp>,
    /// Why it could not be read since.
    pub trouble: Option<FeedError>,
}

impl Book {
    /// What is known about a class and not older than `max_age`.
    pub fn fresh(&self, class: &str, now: Timestamp, max_age: Duration) -> Option<&Listing> {
        let known = self.classes.get(class)?;
        let age = Duration::try_from(now.duration_since(known.as_of)).unwrap_or_default();
        (age <= max_age).then_some(&known.listing)
    }
}

struct State {
    book: Arc<Book>,
    tried: Option<Timestamp>,
}

/// The feed, behind a cache.
pub struct Prices {
    http: Http,
    url: String,
    time_to_live: Duration,
    state: Mutex<State>,
}

impl Prices {
    /// A cache of the feed at `url`.
    pub fn new(http: Http, url: String, time_to_live: Duration) -> Self {
        Prices {
            // The feed is small and static: what takes longer than this is down.
            http: http.with_timeout(Duration::from_secs(10)),
            url,
            time_to_live,
            state: Mutex::new(State {
                book: Arc::default(),
                tried: None,
            }),
        }
    }

    /// What is known. Fetches when the last attempt is older than the time to live; whoever comes meanwhile waits for
    /// the same fetch.
    pub async fn book(&self, now: Timestamp) -> Arc<Book> {
        let mut state = self.state.lock().await;
        let due = state.tried.is_none_or(|tried| {
            let since = now.duration_since(tried);
            since.is_negative() || since.unsigned_abs() >= self.time_to_live
        });
        if due {
            let fetched = self.fetch().await;
            let mut book = Book::clone(&state.book);
            match fetched {
                Ok(listings) => {
                    book.as_of = Some(now);
                    book.trouble = None;
                    for listing in listings {
                        let as_of = now;
                        book.classes
                            .insert(listing.class.clone(), Known { listing, as_of });
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, last_good = ?book.as_of, "prices stay what they were");
                    book.trouble = Some(error);
                }
            }
            state.book = Arc::new(book);
            state.tried = Some(now);
        }
        Arc::clone(&state.book)
    }

    /// Why the feed could not be read last time, and when it was last read with success.
    pub async fn trouble(&self) -> Option<(FeedError, Option<Timestamp>)> {
        let state = self.state.lock().await;
        let trouble = state.book.trouble.clone()?;
        Some((trouble, state.book.as_of))
    }

    async fn fetch(&self) -> Result<Vec<Listing>, FeedError> {
        fetch(&self.http, &self.url).await
    }
}

/// Reads the feed once, past any cache.
pub async fn fetch(http: &Http, url: &str) -> Result<Vec<Listing>, FeedError> {
    let request = Request::get(url)
        .body(Bytes::new())
        .map_err(|error| FeedError::Unreachable(error.to_string()))?;
    let reply = http
        .send(request, Retry::READ)
        .await
        .map_err(|error: HttpError| FeedError::Unreachable(error.to_string()))?;
    if !reply.status.is_success() {
        return Err(FeedError::Unreachable(reply.status.to_string()));
    }
    parse(&reply.body)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex as StdMutex;

    use http::Response;
    use http_body_util::Full;
    use proptest::prelude::*;
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    fn feed(classes: &Value) -> String {
        json!({"regions": {"us-central-ord-1": {"generation": "v1", "serverclasses": classes}}})
            .to_string()
    }

    fn large(market: &Value) -> Value {
        json!({"20_percentile": 0.009, "50_percentile": 0.013, "80_percentile": 0.037_000_000_000_000_005,
               "market_price": market, "cpu": "4", "memory": "15GB",
               "display_name": "General Virtual Server.Large", "category": "General Purpose",
               "description": "US Central, Chicago, IL"})
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_feed_is_read_whatever_its_numbers_look_like() {
        for market in [json!("0.008000"), json!("$0.008"), json!(0.008)] {
            let listings = parse(feed(&json!({"gp.vs1.large-ord": large(&market)})).as_bytes());
            let listing = listings.unwrap().remove(0);
            assert_eq!(listing.market, Money::from_dollars(0.008), "{market}");
            assert_eq!(listing.p80, Some(Money::from_dollars(0.037)));
            assert_eq!(listing.memory_bytes, 15 << 30);
        }
    }

    #[test]
    fn entries_without_what_matters_are_left_out() {
        let mut nameless = large(&json!("0.01"));
        nameless["category"] = json!("");
        let listings = parse(
            feed(&json!({
                "good": large(&json!("0.01")), "free": large(&json!("0.000000")),
                "unpriced": large(&json!("")), "null": null, "nameless": nameless,
            }))
            .as_bytes(),
        )
        .unwrap();
        let names: Vec<&str> = listings.iter().map(|one| &*one.class).collect();
        assert_eq!(names, ["good"]);
    }

    #[test]
    fn what_is_not_a_feed_is_refused() {
        let html = parse(b"<!DOCTYPE html><html>Service unavailable</html>").unwrap_err();
        assert!(html.to_string().contains("<!DOCTYPE html>"), "{html}");
        assert!(matches!(parse(b"[]"), Err(FeedError::Malformed(_))));
        assert_eq!(parse(feed(&json!({})).as_bytes()), Err(FeedError::Empty));
        let whole = feed(&json!({"gp.vs1.large-ord": large(&json!("0.01"))}));
        assert!(matches!(
            parse(&whole.as_bytes()[..whole.len() - 2]),
            Err(FeedError::Malformed(_))
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_good_price_stays_and_its_age_shows() {
        let answer = Arc::new(StdMutex::new(feed(&json!({
            "a": large(&json!("0.01")), "b": large(&json!("0.02")),
        }))));
        let says = Arc::clone(&answer);
        let http = Http::new(service_fn(move |_: Request<Full<Bytes>>| {
            let body = says.lock().unwrap().clone();
            async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body)))) }
        }));
        let prices = Prices::new(http, "https://f.example/".into(), Duration::from_secs(30));
        assert_eq!(prices.book(at(0)).await.as_of, Some(at(0)));

        *answer.lock().unwrap() = "<html>".into();
        assert_eq!(
            prices.book(at(10)).await.trouble,
            None,
            "not asked again yet"
        );
        let down = prices.book(at(30)).await;
        assert!(down.trouble.is_some());
        assert_eq!((down.as_of, down.classes.len()), (Some(at(0)), 2));

        *answer.lock().unwrap() = feed(&json!({"a": large(&json!("0.03"))}));
        let back = prices.book(at(60)).await;
        assert_eq!(back.trouble, None);
        assert_eq!(back.classes["b"].as_of, at(0));
        assert_eq!(back.classes["a"].listing.market, Money::from_dollars(0.03));
        let hour = Duration::from_hours(1);
        assert!(back.fresh("b", at(60), hour).is_some());
        assert!(back.fresh("b", at(7200), hour).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn no_value_in_any_field_makes_a_price_of_nothing(
            key in prop::sample::select(vec![
                "market_price", "cpu", "memory", "category", "80_percentile", "display_name",
            ]),
            value in prop::sample::select(vec![
                json!(null), json!(true), json!([]), json!({}), json!(-1), json!(0), json!("0"),
                json!("x"), json!(1e300), json!("NaN"), json!("-0.1"),
            ]),
        ) {
            let mut entry = large(&json!("0.01"));
            entry[key] = value;
            if let Ok(listings) = parse(feed(&json!({"c": entry})).as_bytes()) {
                for one in listings {
                    prop_assert!(one.market > Money::ZERO && one.cpu_millis > 0 && one.memory_bytes > 0);
                    prop_assert!(one.p80.is_none_or(|price| price > Money::ZERO));
                }
            }
        }
    }
}
