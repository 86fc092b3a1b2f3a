//! Quantiles of what was observed of late, beside how often and how much in all.
//!
//! Dashboards made for Karpenter read some of its metrics by their `quantile` label. The client library knows no
//! summaries: the series are those of one, and the type is declared unknown.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Karpenter's quantiles, as they are written and in percent.
const QUANTILES: [(&str, usize); 5] =
    [("0", 0), ("0.5", 50), ("0.9", 90), ("0.99", 99), ("1", 100)];
/// Quantiles are of the last so many.
const REMEMBERED: usize = 1_000;

/// A summary for each label set.
#[derive(Clone, Debug)]
pub struct Summary<L>(Arc<Mutex<BTreeMap<L, Observed>>>);

#[derive(Clone, Debug, Default)]
struct Observed {
    recent: VecDeque<f64>,
    sum: f64,
    count: u64,
}

impl<L> Default for Summary<L> {
    fn default() -> Self {
        Summary(Arc::default())
    }
}

impl<L: Ord> Summary<L> {
    /// Takes note of a value.
    pub fn observe(&self, labels: L, value: f64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let observed = all.entry(labels).or_default();
        if observed.recent.len() == REMEMBERED {
            observed.recent.pop_front();
        }
        observed.recent.push_back(value);
        observed.sum += value;
        observed.count += 1;
    }

    /// Forgets a label set.
    pub fn remove(&self, labels: &L) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(labels);
    }
}

impl Observed {
    /// By quantile: the value that this part of the recent ones does not exceed.
    fn quantiles(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let mut sorted: Vec<f64> = self.recent.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        QUANTILES.into_iter().filter_map(move |(name, percent)| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            Some((name, *sorted.get(rank - 1)?))
        })
    }
}

impl<L: EncodeLabelSet + Clone + fmt::Debug> EncodeMetric for Summary<L> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, observed) in &*all {
            for (quantile, value) in observed.quantiles() {
                let labels = (labels.clone(), [("quantile", quantile)]);
                encoder.encode_family(&labels)?.encode_gauge(&value)?;
            }
            let (sum, count) = (observed.sum, observed.count);
            // A histogram without buckets is what is left of a summary.
            encoder
                .encode_family(labels)?
                .encode_histogram::<NoLabelSet>(sum, count, &[], None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Unknown
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;

    fn written(summary: &Summary<[(String, String); 1]>) -> String {
        let mut registry = Registry::default();
        registry.register("took_seconds", "How long it took", summary.clone());
        let mut out = String::new();
        text::encode(&mut out, &registry).unwrap();
        out
    }

    fn pool(name: &str) -> [(String, String); 1] {
        [("nodepool".to_owned(), name.to_owned())]
    }

    #[test]
    fn a_summary_is_read_by_quantile_sum_and_count() {
        let summary = Summary::default();
        for value in 1..=100 {
            summary.observe(pool("a"), f64::from(value));
        }
        let expected = "\
# HELP took_seconds How long it took.
# TYPE took_seconds unknown
took_seconds{nodepool=\"a\",quantile=\"0\"} 1.0
took_seconds{nodepool=\"a\",quantile=\"0.5\"} 50.0
took_seconds{nodepool=\"a\",quantile=\"0.9\"} 90.0
took_seconds{nodepool=\"a\",quantile=\"0.99\"} 99.0
took_seconds{nodepool=\"a\",quantile=\"1\"} 100.0
took_seconds_sum{nodepool=\"a\"} 5050.0
took_seconds_count{nodepool=\"a\"} 100
# EOF
";
        assert_eq!(written(&summary), expected);
    }

    #[test]
    fn quantiles_forget_what_is_long_past_and_the_count_does_not() {
        let summary = Summary::default();
        summary.observe(pool("a"), 1e6);
        for _ in 0..REMEMBERED {
            summary.observe(pool("a"), 1.0);
        }
        let text = written(&summary);
        assert!(text.contains("quantile=\"1\"} 1.0\n"), "{text}");
        assert!(text.contains("_count{nodepool=\"a\"} 1001\n"), "{text}");
        summary.remove(&pool("a"));
        assert!(!written(&summary).contains("nodepool"));
    }
}
