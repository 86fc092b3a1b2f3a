//! Server-sent events: a word whenever something has changed, so that the page asks again.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures::{Stream, stream};
use joiner_controllers::context::Context;

use super::Page;

/// How often to look whether anything has changed.
const LOOK: Duration = Duration::from_millis(500);
/// After so many looks without a change the page asks all the same: prices and ages go on.
const PATIENCE: u32 = 20;

pub(super) fn routes() -> Router<Page> {
    Router::new().route("/stream", get(changes))
}

async fn changes(State(page): State<Page>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let stream = stream::unfold(
        (page, None),
        |(page, last): (Page, Option<u64>)| async move {
            let mut looks = 0;
            loop {
                tokio::time::sleep(LOOK).await;
                looks += 1;
                let now = page
                    .board
                    .context()
                    .map_or(0, |context| fingerprint(&context));
                if last != Some(now) || looks >= PATIENCE {
                    let event = Event::default().event("change").data(now.to_string());
                    return Some((Ok(event), (page, Some(now))));
                }
            }
        },
    );
    Sse::new(stream).keep_alive(KeepAlive::default())
}

/// Differs when anything differs that is shown, ages and prices aside.
fn fingerprint(context: &Context) -> u64 {
    let decided = *context.decisions.changes().borrow();
    let world = context.view.read();
    let mut sum = decided;
    let mut mix = |value: u64| {
        sum = sum.wrapping_mul(0x0100_0000_01b3).wrapping_add(value);
    };
    for node in world.nodes.iter() {
        mix(node.version);
    }
    for machine in world.machines.iter() {
        mix(machine.version);
    }
    for pool in world.pools.iter() {
        mix(pool.version);
    }
    for pod in world.pods.iter() {
        mix(u64::from(pod.node.is_some()) + 2 * u64::from(pod.terminal));
    }
    sum
}
