//! What the tests stand on: clusters with Joiner in them, stories that are played there, and words for what is seen.

mod objects;
mod story;
mod world;

use std::future::Future;
use std::sync::LazyLock;

use libtest_mimic::{Conclusion, Trial};
use tokio::runtime::Runtime;

pub(crate) use self::objects::{is_true, label, merge, pod_template, text};
pub(crate) use self::story::{Sight, Story};
pub(crate) use self::world::{World, collection, create, install, paths};

/// One runtime for all tests, because what they share lives in it.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// A test under its name.
pub(crate) fn trial<F>(name: &str, test: fn() -> F) -> Trial
where
    F: Future<Output = ()> + Send + 'static,
{
    Trial::test(name, move || {
        RUNTIME.block_on(test());
        Ok(())
    })
}

/// The tests of a module, each named after its function.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$($crate::harness::trial(&format!("{module}::{}", stringify!($test)), $test)),*]
        }
    };
}
pub(crate) use tests;

/// Stops what the tests shared.
pub(crate) fn end(conclusion: &Conclusion) {
    RUNTIME.block_on(world::end(conclusion.has_failed()));
}
