//! What is known of instance types without asking: list prices where the price list cannot be asked, and the stock of
//! simulated clouds. A file of ours, one line for each type.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use joiner_core::money::Money;

const FILE: &str = include_str!("../../assets/aws/instance-types.tsv");

/// An instance type.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Name.
    pub name: &'static str,
    /// `amd64` or `arm64`.
    pub arch: &'static str,
    /// Virtual processors.
    pub vcpu: u32,
    /// Memory.
    pub memory_mib: u64,
    /// How it is sold: `s` spot, `o` on-demand, `c` capacity block, `m` for bare metal.
    pub sold: &'static str,
    /// List price in us-east-1.
    pub list_price: Option<Money>,
    /// Letters of the zones of us-east-1 that offer it.
    pub zones: &'static str,
    /// Its GPUs.
    pub gpu: Option<GpuFact>,
}

/// The GPUs of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuFact {
    /// Whole GPUs.
    pub count: u32,
    /// Devices, fractions included.
    pub devices: u32,
    /// Share of a GPU that each device is.
    pub share: f64,
    /// Memory of each.
    pub memory_mib: u64,
    /// Maker.
    pub manufacturer: &'static str,
    /// Name.
    pub name: &'static str,
}

static FACTS: LazyLock<BTreeMap<&'static str, Fact>> = LazyLock::new(|| {
    let lines = FILE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(read).map(|one| (one.name, one)).collect()
});

/// All types, by name.
pub fn facts() -> &'static BTreeMap<&'static str, Fact> {
    &FACTS
}

fn read(line: &'static str) -> Option<Fact> {
    let mut cells = line.split('\t');
    let mut next = || cells.next();
    let some = |text: &'static str| (text != "-").then_some(text);
    Some(Fact {
        name: next()?,
        arch: next()?,
        vcpu: next()?.parse().ok()?,
        memory_mib: next()?.parse().ok()?,
        sold: some(next()?).unwrap_or_default(),
        list_price: next()?.parse().ok().map(Money::from_dollars),
        zones: some(next()?).unwrap_or_default(),
        gpu: some(next()?).and_then(gpu),
    })
}

fn gpu(text: &'static str) -> Option<GpuFact> {
    let mut cells = text.splitn(6, '/');
    Some(GpuFact {
        count: cells.next()?.parse().ok()?,
        devices: cells.next()?.parse().ok()?,
        share: cells.next()?.parse().ok()?,
        memory_mib: cells.next()?.parse().ok()?,
        manufacturer: cells.next()?,
        name: cells.next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let lines = FILE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(facts().len(), lines);
        assert_eq!(facts().values().filter(|one| one.gpu.is_some()).count(), 81);
        let part = facts()["g6f.large"].gpu.as_ref().unwrap();
        assert_eq!((part.count, part.devices), (0, 1));
    }
}
