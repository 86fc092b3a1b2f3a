//! What nodes cost, as `OpenCost` reads it from a file.
//!
//! Its reader lowers the case of what identifies a node, so nodes are identified by name, which has no capitals. A row that
//! names a region and an instance type is also a price for every other node of that type, and such a price goes before that
//! of the node itself: no region is given, and the type stands with how it is paid for, which is no node's label.

use std::fmt::Write as _;

use super::fleet::Fleet;
use super::model::{Bound, NodeView, State};
use crate::prices::quoted;

const HEADINGS: &str = "EndTimestamp,InstanceID,Region,AssetClass,InstanceIDField,InstanceType,MarketPriceHourly,Version";

/// One line for each node of ours whose price is known.
pub(crate) fn csv(fleet: &Fleet) -> String {
    let at = fleet.at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    let mut text = format!("{HEADINGS}\n");
    for node in fleet.nodes.iter().filter(|node| is_priced(node)) {
        let kind = quoted(&format!("{} ({})", node.instance_type, node.capacity_type));
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "{at},{},,node,metadata.name,{kind},{},",
            quoted(&node.name),
            node.price.value
        );
    }
    text
}

/// Whether it is a node of ours by now, and what it costs is known.
fn is_priced(node: &NodeView) -> bool {
    let joined = node.state != State::Coming;
    node.machine.is_some() && joined && node.price.bound == Bound::Exact
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use joiner_controllers::context::Costs;
    use joiner_controllers::view::problem::Terms;

    use super::super::model::Figure;
    use super::*;

    fn node(name: &str, instance_type: &str, capacity_type: &str, price: f64) -> NodeView {
        NodeView {
            name: name.to_owned(),
            machine: Some(name.to_owned()),
            instance_type: instance_type.to_owned(),
            capacity_type: capacity_type.to_owned(),
            price: Figure::exact(price),
            ..NodeView::default()
        }
    }

    fn fleet(nodes: Vec<NodeView>) -> Fleet {
        Fleet {
            at: Timestamp::from_second(1_700_000_000).unwrap(),
            nodes,
            pods_bound: 0,
            costs: Costs {
                terms: Terms::default(),
                prices: BTreeMap::new(),
            },
        }
    }

    /// As `OpenCost` reads prices of nodes: by what identifies a node, and by region, type and asset class.
    fn read(text: &str) -> (BTreeMap<String, String>, BTreeMap<String, f64>) {
        let (mut nodes, mut classes) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines() {
            let fields: Vec<&str> = line.split(',').collect();
            let [_, id, region, class, field, kind, price, _] = fields[..] else {
                panic!("eight fields: {line}")
            };
            if class != "node" {
                continue;
            }
            assert_eq!((region, field), ("", "metadata.name"), "{line}");
            nodes.insert(id.to_lowercase(), price.to_owned());
            let price: f64 = price.parse().unwrap();
            classes
                .entry(format!("{region},{kind},{class}"))
                .or_insert(price);
        }
        (nodes, classes)
    }

    #[test]
    fn opencost_finds_the_price_of_every_node_of_ours_and_no_price_for_others() {
        let mut coming = node("coming", "m5.large", "spot", 0.03);
        coming.state = State::Coming;
        let mut foreign = node("foreign", "m5.large", "on-demand", 0.096);
        foreign.machine = None;
        let mut unknown = node("unknown", "m5.large", "on-demand", 0.0);
        unknown.price.bound = Bound::Unknown;
        let text = csv(&fleet(vec![
            node("web-1", "m5.large", "spot", 0.031_25),
            node("web-2", "m5.large", "on-demand", 0.096),
            coming,
            foreign,
            unknown,
        ]));
        assert!(
            text.starts_with(HEADINGS)
                && text.contains("\n2023-11-14 22:13:20 UTC,web-1,,node,metadata.name,"),
            "{text}"
        );
        let (nodes, classes) = read(&text);
        let prices: Vec<(&str, &str)> = nodes.iter().map(|(id, price)| (&**id, &**price)).collect();
        assert_eq!(prices, [("web-1", "0.03125"), ("web-2", "0.096")]);
        // A price of a class would go before that of the node.
        for region in ["", "eu-1"] {
            assert!(!classes.contains_key(&format!("{region},m5.large,node")));
        }
    }
}
