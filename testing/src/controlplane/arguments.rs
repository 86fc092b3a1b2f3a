//! The arguments of every program, and the files they need before they start.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

/// The paths, ports and secrets of one control plane.
pub(super) struct Plan {
    directory: PathBuf,
    etcd_port: u16,
    peer_port: u16,
    api_port: u16,
    scheduler_port: u16,
    manager_port: u16,
    pub(super) token: String,
}

impl Plan {
    /// Writes the keys and the token file into `directory`.
    pub(super) fn new(directory: &Path, ports: [u16; 5]) -> Result<Self> {
        let [etcd_port, peer_port, api_port, scheduler_port, manager_port] = ports;
        let token = "admin-token".to_owned();
        let plan = Self {
            directory: directory.to_owned(),
            etcd_port,
            peer_port,
            api_port,
            scheduler_port,
            manager_port,
            token,
        };
        let key = rcgen::KeyPair::generate()?;
        fs::write(plan.path("service-account.key"), key.serialize_pem())?;
        fs::write(plan.path("service-account.pub"), key.public_key_pem())?;
        let tokens = format!("{},admin,admin,\"system:masters\"\n", plan.token);
        fs::write(plan.path("tokens.csv"), tokens)?;
        Ok(plan)
    }

    pub(super) fn etcd(&self) -> Vec<String> {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        flags([
            ("data-dir", self.file("etcd")),
            ("listen-client-urls", client.clone()),
            ("advertise-client-urls", client),
            (
                "listen-peer-urls",
                format!("http://127.0.0.1:{}", self.peer_port),
            ),
            // The data dies with the test: nothing is gained by waiting for the disk.
            ("unsafe-no-fsync", "true".to_owned()),
            ("log-level", "warn".to_owned()),
        ])
    }

    pub(super) fn apiserver(&self) -> Vec<String> {
        flags([
            (
                "etcd-servers",
                format!("http://127.0.0.1:{}", self.etcd_port),
            ),
            ("bind-address", "127.0.0.1".to_owned()),
            ("advertise-address", "127.0.0.1".to_owned()),
            ("secure-port", self.api_port.to_string()),
            ("cert-dir", self.file("apiserver-certificates")),
            ("token-auth-file", self.file("tokens.csv")),
            ("authorization-mode", "RBAC".to_owned()),
            (
                "service-account-issuer",
                "https://kubernetes.default.svc".to_owned(),
            ),
            ("service-account-key-file", self.file("service-account.pub")),
            (
                "service-account-signing-key-file",
                self.file("service-account.key"),
            ),
            ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
            // As envtest does: without a controller manager no namespace has a default account.
            ("disable-admission-plugins", "ServiceAccount".to_owned()),
            ("allow-privileged", "true".to_owned()),
            // A loopback address may not stand in Endpoints; trying for ever only fills the log.
            ("endpoint-reconciler-type", "none".to_owned()),
        ])
    }

    pub(super) fn scheduler(&self, kubeconfig: &Path) -> Vec<String> {
        let mut arguments =
            self.follower(kubeconfig, self.scheduler_port, "scheduler-certificates");
        arguments.push("--leader-elect=false".to_owned());
        arguments
    }

    pub(super) fn controller_manager(&self, kubeconfig: &Path) -> Vec<String> {
        let mut arguments = self.follower(kubeconfig, self.manager_port, "manager-certificates");
        arguments.extend(flags([
            ("leader-elect", "false".to_owned()),
            (
                "service-account-private-key-file",
                self.file("service-account.key"),
            ),
            (
                "root-ca-file",
                self.file("apiserver-certificates/apiserver.crt"),
            ),
            ("use-service-account-credentials", "false".to_owned()),
        ]));
        arguments
    }

    /// What scheduler and controller manager have in common.
    fn follower(&self, kubeconfig: &Path, port: u16, certificates: &str) -> Vec<String> {
        let kubeconfig = kubeconfig.display().to_string();
        flags([
            ("kubeconfig", kubeconfig.clone()),
            ("authentication-kubeconfig", kubeconfig.clone()),
            ("authorization-kubeconfig", kubeconfig),
            // The API server has no client certificates that they could look up.
            ("authentication-skip-lookup", "true".to_owned()),
            ("bind-address", "127.0.0.1".to_owned()),
            ("secure-port", port.to_string()),
            ("cert-dir", self.file(certificates)),
            // The default of 20 requests a second would be what a test measures.
            ("kube-api-qps", "1000".to_owned()),
            ("kube-api-burst", "2000".to_owned()),
        ])
    }

    /// The API server's certificate (it makes one for itself) and where it says that it is ready.
    pub(super) fn api_readiness(&self) -> (PathBuf, String) {
        let certificate = self.path("apiserver-certificates/apiserver.crt");
        (certificate, format!("{}/readyz", self.api_url()))
    }

    /// The same of the scheduler.
    pub(super) fn scheduler_readiness(&self) -> (PathBuf, String) {
        let url = format!("https://127.0.0.1:{}/readyz", self.scheduler_port);
        (self.path("scheduler-certificates/kube-scheduler.crt"), url)
    }

    /// The same of the controller manager, which has no `/readyz`.
    pub(super) fn controller_manager_readiness(&self) -> (PathBuf, String) {
        let url = format!("https://127.0.0.1:{}/healthz", self.manager_port);
        (
            self.path("manager-certificates/kube-controller-manager.crt"),
            url,
        )
    }

    pub(super) fn api_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port)
    }

    pub(super) fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "joiner",
            "clusters": [{"name": "joiner", "cluster": {
                "server": self.api_url(),
                "certificate-authority": self.file("apiserver-certificates/apiserver.crt"),
            }}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "joiner", "context": {"cluster": "joiner", "user": "admin"}}],
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn flags<const N: usize>(pairs: [(&str, String); N]) -> Vec<String> {
    pairs
        .into_iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .collect()
}
