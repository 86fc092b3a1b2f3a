//! Prices that no user means to pay.

use joiner_core::money::Money;
use joiner_core::problem::Problem;
use serde_json::json;

use crate::world::{catalog, judged, kind, pod, problem};

#[test]
fn a_machine_beyond_all_prices_is_the_last_resort() {
    let mut dear = kind("dear", &json!({}), &["a"]);
    dear["offerings"][0]["price"] = json!(1e6);
    let mut pods = pod("one", &json!({}));
    pods["count"] = json!(9);
    let types = [dear.clone(), kind("t", &json!({}), &["a"])];
    let both = problem(&json!({"catalogs": catalog(&types), "pods": [pods]}));
    let alone = problem(&json!({"catalogs": catalog(&[dear]), "pods": [pods]}));
    for price in [both.catalogs[0].types[0].offerings[0].price, Money::MAX] {
        for (mut problem, bought) in [(both.clone(), "t"), (alone.clone(), "dear")] {
            problem.catalogs[0].types[0].offerings[0].price = price;
            let plan = judged(&problem);
            assert_eq!(plan.launches.len(), 3);
            let kinds = plan.launches.iter().map(|one| &*one.purchase.instance_type);
            assert!(kinds.into_iter().all(|kind| kind == bought));
            assert!(Money::ZERO < plan.lower_bound && plan.lower_bound <= plan.cost);
        }
    }
}

#[test]
fn a_price_that_is_none_is_refused() {
    let mut dear = kind("dear", &json!({}), &["a"]);
    for price in [1e10, -1.0] {
        dear["offerings"][0]["price"] = json!(price);
        let text = json!({"catalogs": catalog(&[dear.clone()]), "pools": [], "pods": []});
        let said = Problem::from_json(&text.to_string())
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("is not a price") && said.contains("price"),
            "{said}"
        );
    }
}
