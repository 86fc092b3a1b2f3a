//! How much memory is held: what was asked of the allocator, and what it takes for itself. Rather more than less.

use joiner_core::name::Name;

use super::verdict::{PoolVerdict, Verdict};
use super::{Happened, Subject};

/// What the allocator takes for a block, at most: its header, and what it rounds up.
const BLOCK: usize = 16;
/// The counters of a shared block.
const COUNTERS: usize = 16;

/// A block of so many bytes; nothing is asked for where there are none.
pub(super) fn block(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + BLOCK }
}

/// A name, as if no other had the same.
fn name(name: &Name) -> usize {
    block(COUNTERS + name.len())
}

fn text(text: &String) -> usize {
    block(text.capacity())
}

fn list<T>(list: &Vec<T>, each: impl Fn(&T) -> usize) -> usize {
    block(list.capacity() * size_of::<T>()) + list.iter().map(each).sum::<usize>()
}

fn pool(one: &PoolVerdict) -> usize {
    let texts = text(&one.code) + text(&one.sentence) + text(&one.remedy);
    name(&one.pool) + texts + list(&one.sold_out, name)
}

/// A shared verdict with all that hangs on it.
pub(super) fn verdict(one: &Verdict) -> usize {
    let evidence = &one.evidence;
    let names = [
        Some(&one.code),
        evidence.place.as_ref(),
        evidence.pool.as_ref(),
        evidence.rejected.as_ref().map(|one| &one.instance_type),
    ];
    let names: usize = names.into_iter().flatten().map(name).sum();
    block(COUNTERS + size_of::<Verdict>())
        + names
        + text(&one.sentence)
        + list(&evidence.pools, pool)
        + list(&one.remedies, text)
}

/// A row of an ordered map, whose leaves are half full at worst.
pub(super) fn row<K, V>() -> usize {
    2 * (size_of::<K>() + size_of::<V>())
}

/// The name of a subject.
pub(super) fn subject(one: &Subject) -> usize {
    name(&one.name)
}

/// Something that happened.
pub(super) fn happened(one: &Happened) -> usize {
    // A queue that has grown is half empty at worst.
    2 * size_of::<Happened>() + subject(&one.subject) + name(&one.code) + text(&one.sentence)
}
