//! The programs that take part.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::row::Outcome;

/// How often each solver solves each problem.
const RUNS: usize = 3;

/// Built programs, and a folder for problems and solutions.
pub(super) struct Tools {
    programs: PathBuf,
    joiner: PathBuf,
    folder: PathBuf,
}

impl Tools {
    /// Builds Joiner and the referee's programs.
    pub(super) fn build(referee: &Path, karpenter: bool) -> Result<Self> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
            PathBuf::from,
        );
        let tools = Tools {
            programs: target.join("referee"),
            joiner: target.join("release/joiner"),
            folder: target.join("bench"),
        };
        fs::create_dir_all(&tools.programs)?;
        fs::create_dir_all(&tools.folder)?;
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--release", "--quiet", "--package", "joiner"]);
        run(&mut cargo)?;
        let all = [("gen", "./gen"), ("check", "./check"), ("karpenter", ".")];
        for (name, package) in &all[..if karpenter { 3 } else { 2 }] {
            let mut go = Command::new("go");
            go.current_dir(referee).arg("build").arg("-o");
            go.arg(tools.programs.join(name)).arg(package);
            run(&mut go)?;
        }
        Ok(tools)
    }

    /// Where problems and solutions go.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn generate(&self, kind: &str, pods: u32, types: u32, seed: u32) -> Result<PathBuf> {
        let path = self
            .folder
            .join(format!("{kind}-{pods}-{types}-{seed}.json"));
        let mut generator = Command::new(self.programs.join("gen"));
        generator.args(["-kind", kind]);
        for (flag, value) in [("-pods", pods), ("-types", types), ("-seed", seed)] {
            generator.arg(flag).arg(value.to_string());
        }
        generator.stdout(fs::File::create(&path)?);
        run(&mut generator)?;
        Ok(path)
    }

    /// Solves as often as Karpenter does, with the same plan every time; the time is the median of both.
    pub(super) fn joiner(&self, problem: &Path, name: &str, more: &[&str]) -> Result<Outcome> {
        let solution = problem.with_extension(format!("{name}.json"));
        let mut joiner = Command::new(&self.joiner);
        joiner.arg("plan").arg("--problem").arg(problem);
        joiner.arg("--out").arg(&solution).args(more);
        joiner.stderr(Stdio::null());
        let mut measured = Vec::new();
        for _ in 0..RUNS {
            let status = joiner.status()?;
            // Four: there is a plan, and some pods have no place.
            let solved = matches!(status.code(), Some(0 | 4));
            ensure!(solved, "joiner failed on {}: {status}", problem.display());
            measured.push(self::measured(&solution)?);
        }
        let verdict = self.judge(problem, &solution)?;
        let outcomes = measured.iter().map(|one| Outcome::new(&verdict, one));
        let mut outcomes: Vec<Outcome> = outcomes.collect();
        outcomes.sort_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds));
        Ok(outcomes.swap_remove(RUNS / 2))
    }

    pub(super) fn karpenter(&self, problem: &Path, timeout: Option<&str>) -> Result<Outcome> {
        let solution = problem.with_extension("karpenter.json");
        let mut karpenter = Command::new(self.programs.join("karpenter"));
        karpenter.arg("-in").arg(problem).arg("-out").arg(&solution);
        let runs = RUNS.to_string();
        karpenter.args(["-concurrency", "1", "-runs", &runs, "-warmup", "0"]);
        karpenter.args(["-budget", "20s", "-timeout", timeout.unwrap_or("0")]);
        run(karpenter.stdout(Stdio::null()).stderr(Stdio::null()))?;
        let verdict = self.judge(problem, &solution)?;
        Ok(Outcome::new(&verdict, &measured(&solution)?))
    }

    fn judge(&self, problem: &Path, solution: &Path) -> Result<Value> {
        let mut check = Command::new(self.programs.join("check"));
        check.arg("-in").arg(problem).arg("-solution").arg(solution);
        let output = check.arg("-json").output()?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("no verdict on {}", solution.display()))
    }
}

/// What a solver says of itself beside its solution.
fn measured(solution: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(solution)?)?)
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("{program} cannot be started"))?;
    ensure!(status.success(), "{program} failed: {status}");
    Ok(())
}
