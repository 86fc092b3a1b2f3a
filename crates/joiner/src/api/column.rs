//! What is said of each node, column by column, and the order that each column sorts by: for the page, `/api/v1/nodes`
//! and `joiner top`.

use std::cmp::Ordering;

use clap::ValueEnum;

use super::model::NodeView;

/// Columns, from left to right.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    ValueEnum,
    strum::Display,
    strum::EnumString,
)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Column {
    /// By name.
    #[default]
    Name,
    /// By pool.
    Pool,
    /// By provider, that is by node class.
    Provider,
    /// By instance type.
    Type,
    /// By how it is paid for: spot, on-demand, reserved.
    Paid,
    /// By zone.
    Zone,
    /// The fullest first, by CPU.
    Cpu,
    /// The fullest first, by memory.
    Memory,
    /// The fullest first, by GPU.
    Gpu,
    /// The most pods first.
    Pods,
    /// The dearest first.
    Price,
    /// The most wasted first.
    Waste,
    /// The oldest first.
    Age,
    /// Those that are not simply ready first.
    State,
    /// By the code of why it stays or goes.
    Why,
}

impl Column {
    /// All of them, from left to right.
    pub(crate) fn all() -> &'static [Column] {
        Self::value_variants()
    }

    /// What it is called above the nodes.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Column::Name => "NODE",
            Column::Pool => "POOL",
            Column::Provider => "PROVIDER",
            Column::Type => "TYPE",
            Column::Paid => "PAID",
            Column::Zone => "ZONE",
            Column::Cpu => "CPU",
            Column::Memory => "MEMORY",
            Column::Gpu => "GPU",
            Column::Pods => "PODS",
            Column::Price => "$/H",
            Column::Waste => "WASTE",
            Column::Age => "AGE",
            Column::State => "STATE",
            Column::Why => "WHY IT STAYS",
        }
    }

    /// Whether figures stand under each other at the right.
    pub(crate) fn right(self) -> bool {
        matches!(self, Column::Price | Column::Waste | Column::Age)
    }

    fn compare(self, a: &NodeView, b: &NodeView) -> Ordering {
        match self {
            Column::Name => a.name.cmp(&b.name),
            Column::Pool => a.pool.cmp(&b.pool),
            Column::Provider => a.class.cmp(&b.class),
            Column::Type => a.instance_type.cmp(&b.instance_type),
            Column::Paid => a.capacity_type.cmp(&b.capacity_type),
            Column::Zone => a.zone.cmp(&b.zone),
            Column::Cpu => b.usage.cpu.percent().cmp(&a.usage.cpu.percent()),
            Column::Memory => b.usage.memory.percent().cmp(&a.usage.memory.percent()),
            Column::Gpu => {
                let key = |node: &NodeView| (node.usage.gpu.percent(), node.usage.gpu.allocatable);
                key(b).cmp(&key(a))
            }
            Column::Pods => b.usage.pods.requested.cmp(&a.usage.pods.requested),
            Column::Price => b.price.value.total_cmp(&a.price.value),
            Column::Waste => b.waste().total_cmp(&a.waste()),
            Column::Age => a.created.cmp(&b.created),
            Column::State => b.state.cmp(&a.state),
            Column::Why => {
                let code =
                    |node: &NodeView| node.stays.as_ref().map(|one| one.verdict.code.clone());
                code(a).cmp(&code(b))
            }
        }
    }

    /// The same, or its reverse; those that are equal stay by name.
    pub(crate) fn between(self, a: &NodeView, b: &NodeView, reversed: bool) -> Ordering {
        let order = self.compare(a, b);
        let order = if reversed { order.reverse() } else { order };
        order.then_with(|| a.name.cmp(&b.name))
    }

    /// Whether what is largest comes first.
    pub(crate) fn descends(self) -> bool {
        use Column::{Age, Cpu, Gpu, Memory, Pods, Price, State, Waste};
        matches!(
            self,
            Cpu | Memory | Gpu | Pods | Price | Waste | Age | State
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::model::{Figure, State};

    fn node(name: &str, price: f64, state: State) -> NodeView {
        NodeView {
            name: name.to_owned(),
            price: Figure::exact(price),
            state,
            ..NodeView::default()
        }
    }

    fn names(order: Column, reversed: bool, nodes: &[NodeView]) -> String {
        let mut all: Vec<&NodeView> = nodes.iter().collect();
        all.sort_by(|a, b| order.between(a, b, reversed));
        let names: Vec<&str> = all.iter().map(|one| &*one.name).collect();
        names.join(" ")
    }

    #[test]
    fn the_dearest_come_first_and_equals_stay_by_name_in_either_direction() {
        let nodes = [
            node("c", 1.0, State::Ready),
            node("b", 2.0, State::Ready),
            node("a", 1.0, State::NotReady),
        ];
        assert_eq!(names(Column::Price, false, &nodes), "b a c");
        assert_eq!(names(Column::Price, true, &nodes), "a c b");
        assert_eq!(names(Column::Name, true, &nodes), "c b a");
        assert_eq!(names(Column::State, false, &nodes), "a b c");
        let mut nodes = nodes;
        nodes[2].capacity_type = "spot".to_owned();
        assert_eq!(names(Column::Paid, false, &nodes), "b c a");
        assert_eq!(names(Column::Paid, true, &nodes), "a b c");
    }

    #[test]
    fn every_order_is_known_by_its_name() {
        for order in Column::all() {
            assert_eq!(order.to_string().parse(), Ok(*order));
        }
    }
}
