//! The nodes as a table, for pipes and for whoever wants them once.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::bar::bar;
use crate::api::column::Column;
use crate::api::model::{NodeView, Nodes, Overview, Usage, dollars};

/// The whole of it.
pub(super) fn page(overview: &Overview, nodes: &Nodes) -> String {
    let mut text = format!("{}\n{}\n", header(overview), table(nodes));
    let left = nodes.matching.saturating_sub(nodes.nodes.len());
    if left > 0 {
        let _ = writeln!(
            text,
            "and {left} more nodes: the page tells of no more at once"
        );
    }
    text
}

/// Totals in a line.
fn header(view: &Overview) -> String {
    let part =
        |name: &str, usage: &Usage, words: String| format!("{name} {words} ({}%)", usage.percent());
    let usage = &view.usage;
    let mut text = format!(
        "{} nodes   {}   {}",
        view.nodes.all(),
        part("CPU", &usage.cpu, usage.cpu.as_cores()),
        part("MEM", &usage.memory, usage.memory.as_gib()),
    );
    if usage.gpu.allocatable > 0 {
        text = format!("{text}   GPU {}", usage.gpu.as_number());
    }
    text + &format!(
        "   {}/h  {}/month   spot {}   not requested {}/h   least possible {}/h",
        view.cost.dollars(),
        view.cost.monthly(),
        view.spot_percent.percent(),
        view.waste.dollars(),
        view.bound.dollars()
    )
}

/// What a pipe is told of each node.
const SHOWN: [Column; 12] = [
    Column::Name,
    Column::Pool,
    Column::Type,
    Column::Paid,
    Column::Zone,
    Column::Cpu,
    Column::Memory,
    Column::Gpu,
    Column::Pods,
    Column::Price,
    Column::State,
    Column::Why,
];

/// What a column says of a node.
fn cell(column: Column, node: &NodeView) -> String {
    match column {
        Column::Name => node.name.clone(),
        Column::Pool => node.owner().to_owned(),
        Column::Provider => node.class.clone().unwrap_or_default(),
        Column::Type => node.instance_type.clone(),
        Column::Paid => node.capacity_type.clone(),
        Column::Zone => node.zone.clone(),
        Column::Cpu => bar(&node.usage.cpu, 8),
        Column::Memory => bar(&node.usage.memory, 8),
        Column::Gpu => bar(&node.usage.gpu, 4),
        Column::Pods => node.usage.pods.as_number().replace(" of ", "/"),
        Column::Price => node.price.dollars(),
        Column::Waste => dollars(node.waste()),
        Column::Age => node.created.to_string(),
        Column::State => node.state.to_string(),
        Column::Why => node.stays_words(),
    }
}

fn table(nodes: &Nodes) -> Table {
    let gpus = |node: &NodeView| node.usage.gpu.allocatable + node.usage.gpu.coming > 0;
    let some = nodes.nodes.iter().any(gpus);
    let shown = SHOWN.into_iter().filter(|one| some || *one != Column::Gpu);
    let shown: Vec<Column> = shown.collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(shown.iter().map(|one| one.title()));
    for node in &nodes.nodes {
        table.add_row(shown.iter().map(|one| cell(*one, node)));
    }
    for (index, one) in shown.iter().enumerate() {
        if let (true, Some(column)) = (one.right() || *one == Column::Pods, table.column_mut(index))
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::model::{Figure, State, Usages};

    fn node(name: &str, requested: i64) -> NodeView {
        let usage = Usage {
            requested,
            allocatable: 4000,
            coming: 0,
        };
        NodeView {
            name: name.to_owned(),
            machine: Some(name.to_owned()),
            pool: Some("default".to_owned()),
            instance_type: "m-4".to_owned(),
            capacity_type: "spot".to_owned(),
            price: Figure::exact(0.25),
            usage: Usages {
                cpu: usage,
                ..Usages::default()
            },
            state: State::Ready,
            ..NodeView::default()
        }
    }

    fn all(nodes: Vec<NodeView>) -> Nodes {
        Nodes {
            schema_version: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            total: nodes.len(),
            matching: nodes.len(),
            nodes,
        }
    }

    #[test]
    fn gpus_have_a_column_where_there_are_some() {
        let none = table(&all(vec![node("one", 1000)])).to_string();
        assert!(!none.contains("GPU"), "{none}");
        let mut one = node("one", 1000);
        one.usage.gpu = Usage {
            requested: 3,
            allocatable: 4,
            coming: 0,
        };
        let some = table(&all(vec![one, node("two", 0)])).to_string();
        let lines: Vec<&str> = some.lines().collect();
        assert!(lines[0].contains("GPU"), "{some}");
        assert!(lines[1].contains("███   75%"), "{some}");
    }

    #[test]
    fn a_pipe_gets_a_table_with_why_each_node_stays() {
        let nodes = all(vec![node("one", 1000)]);
        let text = table(&nodes).to_string();
        for part in [
            "NODE",
            "WHY IT STAYS",
            "one",
            "default",
            "m-4",
            "25%",
            "$0.250",
            "Ready",
            "Not looked at yet.",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
