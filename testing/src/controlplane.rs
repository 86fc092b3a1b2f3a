//! Starting and stopping a real control plane.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::client::Client;
use crate::process::{Process, Signal};
use crate::{Program, controlplane::arguments::Plan};

mod arguments;

/// Generous, because a laptop may be compiling at the same time; a healthy start takes about two seconds.
const START_LIMIT: Duration = Duration::from_secs(90);

/// How often a start is tried when somebody took its ports.
const ATTEMPTS: u32 = 3;

/// A running control plane. Dropping it stops every program and removes every file.
#[derive(Debug)]
pub struct ControlPlane {
    // Dropped in this order: programs first, then what they write to.
    processes: Vec<Process>,
    programs: PathBuf,
    url: String,
    certificates: Vec<u8>,
    token: String,
    directory: TempDir,
}

/// What to start beside etcd and the API server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builder {
    scheduler: bool,
    controller_manager: bool,
}

impl Builder {
    /// Also starts kube-scheduler.
    #[must_use]
    pub fn with_scheduler(self) -> Self {
        Self {
            scheduler: true,
            ..self
        }
    }

    /// Also starts kube-controller-manager.
    #[must_use]
    pub fn with_controller_manager(self) -> Self {
        Self {
            controller_manager: true,
            ..self
        }
    }

    /// Builds what is missing, starts everything and waits until it is ready.
    pub async fn start(self) -> Result<ControlPlane> {
        let mut wanted = vec![Program::Etcd, Program::KubeApiserver, Program::Kubectl];
        wanted.extend(self.scheduler.then_some(Program::KubeScheduler));
        wanted.extend(
            self.controller_manager
                .then_some(Program::KubeControllerManager),
        );
        let ensure = move || xtask::controlplane::ensure(&wanted);
        let programs = tokio::task::spawn_blocking(ensure).await??;

        // Between choosing a free port and its use somebody else may take it. That shows as a start that fails with
        // these words, and other ports are the whole remedy.
        let mut attempt = 1;
        loop {
            match self.attempt(&programs).await {
                Err(error)
                    if attempt < ATTEMPTS
                        && format!("{error:#}").contains("address already in use") =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn attempt(self, programs: &Path) -> Result<ControlPlane> {
        let directory = tempfile::Builder::new()
            .prefix("joiner-controlplane-")
            .tempdir()?;
        let plan = Plan::new(directory.path(), free_ports()?)?;
        let mut cluster = ControlPlane {
            processes: Vec::new(),
            programs: programs.to_owned(),
            url: plan.api_url(),
            certificates: Vec::new(),
            token: plan.token.clone(),
            directory,
        };
        cluster.run(Program::Etcd, &plan.etcd())?;
        cluster.run(Program::KubeApiserver, &plan.apiserver())?;
        cluster.certificates = cluster.wait_until_ready(plan.api_readiness()).await?;
        std::fs::write(cluster.kubeconfig(), plan.kubeconfig().to_string())?;
        // Neither of them waits for the other: both start, then both are waited for.
        let mut waiting = Vec::new();
        if self.scheduler {
            cluster.run(
                Program::KubeScheduler,
                &plan.scheduler(&cluster.kubeconfig()),
            )?;
            waiting.push(plan.scheduler_readiness());
        }
        if self.controller_manager {
            let arguments = plan.controller_manager(&cluster.kubeconfig());
            cluster.run(Program::KubeControllerManager, &arguments)?;
            waiting.push(plan.controller_manager_readiness());
        }
        for readiness in waiting {
            cluster.wait_until_ready(readiness).await?;
        }
        Ok(cluster)
    }
}

impl ControlPlane {
    /// What to start is chosen on the builder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// etcd and the API server, nothing that acts by itself.
    pub async fn start() -> Result<Self> {
        Self::builder().start().await
    }

    /// One API server for all tests of this process; each test takes a [`ControlPlane::namespace`] of its own.
    pub async fn shared() -> Result<&'static Self> {
        // A static is never dropped; the end of the process ends the programs (see process.rs).
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// Where the API server listens: `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bearer token of an administrator.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A kubeconfig for an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// The directory with logs, keys and data.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The file of a program.
    pub fn program(&self, program: Program) -> PathBuf {
        self.programs.join(program.file_name())
    }

    /// A new client. Every test makes its own: a pooled connection dies with the runtime that made it.
    pub fn client(&self) -> Result<Client> {
        Client::secure(&self.url, &self.certificates, &self.token)
    }

    /// Runs kubectl and returns what it printed; an error holds what it complained of.
    pub async fn kubectl<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<String> {
        let output = tokio::process::Command::new(self.program(Program::Kubectl))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments)
            // Its discovery cache would otherwise be shared, by port, with clusters long gone.
            .arg("--cache-dir")
            .arg(self.directory.path().join("kubectl-cache"))
            .kill_on_drop(true)
            .output()
            .await
            .context("running kubectl")?;
        ensure!(
            output.status.success(),
            "kubectl ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A fresh namespace whose name begins with `prefix`; deleted when dropped.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace<'_>> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let name = format!("{prefix}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.client()?
            .send(Method::POST, "/api/v1/namespaces", Some(&body))
            .await?;
        Ok(Namespace {
            cluster: self,
            name,
        })
    }

    /// Sends a signal to one of the programs: an API server that stands still, a scheduler that dies.
    pub fn signal(&self, program: Program, signal: Signal) -> Result<()> {
        let process = self
            .processes
            .iter()
            .find(|process| process.name() == program.file_name())
            .with_context(|| format!("{} was not started", program.file_name()))?;
        process.signal(signal)
    }

    /// The last lines of every program's log.
    pub fn last_words(&self) -> String {
        let words: Vec<String> = self.processes.iter().map(Process::last_words).collect();
        words.join("\n")
    }

    fn run(&mut self, program: Program, arguments: &[String]) -> Result<()> {
        let path = self.program(program);
        let process = Process::start(program.file_name(), self.directory.path(), &path, arguments)?;
        self.processes.push(process);
        Ok(())
    }

    /// Waits until `url` answers well; returns the certificates that the server wrote for itself.
    async fn wait_until_ready(&mut self, (file, url): (PathBuf, String)) -> Result<Vec<u8>> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            for process in &mut self.processes {
                if let Some(status) = process.ended()? {
                    bail!(
                        "a program ended early with {status}; {}",
                        process.last_words()
                    );
                }
            }
            let reason = match self.ready(&file, &url).await {
                Ok(certificates) => return Ok(certificates),
                Err(reason) => reason,
            };
            if Instant::now() > deadline {
                let words = self.last_words();
                bail!("{url} was not ready after {START_LIMIT:?} ({reason:#})\n{words}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn ready(&self, certificate: &Path, url: &str) -> Result<Vec<u8>> {
        let certificates = std::fs::read(certificate)?;
        let client = Client::secure(url, &certificates, &self.token)?;
        let request = client
            .request(Method::GET, "")
            .timeout(Duration::from_secs(5));
        request.send().await?.error_for_status()?;
        Ok(certificates)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.processes.iter_mut().for_each(Process::stop);
    }
}

/// A namespace of one test.
#[derive(Debug)]
pub struct Namespace<'a> {
    cluster: &'a ControlPlane,
    name: String,
}

impl Namespace<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        // Not waited for: nobody will use this name again, and without a controller manager it would never be gone.
        let _ = std::process::Command::new(self.cluster.program(Program::Kubectl))
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig())
            .args(["delete", "namespace", "--wait=false", &self.name])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
    }
}

/// Five ports that nobody listens on. All are held at once, so that they differ.
fn free_ports() -> Result<[u16; 5]> {
    let mut held = Vec::new();
    let mut ports = [0; 5];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
