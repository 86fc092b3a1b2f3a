//! What the tests stand on: clusters with Joiner in them, stories that are played there, and words for what is seen.

mod objects;
mod story;
mod world;

use std::future::Future;
use std::sync::LazyLock;

use libtest_mimic::{Conclusion, Trial};
use tokio::runtime::Runtime;

pub(crate) use self::objects::{in_zone, is_true, label, merge, pod_template, text};
pub(crate) use self::story::{STORY, Sight, Story};
pub(crate) use self::world::{World, collection, create, install, paths};

/// One runtime for all tests, because what they share lives in it.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// A test under its name. One with something `open` runs only when it is asked for (`--ignored`).
pub(crate) fn trial<F>(name: &str, test: fn() -> F, open: Option<&str>) -> Trial
where
    F: Future<Output = ()> + Send + 'static,
{
    let trial = Trial::test(name, move || {
        RUNTIME.block_on(test());
        Ok(())
    });
    match open {
        Some(open) => trial.with_kind(open).with_ignored_flag(true),
        None => trial,
    }
}

/// The tests of a module, each named after its function; behind a colon stands what is open about one.
macro_rules! tests {
    ($($test:ident $(: $open:literal)?),* $(,)?) => {
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$({
                let open = None $(.or(Some($open)))?;
                $crate::harness::trial(&format!("{module}::{}", stringify!($test)), $test, open)
            }),*]
        }
    };
}
pub(crate) use tests;

/// Stops what the tests shared.
pub(crate) fn end(conclusion: &Conclusion) {
    RUNTIME.block_on(world::end(conclusion.has_failed()));
}
