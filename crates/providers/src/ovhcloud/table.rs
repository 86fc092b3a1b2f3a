//! Flavours and prices as they stood in September 2026: the last resort when the price catalogue cannot be read.
//!
//! Euro without tax, in millionths. Exact where the catalogue was seen, rounded to cents elsewhere; of several listed
//! prices the highest.

/// A flavour as it once was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name.
    pub name: &'static str,
    /// Cores.
    pub vcpus: u32,
    /// Memory in GiB.
    pub ram: u32,
    /// Disk in GB.
    pub disk: u32,
    /// GPUs.
    pub gpus: u32,
    /// Millionths of a euro for an hour; `None` where nobody published it.
    pub hourly: Option<i64>,
    /// Millionths of a euro for a month, where it can be paid so.
    pub monthly: Option<i64>,
}

const fn row(
    name: &'static str,
    (vcpus, ram, disk, gpus): (u32, u32, u32, u32),
    hourly: Option<i64>,
    monthly: Option<i64>,
) -> Row {
    Row {
        name,
        vcpus,
        ram,
        disk,
        gpus,
        hourly,
        monthly,
    }
}

/// The table.
#[rustfmt::skip]
pub const TABLE: [Row; 74] = [
    row("d2-2", (1, 2, 25, 0), Some(10_000), Some(5_490_000)),
    row("d2-4", (2, 4, 50, 0), Some(20_000), Some(11_000_000)),
    row("d2-8", (4, 8, 50, 0), Some(40_000), Some(19_800_000)),
    row("b2-7", (2, 7, 50, 0), Some(70_000), Some(24_200_000)),
    row("b2-15", (4, 15, 100, 0), Some(130_000), Some(46_200_000)),
    row("b2-30", (8, 30, 200, 0), Some(260_000), Some(93_500_000)),
    row("b2-60", (16, 60, 400, 0), Some(510_000), Some(182_000_000)),
    row("b2-120", (32, 120, 400, 0), Some(990_000), Some(358_000_000)),
    row("b3-8", (2, 8, 50, 0), Some(51_200), None),
    row("b3-16", (4, 16, 100, 0), Some(102_300), None),
    row("b3-32", (8, 32, 200, 0), Some(204_600), None),
    row("b3-64", (16, 64, 400, 0), Some(409_200), None),
    row("b3-128", (32, 128, 400, 0), Some(740_000), None),
    row("b3-256", (64, 256, 400, 0), Some(1_490_000), None),
    row("b3-512", (128, 512, 400, 0), Some(2_980_000), None),
    row("b3-640", (160, 640, 400, 0), Some(3_720_000), None),
    row("c2-7", (2, 7, 50, 0), Some(100_000), Some(35_200_000)),
    row("c2-15", (4, 15, 100, 0), Some(190_000), Some(68_200_000)),
    row("c2-30", (8, 30, 200, 0), Some(380_000), Some(138_000_000)),
    row("c2-60", (16, 60, 400, 0), Some(750_000), Some(270_000_000)),
    row("c2-120", (32, 120, 400, 0), Some(1_480_000), Some(534_000_000)),
    row("c3-4", (2, 4, 50, 0), Some(40_000), None),
    row("c3-8", (4, 8, 100, 0), Some(80_000), None),
    row("c3-16", (8, 16, 200, 0), Some(170_000), None),
    row("c3-32", (16, 32, 400, 0), Some(365_000), None),
    row("c3-64", (32, 64, 400, 0), Some(660_000), None),
    row("c3-128", (64, 128, 400, 0), Some(1_330_000), None),
    row("c3-256", (128, 256, 400, 0), Some(2_650_000), None),
    row("c3-320", (160, 320, 400, 0), Some(3_320_000), None),
    row("r2-15", (2, 15, 50, 0), Some(100_000), Some(35_200_000)),
    row("r2-30", (2, 30, 50, 0), Some(110_000), Some(40_700_000)),
    row("r2-60", (4, 60, 100, 0), Some(220_000), Some(79_200_000)),
    row("r2-120", (8, 120, 200, 0), Some(440_000), Some(160_000_000)),
    row("r2-240", (16, 240, 400, 0), Some(870_000), Some(314_000_000)),
    row("r3-16", (2, 16, 50, 0), Some(60_000), None),
    row("r3-32", (4, 32, 100, 0), Some(120_000), None),
    row("r3-64", (8, 64, 200, 0), Some(240_000), None),
    row("r3-128", (16, 128, 400, 0), Some(530_000), None),
    row("r3-256", (32, 256, 400, 0), Some(1_059_000), None),
    row("r3-512", (64, 512, 400, 0), Some(1_930_000), None),
    row("r3-1024", (128, 1024, 400, 0), Some(3_850_000), None),
    row("i1-45", (8, 45, 50, 0), Some(440_000), Some(220_000_000)),
    row("i1-90", (16, 90, 50, 0), Some(880_000), Some(440_000_000)),
    row("i1-180", (32, 180, 50, 0), Some(1_760_000), Some(880_000_000)),
    row("t1-45", (8, 45, 400, 1), None, None),
    row("t1-90", (18, 90, 800, 2), None, None),
    row("t1-180", (36, 180, 50, 4), None, None),
    row("t1-le-45", (8, 45, 300, 1), None, None),
    row("t1-le-90", (16, 90, 400, 2), None, None),
    row("t1-le-180", (32, 180, 400, 4), None, None),
    row("t2-45", (15, 45, 400, 1), None, None),
    row("t2-90", (30, 90, 800, 2), None, None),
    row("t2-180", (60, 180, 50, 4), None, None),
    row("t2-le-45", (15, 45, 300, 1), None, None),
    row("t2-le-90", (30, 90, 500, 2), None, None),
    row("t2-le-180", (60, 180, 500, 4), None, None),
    row("rtx5000-28", (4, 28, 400, 1), None, None),
    row("rtx5000-56", (8, 56, 400, 2), None, None),
    row("rtx5000-84", (16, 84, 400, 3), None, None),
    row("a10-45", (30, 45, 400, 1), Some(760_000), None),
    row("a10-90", (60, 90, 400, 2), Some(1_520_000), None),
    row("a10-180", (120, 180, 400, 4), None, None),
    row("l4-90", (22, 90, 400, 1), Some(750_000), Some(540_000_000)),
    row("l4-180", (45, 180, 400, 2), Some(1_500_000), Some(1_080_000_000)),
    row("l4-360", (90, 360, 400, 4), Some(3_000_000), Some(2_160_000_000)),
    row("l40s-90", (15, 90, 400, 1), Some(1_400_000), Some(1_008_000_000)),
    row("l40s-180", (30, 180, 400, 2), Some(2_800_000), Some(2_016_000_000)),
    row("l40s-360", (60, 360, 400, 4), Some(5_600_000), Some(4_032_000_000)),
    row("a100-180", (15, 180, 300, 1), Some(2_750_000), Some(1_100_000_000)),
    row("a100-360", (30, 360, 500, 2), Some(5_500_000), Some(2_200_000_000)),
    row("a100-720", (60, 720, 500, 4), Some(11_000_000), Some(4_400_000_000)),
    row("h100-380", (30, 380, 200, 1), Some(2_800_000), Some(1_940_000_000)),
    row("h100-760", (60, 760, 200, 2), Some(5_600_000), Some(3_880_000_000)),
    row("h100-1520", (120, 1520, 200, 4), Some(11_200_000), Some(7_770_000_000)),
];

/// The row of a flavour.
pub fn find(flavor: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == flavor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flavour_stands_once_and_monthly_is_cheaper() {
        for (index, row) in TABLE.iter().enumerate() {
            assert!(
                TABLE
                    .iter()
                    .skip(index + 1)
                    .all(|other| other.name != row.name)
            );
            if let (Some(hour), Some(month)) = (row.hourly, row.monthly) {
                assert!(month < hour * 760, "{}", row.name);
            }
        }
        assert_eq!(find("b3-8").and_then(|row| row.hourly), Some(51_200));
        assert_eq!(find("b3-9"), None);
    }
}
