//! The process dies after every request in turn, before it hears the answer, and another goes on.

use super::toy::{Hears, Toy, pod};

/// A whole life: bought after a refusal, used, drained, taken away. Dies after request number `dies_after`.
fn life(dies_after: Option<usize>) -> Toy {
    let mut toy = Toy::new();
    toy.sold_out = vec!["small".into()];
    let mut asked_to_go = false;
    for _ in 0..100_000 {
        if toy.machine.is_none() {
            return toy;
        }
        if !asked_to_go && toy.machine().initialized() {
            toy.pods = vec![pod("web"), pod("job")];
            toy.delete();
            asked_to_go = true;
        }
        let dies = dies_after == Some(toy.requests);
        toy.advance(if dies { Hears::No } else { Hears::Yes });
    }
    panic!("stuck after dying at {dies_after:?}: {:#?}", toy.log);
}

#[test]
fn whoever_takes_over_reaches_the_same_end_and_buys_nothing_twice() {
    let calm = life(None);
    assert_eq!((calm.bought, calm.cloud.len()), (1, 0));
    assert!(calm.requests > 10, "{}", calm.requests);
    for dies_after in 0..calm.requests {
        let toy = life(Some(dies_after));
        assert_eq!(
            toy.bought, 1,
            "died after request {dies_after}: {:#?}",
            toy.log
        );
        assert!(
            toy.cloud.is_empty(),
            "died after request {dies_after}: a machine is left"
        );
        assert!(
            toy.node.is_none(),
            "died after request {dies_after}: a node is left"
        );
        assert!(toy.pods.is_empty());
    }
}

#[test]
fn dying_over_and_over_still_ends_well() {
    for every in 3..9 {
        let mut toy = Toy::new();
        toy.run_until(|toy| toy.node.is_some());
        let mut asked_to_go = false;
        for turn in 0..200_000_usize {
            if toy.machine.is_none() {
                break;
            }
            if !asked_to_go && toy.machine().initialized() {
                toy.pods = vec![pod("web")];
                toy.delete();
                asked_to_go = true;
            }
            toy.advance(if turn % every == 0 {
                Hears::No
            } else {
                Hears::Yes
            });
        }
        assert!(
            toy.machine.is_none(),
            "dies every {every} turns: {:#?}",
            toy.log
        );
        assert_eq!((toy.bought, toy.cloud.len()), (1, 0));
    }
}

#[test]
fn a_quiet_machine_is_left_alone() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    let before = toy.requests;
    toy.run_for(std::time::Duration::from_hours(24));
    assert_eq!(toy.requests, before, "{:?}", toy.log);
}

#[test]
fn a_process_that_dies_at_every_second_turn_still_ends_a_drain() {
    for (name, every) in [("second", 2), ("third", 3)] {
        let mut toy = Toy::new();
        toy.run_until(|toy| toy.machine().initialized());
        toy.pods = vec![pod("web")];
        toy.delete();
        let mut deaths = 0;
        for turn in 0..10_000_usize {
            if toy.machine.is_none() {
                break;
            }
            // It dies while it waits, too: whatever it counted in its head begins anew.
            let dies = turn % every == 0;
            deaths += usize::from(dies);
            toy.advance(if dies { Hears::No } else { Hears::Yes });
            if dies {
                toy.memory = crate::lifecycle::Memory::default();
            }
        }
        assert!(
            toy.machine.is_none() && toy.cloud.is_empty(),
            "dies at every {name} turn, {deaths} times: {:#?}",
            toy.log
        );
        assert!(
            toy.elapsed() < std::time::Duration::from_mins(2),
            "{:?}",
            toy.elapsed()
        );
    }
}
