//! `joiner render leftover`: what a `LeftoverNodePool` becomes, without a cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use jiff::Timestamp;
use joiner_api::leftover::LeftoverNodePool;
use joiner_api::validate::Validate as _;
use joiner_controllers::operators::leftover::{
    ClassVersion, Source, class_name, fallback_pool, node_class, node_pool, wanted,
};
use joiner_core::leftover::{
    Comparison, Decision, Fallback, InUse, Memory, Policy, Ranked, compare_regions, decide,
};
use joiner_core::name::Name;
use joiner_providers::aws::Reading;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::args::{ClassVersionArg, RenderArgs, RenderFrom, RenderLeftoverArgs};
use crate::failure::Failure;
use crate::{aws, input};

/// Runs the command.
pub(crate) fn run(args: &RenderArgs) -> Result<(), Failure> {
    let RenderFrom::Leftover(args) = &args.from;
    let text = input::text(&args.file)?;
    let pools: Vec<Value> = serde_saphyr::from_multiple(&text)
        .map_err(|error| Failure::Manifest(format!("{}: {error}", args.file.display())))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::System)?;
    let mut all = String::new();
    runtime.block_on(async {
        let aws = aws::open(&args.aws, args.mock_mode)?;
        for value in pools {
            if value["kind"] != "LeftoverNodePool" {
                return Err(Failure::Manifest(format!(
                    "{}: {} is no LeftoverNodePool",
                    args.file.display(),
                    value["kind"]
                )));
            }
            let pool: LeftoverNodePool = serde_json::from_value(value)
                .map_err(|error| Failure::Manifest(format!("{}: {error}", args.file.display())))?;
            if let Some(violation) = pool.validate().first() {
                return Err(Failure::Manifest(violation.to_string()));
            }
            let ask = wanted(&pool);
            let tags =
                (Source::of(&pool) == Source::Rendered).then_some(&pool.spec.subnet_selector_tags);
            let target = u32::try_from(pool.spec.target_count()).unwrap_or(1);
            let reading = aws.read(&pool.spec.region, &ask, target, tags).await;
            let reading = reading.map_err(|error| Failure::Prices(error.to_string()))?;
            let (policy, now) = (Policy::default(), Timestamp::now());
            let decision = decide(
                &reading.market,
                &ask,
                None,
                &InUse::default(),
                &policy,
                Memory::default(),
                now,
            );
            if args.explain {
                let regions = pool.spec.compared_regions();
                if !regions.is_empty() {
                    let home = pool.spec.region.as_str();
                    let markets = Box::pin(aws.compare(home, &regions, &ask, target)).await;
                    let compared = compare_regions(&markets, &ask, home, None, &policy, 0);
                    all.push_str(&explain_regions(&pool, &compared));
                }
            }
            all.push_str(&shown(&pool, &reading, &decision, args)?);
        }
        Ok(())
    })?;
    io::stdout()
        .write_all(all.as_bytes())
        .map_err(Failure::stdout)
}

fn shown(
    pool: &LeftoverNodePool,
    reading: &Reading,
    decision: &Decision,
    args: &RenderLeftoverArgs,
) -> Result<String, Failure> {
    let mut text = String::new();
    if args.explain {
        text.push_str(&explain(pool, decision));
    }
    let version = match args.class_version {
        ClassVersionArg::V1 => ClassVersion::V1,
        ClassVersionArg::V1beta1 => ClassVersion::V1beta1,
    };
    let defaults = aws::defaults(&args.aws, args.mock_mode);
    let mut objects = Vec::new();
    let class = match Source::of(pool) {
        Source::Named(name) => name,
        Source::Selected(_) => "the-class-with-these-labels".to_owned(),
        Source::Rendered => {
            objects.push(node_class(pool, &defaults, version).map_err(Failure::Manifest)?);
            class_name(pool)
        }
    };
    if !decision.offered.is_empty() {
        objects.push(node_pool(pool, &decision.offered, &reading.market, &class));
    }
    if let Fallback::Open(choice) = &decision.fallback {
        objects.push(fallback_pool(pool, choice, &reading.market, &class, true));
    }
    for object in objects {
        let yaml = serde_saphyr::to_string(&object)
            .map_err(|error| Failure::Manifest(error.to_string()))?;
        let _ = write!(text, "---\n{}\n", yaml.trim_end());
    }
    Ok(text)
}

/// How the regions compare, one line for each.
fn explain_regions(pool: &LeftoverNodePool, compared: &Comparison) -> String {
    let best = compared.recommended.as_deref();
    let mut lines = format!(
        "# LeftoverNodePool {}: region to prefer: {}\n",
        pool.name_any(),
        best.unwrap_or("none is viable")
    );
    for (place, one) in compared.quotes.iter().enumerate() {
        let quote = one.best.as_ref().map(|best| {
            format!(
                "{} in {} at ${:.4} per GPU, ",
                best.type_name,
                best.zone,
                best.per_gpu.money().dollars()
            )
        });
        let score = one
            .score
            .map_or_else(|| "-".to_owned(), |score| score.to_string());
        let _ = writeln!(
            lines,
            "# {:>3}. {}: {}score {score}: {}",
            place + 1,
            one.region,
            quote.unwrap_or_default(),
            one.verdict
        );
    }
    lines
}

/// Why this type and why not that one, one line for each.
fn explain(pool: &LeftoverNodePool, decision: &Decision) -> String {
    let mut lines = format!(
        "# LeftoverNodePool {}: {}\n",
        pool.name_any(),
        decision.change
    );
    let mut best: BTreeMap<&Name, (usize, &Ranked)> = BTreeMap::new();
    for (place, one) in decision.ranking.quotes.iter().enumerate() {
        best.entry(&one.type_name).or_insert((place, one));
    }
    let mut ranked: Vec<(usize, &Ranked)> = best.into_values().collect();
    ranked.sort_by_key(|(place, _)| *place);
    for (place, one) in ranked {
        let name = &one.type_name;
        let viable = decision
            .ranking
            .viable()
            .find(|other| other.type_name == *name);
        let why = match viable {
            _ if decision.chosen.types.contains(name) => "chosen".to_owned(),
            Some(_) => {
                "not chosen: better ones fill spec.maxInstanceTypes, or its zones are not chosen"
                    .to_owned()
            }
            None => format!("not chosen: {}", one.verdict),
        };
        let score = one
            .score
            .map_or_else(|| "-".to_owned(), |score| score.to_string());
        let _ = writeln!(
            lines,
            "# {:>3}. {name} in {}: ${:.4}, ${:.4} per GPU, score {score}: {why}",
            place + 1,
            one.zone,
            one.price.dollars(),
            one.per_gpu.money().dollars(),
        );
    }
    for (name, why) in &decision.ranking.refused {
        let _ = writeln!(lines, "#   -  {name}: not considered: {why}");
    }
    lines
}
