//! Flavours: what they have, what Managed Kubernetes keeps of it, and what they are called.

use joiner_core::labels;
use joiner_core::name::Labels;
use joiner_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NVIDIA_GPU, PODS, Resources};

use super::types::KubeFlavor;

/// Label of nodes: the first letter of the flavour, such as `b`.
pub const CATEGORY_LABEL: &str = "karpenter.ovhcloud.sh/instance-category";
/// Label of nodes: the flavour without its size, such as `b3`.
pub const FAMILY_LABEL: &str = "karpenter.ovhcloud.sh/instance-family";
/// Label of nodes: the size of the flavour, such as `8`.
pub const SIZE_LABEL: &str = "karpenter.ovhcloud.sh/instance-size";
/// Label of nodes: cores.
pub const CPU_LABEL: &str = "karpenter.ovhcloud.sh/instance-cpu";
/// Label of nodes: memory in MiB.
pub const MEMORY_LABEL: &str = "karpenter.ovhcloud.sh/instance-memory";

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
const GB: f64 = 1e9;
/// What is lost of memory before the kubelet sees it, in thousandths. Measured on b3-8: 54.
const MEMORY_LOST: i64 = 55;
/// What is lost of a disk before the kubelet sees it, in thousandths. Measured on b3-8: 35.
const DISK_LOST: i64 = 40;
/// Memory that the kubelet keeps, and its eviction line. Measured on b3-8, said to be the same on every flavour.
const KEPT_MEMORY: i64 = (1590 + 250) * MIB;
const MOST_PODS: i64 = 110;
/// Disk of flavours that nobody has described.
const LEAST_DISK_GB: u32 = 50;

/// Whether a flavour can be paid by the month: the second generation of b, c, d and r.
pub fn is_gen2(flavor: &str) -> bool {
    matches!(family(flavor), "b2" | "c2" | "d2" | "r2")
}

/// The flavour without its size: `b3` of `b3-8`.
pub fn family(flavor: &str) -> &str {
    flavor.rsplit_once('-').map_or(flavor, |(family, _)| family)
}

/// The size of a flavour: `8` of `b3-8`.
pub fn size(flavor: &str) -> &str {
    flavor.rsplit_once('-').map_or("", |(_, size)| size)
}

/// Whether Managed Kubernetes can use a flavour at all. Bare metal, sandboxes and retired families are listed by some
/// regions and never become nodes.
pub fn is_usable(flavor: &KubeFlavor) -> bool {
    let name = flavor.name.as_str();
    let retired = [
        "bm-", "s1-", "eg-", "hg-", "sp-", "vps-", "g1-", "g2-", "g3-", "win-",
    ];
    flavor.vcpus > 0 && flavor.ram > 0 && !retired.iter().any(|start| name.starts_with(start))
}

/// The labels of a flavour beside type, zone and region.
pub fn type_labels(flavor: &KubeFlavor) -> Labels {
    let name = flavor.name.as_str();
    let category = if flavor.category.is_empty() {
        name.get(..1).unwrap_or_default()
    } else {
        flavor.category.as_str()
    };
    let memory = i64::from(flavor.ram) * 1024;
    let mut all = Labels::from([
        (labels::ARCH.into(), "amd64".into()),
        (labels::OS.into(), "linux".into()),
        (CATEGORY_LABEL.into(), category.into()),
        (FAMILY_LABEL.into(), family(name).into()),
        (CPU_LABEL.into(), flavor.vcpus.to_string().into()),
        (MEMORY_LABEL.into(), memory.to_string().into()),
    ]);
    if !size(name).is_empty() {
        all.insert(SIZE_LABEL.into(), size(name).into());
    }
    all
}

/// What a node of a flavour has, and what of it pods cannot have. `disk` is in GB, if known.
pub fn sizes(flavor: &KubeFlavor, disk: Option<u32>) -> (Resources, Resources) {
    let cores = i64::from(flavor.vcpus);
    let memory = i64::from(flavor.ram) * GIB / 1000 * (1000 - MEMORY_LOST);
    let disk = disk
        .filter(|disk| *disk > 0)
        .or_else(|| super::table::find(&flavor.name).map(|row| row.disk))
        .unwrap_or(LEAST_DISK_GB);
    let storage = i64::from(disk) * GIB / 1000 * (1000 - DISK_LOST);
    let mut capacity = Resources::new()
        .with(CPU, cores * 1000)
        .with(MEMORY, memory)
        .with(EPHEMERAL_STORAGE, storage)
        .with(PODS, MOST_PODS);
    if flavor.gpus > 0 {
        capacity.set(NVIDIA_GPU, i64::from(flavor.gpus));
    }
    let overhead = Resources::new()
        // 15 % of a core, and half a percent of all.
        .with(CPU, 150 + 5 * cores)
        .with(MEMORY, KEPT_MEMORY)
        .with(EPHEMERAL_STORAGE, kept_disk(disk).min(storage));
    (capacity, overhead)
}

/// `log10(GB) x 10 + 10 %`, in GB.
#[expect(clippy::cast_possible_truncation, reason = "disks are small numbers")]
fn kept_disk(disk: u32) -> i64 {
    let disk = f64::from(disk.max(1));
    ((disk.log10() * 10.0 + disk * 0.1) * GB) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flavor(name: &str, vcpus: u32, ram: u32) -> KubeFlavor {
        KubeFlavor {
            name: name.into(),
            category: name[..1].into(),
            state: "available".into(),
            vcpus,
            gpus: 0,
            ram,
        }
    }

    fn free(flavor: &KubeFlavor) -> Resources {
        let (mut capacity, overhead) = sizes(flavor, None);
        capacity.subtract(&overhead);
        capacity
    }

    #[test]
    fn no_more_is_promised_than_a_real_b3_8_has() {
        let b3 = flavor("b3-8", 2, 8);
        let (capacity, _) = sizes(&b3, None);
        assert!(capacity.get(MEMORY) <= 7_938_364 * 1024);
        assert!(capacity.get(EPHEMERAL_STORAGE) <= 50_620_216 * 1024);
        let free = free(&b3);
        assert_eq!(free.get(CPU), 1840);
        let memory = free.get(MEMORY);
        assert!(memory <= 6_054_204 * 1024, "{memory}");
        assert!(memory * 10 >= 6_054_204 * 1024 * 9, "{memory}");
        let disk = free.get(EPHEMERAL_STORAGE);
        assert!((256 * GIB / 10..=284 * GIB / 10).contains(&disk), "{disk}");
    }

    #[test]
    fn sizes_follow_the_model_of_the_service() {
        for (name, cores, ram, cpu, memory) in [
            ("b3-16", 4, 16, 3830, 13_642),
            ("b3-64", 16, 64, 15_770, 60_091),
            ("c3-4", 2, 4, 1840, 2030),
            ("b2-7", 2, 7, 1840, 4933),
        ] {
            let free = free(&flavor(name, cores, ram));
            assert_eq!(free.get(CPU), cpu, "{name}");
            let got = free.get(MEMORY) / MIB;
            assert!((memory - 2..=memory).contains(&got), "{name}: {got}");
        }
    }

    #[test]
    fn only_the_second_generation_is_paid_by_the_month() {
        for name in ["b2-7", "c2-15", "d2-8", "r2-240"] {
            assert!(is_gen2(name), "{name}");
        }
        for name in ["b3-8", "t2-45", "t2-le-45", "i1-45", "rtx5000-28"] {
            assert!(!is_gen2(name), "{name}");
        }
    }

    #[test]
    fn labels_say_what_a_flavour_is() {
        let labels = type_labels(&flavor("t2-le-45", 15, 45));
        assert_eq!(&*labels[FAMILY_LABEL], "t2-le");
        assert_eq!(&*labels[SIZE_LABEL], "45");
        assert_eq!(&*labels[CPU_LABEL], "15");
        assert_eq!(&*labels[MEMORY_LABEL], "46080");
    }
}
