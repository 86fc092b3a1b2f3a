//! `joiner prices`: what servers cost right now, and what a core and a GiB of them cost.

mod aws;
mod ovhcloud;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::Arc;

use comfy_table::{CellAlignment, Table, presets};
use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_providers::http::{Http, Reach};
use joiner_providers::rackspace::catalog::{category, on_demand_price};
use joiner_providers::rackspace::client::Client;
use joiner_providers::rackspace::prices::{self, Listing};
use joiner_providers::rackspace::types::ServerClass;
use joiner_providers::rackspace::{Clock, RackspaceOptions};
use serde::Serialize;

use crate::args::{PriceFormat, PriceSource, PricesArgs};
use crate::failure::Failure;
use crate::input;

const GIB: f64 = 1_073_741_824.0;
const HEADINGS: [&str; 14] = [
    "class",
    "region",
    "category",
    "vcpu",
    "gib",
    "market",
    "reserve",
    "cost",
    "p20",
    "p50",
    "p80",
    "on-demand",
    "per-vcpu",
    "per-gib",
];
/// Categories of Rackspace Spot.
const CATEGORIES: [&str; 5] = ["gp", "ch", "mh", "gpu", "bm"];
/// The first three columns are words, the others numbers.
const WORDS: usize = 3;

/// One server class. Dollars per hour throughout; `cost` is what the winner of an auction pays.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    class: String,
    region: String,
    category: String,
    vcpu: f64,
    gib: f64,
    market: f64,
    reserve: Option<f64>,
    cost: Option<f64>,
    p20: Option<f64>,
    p50: Option<f64>,
    p80: Option<f64>,
    on_demand: Option<f64>,
    per_vcpu: Option<f64>,
    per_gib: Option<f64>,
    biddable: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    provider: &'static str,
    currency: &'static str,
    unit: &'static str,
    classes: &'a [Row],
}

/// Runs the command.
pub(crate) fn run(args: &PricesArgs) -> Result<(), Failure> {
    if args.provider == PriceSource::Aws {
        let text = aws::text(args)?;
        return io::stdout()
            .write_all(text.as_bytes())
            .map_err(Failure::stdout);
    }
    if args.provider == PriceSource::Ovhcloud {
        return ovhcloud::run(args);
    }
    known_categories(&args.category)?;
    let (listings, classes) = match &args.feed_file {
        Some(path) => {
            let feed = input::text(path)?;
            let listings = prices::parse(feed.as_bytes()).map_err(unreadable)?;
            (listings, Vec::new())
        }
        None => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(unreadable)?
            .block_on(fetch(args))?,
    };
    let rows = rows(&listings, &classes, args);
    let text = match args.output {
        PriceFormat::Table => table(&rows),
        PriceFormat::Json => json(&rows)?,
        PriceFormat::Csv => csv(&rows),
    };
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(Failure::stdout)
}

/// Refuses a category that does not exist, before anything is fetched.
fn known_categories(given: &[String]) -> Result<(), Failure> {
    let known = |one: &&String| !CATEGORIES.contains(&one.to_lowercase().as_str());
    match given.iter().find(known) {
        None => Ok(()),
        Some(unknown) => Err(Failure::Usage(format!(
            "--category {unknown}: there is no such category; write one of {}",
            CATEGORIES.join(", ")
        ))),
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that `map_err` wants"
)]
fn unreadable(error: impl ToString) -> Failure {
    Failure::Prices(error.to_string())
}

async fn fetch(args: &PricesArgs) -> Result<(Vec<Listing>, Vec<ServerClass>), Failure> {
    let http = Http::production(&Reach::default()).map_err(unreadable)?;
    let listings = prices::fetch(&http, &args.feed_url)
        .await
        .map_err(unreadable)?;
    let Some(token) = args
        .refresh_token
        .as_deref()
        .filter(|token| !token.is_empty())
    else {
        return Ok((listings, Vec::new()));
    };
    // Server classes belong to no cloudspace: neither name is sent anywhere.
    let options = RackspaceOptions::new("joiner", "joiner", token.into()).map_err(unreadable)?;
    let clock: Clock = Arc::new(Timestamp::now);
    let client = Client::new(http, &options, clock);
    let classes = client.server_classes().await.map_err(unreadable)?;
    Ok((listings, classes))
}

fn rows(listings: &[Listing], classes: &[ServerClass], args: &PricesArgs) -> Vec<Row> {
    let known: BTreeMap<&str, &ServerClass> = classes
        .iter()
        .map(|class| (class.metadata.name.as_str(), class))
        .collect();
    let wanted =
        |list: &[String], word: &str| list.is_empty() || list.iter().any(|one| one == word);
    let mut rows: Vec<Row> = listings
        .iter()
        .filter(|one| wanted(&args.region, &one.region))
        .filter(|one| wanted(&args.category, category(&one.class)))
        .map(|one| row(one, known.get(&*one.class).copied()))
        .collect();
    rows.sort_by(|a, b| (&a.region, &a.class).cmp(&(&b.region, &b.class)));
    rows
}

fn row(listing: &Listing, class: Option<&ServerClass>) -> Row {
    let reserve = class.and_then(|class| class.spec.min_bid_price_per_hour.dollars());
    // With the class at hand, its reserve price says whether bids are taken; without, the name must do.
    let biddable = match class {
        Some(_) => reserve.is_some(),
        None => !listing.is_bare_metal(),
    };
    let cost = biddable.then(|| listing.market.max(reserve.unwrap_or(Money::ZERO)).dollars());
    #[expect(
        clippy::cast_precision_loss,
        reason = "sizes of servers are small numbers"
    )]
    let (vcpu, gib) = (
        listing.cpu_millis as f64 / 1000.0,
        listing.memory_bytes as f64 / GIB,
    );
    let dollars = |money: Option<Money>| money.map(Money::dollars);
    Row {
        class: listing.class.to_string(),
        region: listing.region.to_string(),
        category: category(&listing.class).to_owned(),
        vcpu,
        gib,
        market: listing.market.dollars(),
        reserve: dollars(reserve),
        cost,
        p20: dollars(listing.p20),
        p50: dollars(listing.p50),
        p80: dollars(listing.p80),
        on_demand: dollars(class.and_then(on_demand_price)),
        per_vcpu: cost.map(|cost| cost / vcpu),
        per_gib: cost.map(|cost| cost / gib),
        biddable,
    }
}

impl Row {
    /// As text; what is unknown is `unknown`.
    fn cells(&self, unknown: &str) -> Vec<String> {
        let price = |price: Option<f64>, digits: usize| {
            price.map_or_else(|| unknown.to_owned(), |price| format!("{price:.digits$}"))
        };
        vec![
            self.class.clone(),
            self.region.clone(),
            self.category.clone(),
            self.vcpu.to_string(),
            self.gib.to_string(),
            price(Some(self.market), 4),
            price(self.reserve, 4),
            price(self.cost, 4),
            price(self.p20, 4),
            price(self.p50, 4),
            price(self.p80, 4),
            price(self.on_demand, 4),
            price(self.per_vcpu, 5),
            price(self.per_gib, 5),
        ]
    }
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(HEADINGS.map(str::to_uppercase));
    for row in rows {
        table.add_row(row.cells("-"));
    }
    for column in table.column_iter_mut().skip(WORDS) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let metal = rows.iter().filter(|row| !row.biddable).count();
    let mut text = format!(
        "{}\n\nDollars per hour; cost is what a winner pays.",
        table.trim_fmt()
    );
    if metal > 0 {
        text.push_str(" Classes without a cost take no bids.");
    }
    text.push('\n');
    text
}

fn csv(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| {
        let cells = row.cells("");
        let cells = cells.iter().map(|cell| quoted(cell));
        cells.collect::<Vec<String>>().join(",")
    });
    let mut text = HEADINGS.join(",");
    for line in lines {
        text.push('\n');
        text.push_str(&line);
    }
    text.push('\n');
    text
}

/// A cell as CSV has it; the feed's names are not ours to trust.
pub(crate) fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

fn json(rows: &[Row]) -> Result<String, Failure> {
    let document = Document {
        provider: "rackspace",
        currency: "USD",
        unit: "hour",
        classes: rows,
    };
    let mut text = serde_json::to_string_pretty(&document).map_err(unreadable)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::args::{Args, Command};

    fn args(words: &[&str]) -> PricesArgs {
        let words = ["joiner", "prices"].iter().chain(words);
        match Args::parse_from(words).command {
            Command::Prices(args) => args,
            _ => panic!("not prices"),
        }
    }

    fn listings() -> Vec<Listing> {
        let class = |market: &str, category: &str| {
            json!({"20_percentile": 0.004, "50_percentile": 0.012, "80_percentile": 0.024,
                   "market_price": market, "cpu": "4", "memory": "15GB",
                   "display_name": "x", "category": category, "description": "x"})
        };
        let feed = json!({"regions": {"us-central-ord-1": {"generation": "v1", "serverclasses": {
            "gp.vs1.large-ord": class("0.002000", "General Purpose"),
            "gp.bm2.small-ord": class("0.005000", "Bare Metal"),
            "mh.vs1.large-ord": class("0.006000", "Memory Heavy"),
        }}}});
        prices::parse(feed.to_string().as_bytes()).unwrap()
    }

    fn reserved() -> Vec<ServerClass> {
        let class = json!({"metadata": {"name": "gp.vs1.large-ord"}, "spec": {"minBidPricePerHour": "0.01",
            "onDemandPricing": {"cost": "0.11", "interval": "1h"}}});
        vec![serde_json::from_value(class).unwrap()]
    }

    #[test]
    fn a_winner_pays_the_reserve_when_the_market_is_below() {
        let rows = rows(&listings(), &reserved(), &args(&["--category", "gp"]));
        assert_eq!(rows.len(), 1);
        assert_eq!(
            csv(&rows).lines().last().unwrap(),
            "gp.vs1.large-ord,us-central-ord-1,gp,4,15,0.0020,0.0100,0.0100,0.0040,0.0120,0.0240,0.1100,0.00250,0.00067"
        );
    }

    #[test]
    fn what_cannot_be_bid_on_has_no_cost() {
        let rows = rows(&listings(), &[], &args(&[]));
        let metal = rows.iter().find(|row| row.category == "bm").unwrap();
        assert_eq!(
            (metal.biddable, metal.cost, metal.per_vcpu),
            (false, None, None)
        );
        let shown = table(&rows);
        assert!(shown.contains("take no bids"), "{shown}");
        assert!(
            shown.lines().next().unwrap().contains("PER-VCPU"),
            "{shown}"
        );
        let parsed: Value = serde_json::from_str(&json(&rows).unwrap()).unwrap();
        assert_eq!(parsed["classes"][0]["class"], "gp.bm2.small-ord");
        assert_eq!(parsed["classes"][0]["cost"], Value::Null);
        assert_eq!(parsed["classes"][1]["perVcpu"], 0.0005);
    }

    #[test]
    fn regions_and_categories_narrow_the_list() {
        assert!(rows(&listings(), &[], &args(&["--region", "uk-lon-1"])).is_empty());
        assert_eq!(
            rows(&listings(), &[], &args(&["--category", "mh,gpu"])).len(),
            1
        );
    }

    #[test]
    fn cells_that_could_break_a_line_are_quoted() {
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
