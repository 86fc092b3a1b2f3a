//! A cluster of its own for one spec after the other.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tempfile::TempDir;

use super::queue::{Next, Queue};
use super::{Settings, Spec, files, spec, text};
use crate::furnish::{furnish, karpenter_sources, karpenter_stages, start_kwok};
use crate::{ControlPlane, Process, Program};

/// What came of a spec.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The spec.
    pub spec: Spec,
    /// Whether it passed; if not, what the suite says about it.
    pub failure: Option<String>,
    /// How long it took, with all that comes before and after it.
    pub took: Duration,
}

/// A control plane with kubelets and Joiner.
struct Bench {
    // Dropped in this order: who talks to the plane before the plane.
    joiner: Process,
    kwok: Process,
    _directories: [TempDir; 2],
    plane: ControlPlane,
}

/// Takes specs from the queue until it is empty.
pub(super) async fn work(
    settings: &Settings,
    program: &Path,
    queue: &Queue,
    told: &(impl Fn(&Verdict) + Sync),
) -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    let mut bench = None;
    loop {
        let spec = match queue.next() {
            Next::Run(spec) => spec,
            Next::Later => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
            Next::Done => return Ok(verdicts),
        };
        let standing = match bench.take() {
            Some(standing) => standing,
            None => Bench::start(&settings.joiner).await?,
        };
        let started = Instant::now();
        let directory = TempDir::new()?;
        let failure = standing
            .run(program, directory.path(), &spec, settings.limit)
            .await
            .with_context(|| format!("running {:?}", spec.name))?;
        queue.done(&spec);
        let verdict = Verdict {
            spec,
            failure,
            took: started.elapsed(),
        };
        told(&verdict);
        if verdict.failure.is_none() {
            bench = Some(standing);
        } else if let Some(logs) = &settings.logs {
            standing.keep_logs(logs, directory.path(), &verdict.spec)?;
        }
        verdicts.push(verdict);
    }
}

impl Bench {
    async fn start(joiner: &Path) -> Result<Self> {
        let plane = ControlPlane::builder()
            .with_scheduler()
            .with_controller_manager()
            .start()
            .await?;
        let (directory, kubelets) = (TempDir::new()?, TempDir::new()?);
        let crds = joiner_api::to_yaml_stream(&joiner_api::crds(None))?;
        furnish(&plane, directory.path(), &crds, &[]).await?;
        let ensure = || crate::ensure(&[Program::Kwok]);
        let programs = tokio::task::spawn_blocking(ensure).await??;
        let kubeconfig = text(&plane.kubeconfig());
        let stages = karpenter_stages(kubelets.path())?;
        let kwok = start_kwok(&programs, kubelets.path(), &kubeconfig, &stages)?;
        let arguments = [
            "run".to_owned(),
            format!("--kubeconfig={kubeconfig}"),
            "--leader-elect=false".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            "--log-format=text".to_owned(),
        ];
        Ok(Bench {
            joiner: Process::start("joiner", directory.path(), joiner, &arguments)?,
            kwok,
            _directories: [directory, kubelets],
            plane,
        })
    }

    /// Runs one spec; what is returned is why it failed.
    async fn run(
        &self,
        program: &Path,
        at: &Path,
        spec: &Spec,
        limit: Duration,
    ) -> Result<Option<String>> {
        let catalogue = karpenter_sources()?.join("kwok/cloudprovider/instance_types.json");
        let (class, pool) = files::write(at, &catalogue, spec)?;
        let report = at.join("report.json");
        let arguments = [
            format!("KUBECONFIG={}", text(&self.plane.kubeconfig())),
            text(program),
            format!("--default-nodeclass={}", text(&class)),
            format!("--default-nodepool={}", text(&pool)),
            format!("--ginkgo.focus={}", spec.focus()),
            format!("--ginkgo.json-report={}", text(&report)),
            format!("--ginkgo.timeout={}s", limit.as_secs()),
            "--ginkgo.grace-period=20s".to_owned(),
            "--ginkgo.no-color".to_owned(),
            "--test.timeout=0".to_owned(),
        ];
        let env = Path::new("/usr/bin/env");
        let mut suite = Process::start("suite", at, env, &arguments)?;
        let end = Instant::now() + limit + Duration::from_mins(2);
        while suite.ended()?.is_none() {
            if Instant::now() > end {
                return Ok(Some(format!("it does not end; {}", suite.last_words())));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let Ok(text) = fs::read(&report) else {
            return Ok(Some(format!("no report; {}", suite.last_words())));
        };
        Ok(judge(&serde_json::from_slice(&text)?, &spec.name))
    }

    fn keep_logs(&self, logs: &Path, suite: &Path, spec: &Spec) -> Result<()> {
        let folder = logs.join(format!("{:02}", spec.index + 1));
        fs::create_dir_all(&folder)?;
        for (name, log) in [
            ("joiner.log", self.joiner.output()),
            ("kwok.log", self.kwok.output()),
            (
                "suite.log",
                fs::read_to_string(suite.join("suite.log")).unwrap_or_default(),
            ),
        ] {
            fs::write(folder.join(name), log)?;
        }
        Ok(())
    }
}

/// Why the spec did not pass, in the words of the report.
fn judge(report: &Value, name: &str) -> Option<String> {
    let specs = spec::read(report);
    let Some((_, found)) = specs.iter().find(|(one, _)| one == name) else {
        return Some("the suite did not run it".to_owned());
    };
    let state = found["State"].as_str().unwrap_or("unknown");
    if state == "passed" {
        return None;
    }
    let failure = &found["Failure"];
    let message = failure["Message"].as_str().unwrap_or_default().trim();
    let at = &failure["Location"];
    let file = at["FileName"].as_str().unwrap_or_default();
    let file = file.rsplit('/').next().unwrap_or_default();
    Some(format!("{state} at {file}:{}: {message}", at["LineNumber"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(state: &str) -> Value {
        json!([{"SpecReports": [{
            "LeafNodeType": "It", "LeafNodeText": "works", "State": state,
            "Failure": {"Message": "Timed out", "Location": {"FileName": "a/b.go", "LineNumber": 7}},
        }]}])
    }

    #[test]
    fn a_spec_passes_only_when_the_report_says_so() {
        assert_eq!(judge(&report("passed"), "works"), None);
        let failed = judge(&report("timedout"), "works").unwrap();
        assert_eq!(failed, "timedout at b.go:7: Timed out");
        assert!(judge(&report("passed"), "another").is_some());
        assert!(judge(&report("skipped"), "works").is_some());
    }
}
