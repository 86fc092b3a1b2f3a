//! GPU instances of AWS, by price per GPU.

use comfy_table::{CellAlignment, Table, presets};
use joiner_core::leftover::{Capacity, Wanted, rank};
use joiner_core::money::Money;
use joiner_core::name::Name;
use serde::Serialize;

use crate::args::{PriceFormat, PricesArgs};
use crate::aws;
use crate::failure::Failure;

const HEADINGS: [&str; 11] = [
    "type",
    "zone",
    "gpus",
    "gpu-gib",
    "spot",
    "per-gpu",
    "per-gpu-gib",
    "on-demand",
    "saving",
    "score",
    "note",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(rename = "type")]
    name: String,
    zone: String,
    gpus: f64,
    gpu_gib: f64,
    spot: f64,
    per_gpu: f64,
    per_gpu_gib: f64,
    on_demand: Option<f64>,
    saving_percent: Option<f64>,
    score: Option<u8>,
    note: String,
}

/// The text to print.
pub(super) fn text(args: &PricesArgs) -> Result<String, Failure> {
    if !args.gpu {
        return Err(Failure::Usage(
            "of AWS only GPU instances are known: add --gpu".to_owned(),
        ));
    }
    if args.region.is_empty() {
        return Err(Failure::Usage(
            "whose prices? Add --region, such as --region eu-central-1".to_owned(),
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::System)?;
    let rows = runtime.block_on(rows(args))?;
    match args.output {
        PriceFormat::Table => Ok(table(&rows)),
        PriceFormat::Json => {
            let text = serde_json::to_string_pretty(&rows);
            text.map(|text| text + "\n").map_err(super::unreadable)
        }
        PriceFormat::Csv => {
            let lines = rows.iter().map(|row| row.cells("").join(","));
            let all: Vec<String> = std::iter::once(HEADINGS.join(",")).chain(lines).collect();
            Ok(all.join("\n") + "\n")
        }
    }
}

async fn rows(args: &PricesArgs) -> Result<Vec<Row>, Failure> {
    let aws = aws::open(&args.aws, args.mock_mode)?;
    let wanted = Wanted {
        families: args
            .family
            .iter()
            .map(|one| Name::from(one.as_str()))
            .collect(),
        min_gpus: 1,
        max_types: usize::MAX,
        max_zones: usize::MAX,
        min_score: 0,
        capacity: Capacity::Spot,
        fallback: false,
    };
    let mut all = Vec::new();
    for region in &args.region {
        let reading = aws.read(region, &wanted, 2, None).await;
        let reading = reading.map_err(|error| Failure::Prices(error.to_string()))?;
        let ranking = rank(&reading.market, &wanted, Capacity::Spot);
        for one in &ranking.quotes {
            let Some(gpu) = reading.market.types.get(&one.type_name) else {
                continue;
            };
            all.push((one.per_gpu, row(one, gpu)));
        }
    }
    // Several regions are compared: the cheapest GPU of all stands first.
    all.sort_by_key(|(per_gpu, _)| *per_gpu);
    Ok(all.into_iter().map(|(_, row)| row).collect())
}

#[expect(clippy::cast_precision_loss, reason = "a few GPUs, a few gibibytes")]
fn row(one: &joiner_core::leftover::Ranked, gpu: &joiner_core::leftover::GpuType) -> Row {
    let gpus = gpu.gpu_millis as f64 / 1000.0;
    let gib = gpu.gpu_memory_mib as f64 / 1024.0;
    let spot = one.price.dollars();
    let list = gpu.list_price.map(Money::dollars);
    Row {
        name: one.type_name.to_string(),
        zone: one.zone.to_string(),
        gpus,
        gpu_gib: gib,
        spot,
        per_gpu: one.per_gpu.money().dollars(),
        per_gpu_gib: spot / (gib * f64::from(gpu.devices)).max(0.001),
        on_demand: list,
        saving_percent: list.map(|list| (1.0 - spot / list) * 100.0),
        score: one.score,
        note: if one.is_viable() {
            String::new()
        } else {
            one.verdict.to_string()
        },
    }
}

impl Row {
    fn cells(&self, unknown: &str) -> Vec<String> {
        let or = |text: Option<String>| text.unwrap_or_else(|| unknown.to_owned());
        vec![
            self.name.clone(),
            self.zone.clone(),
            self.gpus.to_string(),
            format!("{:.1}", self.gpu_gib),
            format!("{:.4}", self.spot),
            format!("{:.4}", self.per_gpu),
            format!("{:.5}", self.per_gpu_gib),
            or(self.on_demand.map(|one| format!("{one:.4}"))),
            or(self.saving_percent.map(|one| format!("{one:.0}%"))),
            or(self.score.map(|one| one.to_string())),
            self.note.clone(),
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
    for column in table.column_iter_mut().skip(2).take(8) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{}\n\nDollars per hour; scores from 1 to 10 are AWS's odds for two instances.\n",
        table.trim_fmt()
    )
}
