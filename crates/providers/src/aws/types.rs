//! EC2's answers, as far as they matter. Element names are EC2's; what is missing is absent.

use joiner_core::leftover::GpuType;
use joiner_core::money::Money;
use serde::Deserialize;

/// `<xSet><item/>…</xSet>`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct Set<T> {
    #[serde(default = "Vec::new")]
    pub(super) item: Vec<T>,
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Set { item: Vec::new() }
    }
}

/// A page of anything.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub(super) struct Page<T> {
    #[serde(
        default,
        alias = "instanceTypeSet",
        alias = "instanceTypeOfferingSet",
        alias = "spotPriceHistorySet",
        alias = "spotPlacementScoreSet",
        alias = "availabilityZoneInfo",
        alias = "subnetSet",
        alias = "securityGroupInfo",
        rename = "items"
    )]
    pub(super) items: Set<T>,
    #[serde(default, rename = "nextToken")]
    pub(super) next: Option<String>,
}

/// An instance type.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceType {
    /// Name.
    pub instance_type: String,
    bare_metal: bool,
    supported_usage_classes: Set<String>,
    processor_info: Processor,
    gpu_info: Option<Gpus>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Processor {
    supported_architectures: Set<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Gpus {
    gpus: Set<Gpu>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Gpu {
    manufacturer: String,
    count: u32,
    logical_gpu_count: u32,
    #[serde(rename = "gpuPartitionSize")]
    partition_size: Option<f64>,
    memory_info: Memory,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Memory {
    #[serde(rename = "sizeInMiB")]
    size: u64,
}

impl InstanceType {
    /// What the ranking needs to know of it; `None` if it has no GPUs.
    pub fn gpu(&self, list_price: Option<Money>) -> Option<GpuType> {
        let gpus = &self.gpu_info.as_ref()?.gpus.item;
        let first = gpus.first()?;
        // A fractional GPU counts as none of the whole ones and as one logical one.
        let devices: u32 = gpus
            .iter()
            .map(|one| one.count.max(one.logical_gpu_count))
            .sum();
        let millis: u64 = gpus.iter().map(millis).sum();
        let architectures = &self.processor_info.supported_architectures.item;
        let arm = architectures.iter().any(|one| one.starts_with("arm64"));
        let sold = |how: &str| {
            let classes = &self.supported_usage_classes.item;
            classes.iter().any(|one| one == how)
        };
        Some(GpuType {
            name: self.instance_type.as_str().into(),
            arch: if arm { "arm64" } else { "amd64" }.into(),
            manufacturer: first.manufacturer.as_str().into(),
            devices,
            gpu_millis: millis,
            gpu_memory_mib: first.memory_info.size,
            bare_metal: self.bare_metal,
            spot: sold("spot"),
            on_demand: sold("on-demand"),
            list_price,
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, and a share is between nothing and one"
)]
fn millis(gpu: &Gpu) -> u64 {
    if gpu.count > 0 {
        return u64::from(gpu.count) * 1000;
    }
    let share = gpu.partition_size.unwrap_or(1.0).clamp(0.0, 1.0);
    (share * 1000.0).round() as u64 * u64::from(gpu.logical_gpu_count)
}

/// A type in a place.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct TypeOffering {
    /// Type.
    pub instance_type: String,
    /// Zone name.
    pub location: String,
}

/// A spot price since a moment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SpotPrice {
    /// Type.
    pub instance_type: String,
    /// Zone name.
    pub availability_zone: String,
    /// Dollars per hour, as text.
    pub spot_price: String,
    /// Since when.
    pub timestamp: String,
}

/// A placement score.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementScore {
    /// Region.
    pub region: String,
    /// Zone **id**, not name.
    pub availability_zone_id: Option<String>,
    /// 1 to 10.
    pub score: u8,
}

/// A zone; which name has which id differs from account to account.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Zone {
    /// Name, such as `us-east-1a`.
    pub zone_name: String,
    /// Id, such as `use1-az6`.
    pub zone_id: String,
    /// `available`, mostly.
    pub zone_state: String,
}

/// A subnet.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Subnet {
    /// Id.
    pub subnet_id: String,
    /// Zone name.
    pub availability_zone: String,
    /// Free addresses.
    pub available_ip_address_count: u64,
}

/// A security group.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityGroup {
    /// Id.
    pub group_id: String,
    /// Name.
    pub group_name: String,
}

#[cfg(test)]
mod tests {
    use quick_xml::de::from_str;

    use super::*;

    #[test]
    fn a_fraction_of_a_gpu_is_a_fraction() {
        let xml = r#"<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>
          <instanceTypeSet><item><instanceType>g6f.large</instanceType><bareMetal>false</bareMetal>
          <supportedUsageClasses><item>on-demand</item><item>spot</item></supportedUsageClasses>
          <processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures></processorInfo>
          <gpuInfo><gpus><item><name>L4</name><manufacturer>NVIDIA</manufacturer><count>0</count>
          <logicalGpuCount>1</logicalGpuCount><gpuPartitionSize>0.125</gpuPartitionSize>
          <memoryInfo><sizeInMiB>2861</sizeInMiB></memoryInfo></item></gpus>
          <totalGpuMemoryInMiB>2861</totalGpuMemoryInMiB></gpuInfo></item>
          <item><instanceType>m5.large</instanceType></item></instanceTypeSet><nextToken/></DescribeInstanceTypesResponse>"#;
        let page: Page<InstanceType> = from_str(xml).unwrap();
        let gpu = page.items.item[0].gpu(None).unwrap();
        assert_eq!(
            (gpu.devices, gpu.gpu_millis, gpu.gpu_memory_mib),
            (1, 125, 2861)
        );
        assert!(gpu.is_fractional() && gpu.spot && gpu.on_demand);
        assert_eq!(page.items.item[1].gpu(None), None);
        assert_eq!(page.next.as_deref().unwrap_or_default(), "");
    }
}
