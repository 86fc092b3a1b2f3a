//! Panics of one world, which its tasks catch and which must not be lost.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// What was said by panics on this thread; `None` while nobody asks.
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static LISTENING: Once = Once::new();

/// Notes panics of this thread from now on, instead of printing them. A world lives on one thread.
pub(crate) fn listen() {
    LISTENING.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let noted = HEARD.try_with(|heard| {
                let mut heard = heard.borrow_mut();
                let Some(heard) = heard.as_mut() else {
                    return false;
                };
                heard.push(panic.to_string());
                true
            });
            if noted != Ok(true) {
                before(panic);
            }
        }));
    });
    HEARD.with(|heard| *heard.borrow_mut() = Some(Vec::new()));
}

/// What was heard since; nothing more is noted.
pub(crate) fn heard() -> Vec<String> {
    HEARD
        .with(|heard| heard.borrow_mut().take())
        .unwrap_or_default()
}
