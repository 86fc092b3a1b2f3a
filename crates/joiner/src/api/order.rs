//! The order of nodes, for the page, `/api/v1/nodes` and `joiner top`.

use std::cmp::Ordering;

use clap::ValueEnum;

use super::model::NodeView;

/// Order of nodes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, strum::Display, strum::EnumString,
)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Order {
    /// By name.
    #[default]
    Name,
    /// By pool.
    Pool,
    /// By instance type.
    Type,
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
}

impl Order {
    /// All of them, as columns follow each other.
    pub(crate) fn all() -> &'static [Order] {
        Self::value_variants()
    }

    fn compare(self, a: &NodeView, b: &NodeView) -> Ordering {
        match self {
            Order::Name => a.name.cmp(&b.name),
            Order::Pool => a.pool.cmp(&b.pool),
            Order::Type => a.instance_type.cmp(&b.instance_type),
            Order::Zone => a.zone.cmp(&b.zone),
            Order::Cpu => b.usage.cpu.percent().cmp(&a.usage.cpu.percent()),
            Order::Memory => b.usage.memory.percent().cmp(&a.usage.memory.percent()),
            Order::Gpu => {
                let key = |node: &NodeView| (node.usage.gpu.percent(), node.usage.gpu.allocatable);
                key(b).cmp(&key(a))
            }
            Order::Pods => b.usage.pods.requested.cmp(&a.usage.pods.requested),
            Order::Price => b.price.value.total_cmp(&a.price.value),
            Order::Waste => b.waste().total_cmp(&a.waste()),
            Order::Age => a.created.cmp(&b.created),
            Order::State => b.state.cmp(&a.state),
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
        !matches!(self, Order::Name | Order::Pool | Order::Type | Order::Zone)
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

    fn names(order: Order, reversed: bool, nodes: &[NodeView]) -> String {
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
        assert_eq!(names(Order::Price, false, &nodes), "b a c");
        assert_eq!(names(Order::Price, true, &nodes), "a c b");
        assert_eq!(names(Order::Name, true, &nodes), "c b a");
        assert_eq!(names(Order::State, false, &nodes), "a b c");
    }

    #[test]
    fn every_order_is_known_by_its_name() {
        for order in Order::all() {
            assert_eq!(order.to_string().parse(), Ok(*order));
        }
    }
}
