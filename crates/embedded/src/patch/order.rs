//! The order of merged lists: the patch's items keep the patch's order, the server's own items keep theirs, and the
//! two are interleaved by where they stood before.
//!
//! Mirrors `normalizeElementOrder` of `apimachinery/pkg/util/strategicpatch`.

use serde_json::Value;

/// What tells two items of a list apart: a key field of objects, or the scalar itself.
#[derive(Clone, Copy)]
pub(super) struct Identity<'a>(pub(super) Option<&'a str>);

impl<'a> Identity<'a> {
    pub(super) fn of<'v>(self, item: &'v Value) -> Option<&'v Value>
    where
        'a: 'v,
    {
        match self.0 {
            Some(key) => item.get(key),
            None => Some(item),
        }
    }

    fn place(self, list: &[Value], item: &Value) -> Option<usize> {
        let wanted = self.of(item);
        list.iter().position(|other| self.of(other) == wanted)
    }

    pub(super) fn contains(self, list: &[Value], item: &Value) -> bool {
        self.place(list, item).is_some()
    }
}

/// Orders a merged list after the order in the patch and the order the server had.
pub(super) fn normalize(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    identity: Identity<'_>,
) -> Vec<Value> {
    let (mut patched, mut kept): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| identity.contains(patch_order, item));
    let last = usize::MAX;
    patched.sort_by_key(|item| identity.place(patch_order, item).unwrap_or(last));
    kept.sort_by_key(|item| identity.place(server_order, item).unwrap_or(last));

    let mut out = Vec::with_capacity(patched.len() + kept.len());
    let mut kept = kept.into_iter().peekable();
    for item in patched {
        while let Some(server) = kept.peek() {
            let before = match (
                identity.place(server_order, server),
                identity.place(server_order, &item),
            ) {
                (Some(server), Some(item)) => server < item,
                _ => false,
            };
            if !before {
                break;
            }
            out.extend(kept.next());
        }
        out.push(item);
    }
    out.extend(kept);
    out
}
