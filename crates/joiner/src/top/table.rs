//! The nodes as a table, for pipes and for whoever wants them once.

use comfy_table::{CellAlignment, Table, presets};

use super::bar::bar;
use crate::api::model::{NodeView, Nodes, Overview, Usage};

/// The whole of it.
pub(super) fn page(overview: &Overview, nodes: &Nodes) -> String {
    format!("{}\n{}\n", header(overview), table(nodes))
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

/// The cells of a node.
fn cells(node: &NodeView) -> [String; 10] {
    [
        node.name.clone(),
        node.owner().to_owned(),
        node.instance_type.clone(),
        node.capacity_type.clone(),
        node.zone.clone(),
        bar(&node.usage.cpu, 8),
        bar(&node.usage.memory, 8),
        node.usage.pods.as_number().replace(" of ", "/"),
        node.price.dollars(),
        node.state.to_string(),
    ]
}

const TITLES: [&str; 10] = [
    "NODE", "POOL", "TYPE", "PAID", "ZONE", "CPU", "MEMORY", "PODS", "$/H", "STATE",
];

fn table(nodes: &Nodes) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let titles = TITLES.iter().copied().chain(["WHY IT STAYS"]);
    table.set_header(titles);
    for node in &nodes.nodes {
        table.add_row(cells(node).into_iter().chain([node.stays_words()]));
    }
    for index in [7, 8] {
        if let Some(column) = table.column_mut(index) {
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

    #[test]
    fn a_pipe_gets_a_table_with_why_each_node_stays() {
        let nodes = Nodes {
            schema_version: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            total: 1,
            matching: 1,
            nodes: vec![node("one", 1000)],
        };
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
