//! Debug.
use crate::clusters::*;
use joiner_core::pack;
use joiner_core::plan::check;

#[test]
fn dbg() {
    let Some(seed) = std::env::var_os("DSEED") else {
        return;
    };
    let seed: u64 = seed.to_str().unwrap().parse().unwrap();
    let nodes = std::env::var_os("DNODES").is_some();
    let steps = if std::env::var_os("DSTEPS").is_some() {
        10
    } else {
        0
    };
    let problem = cluster(seed, nodes);
    let plan = pack::solve(&problem, &options(steps, 1));
    for pool in &problem.pools {
        println!(
            "POOL {} w{} req {:?} taints {:?} limits {:?}",
            pool.name,
            pool.weight,
            pool.requirements
                .iter()
                .map(|e| format!("{} {:?}", e.key, e.values))
                .collect::<Vec<_>>(),
            pool.taints.iter().map(|t| t.effect).collect::<Vec<_>>(),
            pool.limits
        );
    }
    for n in &problem.nodes {
        println!("NODE {} {:?}", n.name, n.labels);
    }
    for p in &problem.pods {
        let s = &p.spec;
        println!(
            "POD {} x{} {:?} {:?} sel {:?} req {:?} pref {} tol {} prio {}",
            p.name,
            p.count,
            s.labels,
            s.requests,
            s.node_selector,
            s.required_affinity
                .iter()
                .map(|t| t[0].values.clone())
                .collect::<Vec<_>>(),
            s.preferred_affinity.len(),
            s.tolerations.len(),
            s.priority
        );
        for x in &s.spread {
            println!(
                "   SPREAD {} skew {} {:?} min {:?} {:?} taints {:?}",
                x.topology_key,
                x.max_skew,
                x.selector.as_ref().unwrap().match_labels,
                x.min_domains,
                x.when_unsatisfiable,
                x.node_taints_policy
            );
        }
        for x in &s.affinity {
            println!(
                "   NEAR {} {:?}",
                x.topology_key,
                x.selector.as_ref().unwrap().match_labels
            );
        }
        for x in &s.anti_affinity {
            println!(
                "   APART {} {:?}",
                x.topology_key,
                x.selector.as_ref().unwrap().match_labels
            );
        }
    }
    let site = |pod: &joiner_core::plan::PodRef| {
        for (i, l) in plan.launches.iter().enumerate() {
            if l.pods.contains(pod) {
                return format!(
                    "launch {i} {} {} {} {} {:?}",
                    l.pool,
                    l.purchase.instance_type,
                    l.purchase.zone,
                    l.purchase.capacity_type,
                    l.labels.get("team")
                );
            }
        }
        for p in &plan.placements {
            if p.pods.contains(pod) {
                return p.node.to_string();
            }
        }
        "?".into()
    };
    for pod in &plan.order {
        println!("BIND {} {}", problem.pod_name(*pod).unwrap(), site(pod));
    }
    for u in &plan.unplaced {
        println!(
            "UNPLACED {:?} {}",
            u.pods
                .iter()
                .map(|p| problem.pod_name(*p).unwrap())
                .collect::<Vec<_>>(),
            u.reason
        );
    }
    println!("{:?}", check(&problem, &plan));
    for t in &problem.catalogs[0].types {
        println!(
            "TYPE {} {:?} {:?}",
            t.name,
            t.labels,
            t.offerings
                .iter()
                .map(|o| format!(
                    "{} {} {} {} {:?}",
                    o.zone, o.capacity_type, o.price, o.available, o.left
                ))
                .collect::<Vec<_>>()
        );
    }
}
