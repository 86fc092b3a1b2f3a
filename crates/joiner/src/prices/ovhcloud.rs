//! Prices of OVHcloud flavours, from the public catalogue.

use std::io::{self, Write as _};

use bytes::Bytes;
use comfy_table::{CellAlignment, Table, presets};
use jiff::Timestamp;
use joiner_controllers::classes::ovhcloud::OvhDefaults;
use joiner_core::money::Money;
use joiner_providers::ProviderError;
use joiner_providers::http::{Http, Reach, Retry, excerpt};
use joiner_providers::ovhcloud::prices::{Plan, PriceList};
use joiner_providers::ovhcloud::table;
use serde::Serialize;

use super::{quoted, unreadable};
use crate::args::{PriceFormat, PricesArgs};
use crate::failure::Failure;
use crate::input;

const HEADINGS: [&str; 9] = [
    "flavour",
    "vcpu",
    "gib",
    "gpu",
    "hour",
    "hour-3az",
    "month-per-hour",
    "per-vcpu",
    "per-gib",
];

/// One flavour. Units of the currency per hour throughout.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    flavour: String,
    vcpu: u32,
    gib: u32,
    gpu: u32,
    hour: f64,
    hour_three_zones: Option<f64>,
    month_per_hour: Option<f64>,
}

/// Runs the command.
pub(super) fn run(args: &PricesArgs) -> Result<(), Failure> {
    let feed: Bytes = match &args.feed_file {
        Some(path) => input::text(path)?.into_bytes().into(),
        None => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(unreadable)?
            .block_on(fetch())?,
    };
    let list = PriceList::parse(&feed, Timestamp::now()).map_err(unreadable)?;
    let rows = rows(&list, &args.category);
    let text = match args.output {
        PriceFormat::Table => show(&rows, &list.currency),
        PriceFormat::Csv => csv(&rows),
        PriceFormat::Json => {
            let document = serde_json::json!({"provider": "ovhcloud", "currency": list.currency, "unit": "hour",
                "flavours": rows});
            format!("{document:#}\n")
        }
    };
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(Failure::stdout)
}

async fn fetch() -> Result<Bytes, Failure> {
    let name = std::env::var("OVH_ENDPOINT").unwrap_or_default();
    let reach = |hosts: Vec<String>| {
        let reach = Reach {
            allowed_hosts: hosts,
            ..Reach::default()
        };
        Http::production(&reach).map_err(ProviderError::from)
    };
    let OvhDefaults {
        api,
        subsidiary,
        http,
        ..
    } = OvhDefaults::new(&name, reach).map_err(|error| Failure::Usage(error.to_string()))?;
    let path = format!("/order/catalog/public/cloud?ovhSubsidiary={subsidiary}");
    let request = http::Request::builder()
        .uri(api.at(&path))
        .body(Bytes::new())
        .map_err(unreadable)?;
    let reply = http.send(request, Retry::READ).await.map_err(unreadable)?;
    if reply.status.is_success() {
        return Ok(reply.body);
    }
    Err(unreadable(format!(
        "{}: {}",
        reply.status,
        excerpt(&reply.body)
    )))
}

fn rows(list: &PriceList, families: &[String]) -> Vec<Row> {
    table::TABLE
        .iter()
        .filter(|row| {
            families.is_empty()
                || families
                    .iter()
                    .any(|one| row.name.starts_with(one.as_str()))
        })
        .filter_map(|row| {
            let price = |monthly: bool, multi_zone: bool| {
                let plan = Plan {
                    flavor: row.name,
                    code: None,
                    monthly,
                    multi_zone,
                };
                list.hour(plan).map(Money::dollars)
            };
            Some(Row {
                flavour: row.name.to_owned(),
                vcpu: row.vcpus,
                gib: row.ram,
                gpu: row.gpus,
                hour: price(false, false)?,
                hour_three_zones: price(false, true),
                month_per_hour: price(true, false),
            })
        })
        .collect()
}

impl Row {
    fn cells(&self, unknown: &str) -> Vec<String> {
        let price = |price: Option<f64>| {
            price.map_or_else(|| unknown.to_owned(), |price| format!("{price:.4}"))
        };
        vec![
            self.flavour.clone(),
            self.vcpu.to_string(),
            self.gib.to_string(),
            self.gpu.to_string(),
            price(Some(self.hour)),
            price(self.hour_three_zones),
            price(self.month_per_hour),
            format!("{:.5}", self.hour / f64::from(self.vcpu)),
            format!("{:.5}", self.hour / f64::from(self.gib)),
        ]
    }
}

fn show(rows: &[Row], currency: &str) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(HEADINGS.map(str::to_uppercase));
    for row in rows {
        table.add_row(row.cells("-"));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{}\n\n{currency} per hour, without tax.\n",
        table.trim_fmt()
    )
}

fn csv(rows: &[Row]) -> String {
    let mut text = HEADINGS.join(",");
    for row in rows {
        let cells: Vec<String> = row.cells("").iter().map(|cell| quoted(cell)).collect();
        text.push('\n');
        text.push_str(&cells.join(","));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flavours_are_listed_with_what_an_hour_of_them_costs() {
        let addon = |code: &str, price: i64| json!({"planCode": code, "product": "publiccloud-instance", "pricings": [{"price": price}]});
        let feed = json!({"locale": {"currencyCode": "EUR"},
            "addons": [addon("b3-8.consumption", 5_120_000), addon("c3-4.consumption", 4_000_000)]});
        let list = PriceList::parse(feed.to_string().as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
        let all = rows(&list, &[]);
        assert_eq!(all.len(), 2);
        let text = csv(&rows(&list, &["b3".to_owned()]));
        assert_eq!(
            text.lines().last().unwrap(),
            "b3-8,2,8,0,0.0512,0.0512,,0.02560,0.00640"
        );
        assert!(show(&all, "EUR").contains("EUR per hour"));
    }
}
