//! What README.md and the guides tell people to type, pasted block by block on a real control plane; and installing
//! beside what is there, and removing it again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use joiner_testing::Program;
use tempfile::TempDir;

use crate::harness::tests;
use crate::kt_install::{Fresh, repository};

tests![
    the_quick_start_of_the_readme_can_be_pasted,
    the_mock_mode_of_the_readme_and_its_guide_can_be_pasted,
    the_guides_of_own_racks_can_be_pasted,
    the_guide_of_ovhcloud_can_be_pasted,
    the_guide_of_leftover_can_be_pasted,
    make_install_and_the_charts_go_together,
    undeploy_keeps_crds_and_refuses_while_machines_are_left,
];

/// The blocks of shell below a heading, up to the next one of its rank.
fn blocks(file: &str, heading: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join(file)).unwrap();
    let rank = heading.split(' ').next().unwrap();
    let below = text.lines().skip_while(|line| *line != heading).skip(1);
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in below.take_while(|line| !line.starts_with(&format!("{rank} "))) {
        // In a list a block is indented.
        match (&mut open, line.trim_start()) {
            (None, "```sh") => open = Some(String::new()),
            (Some(_), "```") => found.extend(open.take()),
            (Some(block), line) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    assert!(
        !found.is_empty(),
        "{file} has no block of shell below {heading:?}"
    );
    found
}

/// A terminal at the top of the repository: the cluster's kubectl, and the tested binary for what cargo would build.
struct Terminal<'f> {
    fresh: &'f Fresh,
    programs: TempDir,
}

impl<'f> Terminal<'f> {
    fn new(fresh: &'f Fresh) -> Self {
        let programs = tempfile::Builder::new()
            .prefix("joiner-e2e-")
            .tempdir()
            .unwrap();
        let script = |name: &str, text: String| {
            let path = programs.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let kubectl = fresh.plane.program(Program::Kubectl);
        script(
            "kubectl",
            format!("#!/bin/sh\nexec {} \"$@\"\n", kubectl.display()),
        );
        let joiner = Path::new(env!("CARGO_BIN_EXE_joiner"));
        let run = "while [ \"$1\" != -- ]; do shift; done; shift\n\
                   case $1 in run) set -- \"$@\" --health-probe-bind-address=0 --metrics-bind-address=0 ;; esac";
        script(
            "cargo",
            format!("#!/bin/sh\n{run}\nexec {} \"$@\"\n", joiner.display()),
        );
        let helm = fresh.plane.program(Program::Helm);
        for (name, program) in [("joiner", joiner), ("helm", &*helm)] {
            script(
                name,
                format!("#!/bin/sh\nexec {} \"$@\"\n", program.display()),
            );
        }
        Terminal { fresh, programs }
    }

    fn command(&self, block: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["-euc", block])
            .current_dir(repository())
            .env("KUBECONFIG", self.fresh.plane.kubeconfig())
            .env("PATH", format!("{}:{path}", self.programs.path().display()))
            .env("CARGO", self.programs.path().join("cargo"));
        command
    }

    /// Runs a block to its end.
    fn paste(&self, block: &str) -> Output {
        self.command(block).output().unwrap()
    }

    /// Runs a block whose last line goes on until Ctrl-C, which comes when all of these pods run.
    async fn paste_until_pods_run(&self, block: &str, pods: usize) {
        let log = self.programs.path().join("log");
        let output = fs::File::create(&log).unwrap();
        let mut running = self
            .command(block)
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let phases = [
            "get",
            "pods",
            "-n",
            "default",
            "-o",
            "jsonpath={.items[*].status.phase}",
        ];
        let mut seen = String::new();
        for _ in 0..600 {
            if let Ok(said) = self.fresh.plane.kubectl(phases).await {
                seen = said;
            }
            let up = seen
                .split_whitespace()
                .filter(|phase| *phase == "Running")
                .count();
            if up == pods || running.try_wait().unwrap().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let group = format!("-{}", running.id());
        Command::new("kill")
            .args(["-INT", "--", &group])
            .status()
            .unwrap();
        running.wait().unwrap();
        let up = seen
            .split_whitespace()
            .filter(|phase| *phase == "Running")
            .count();
        assert_eq!(up, pods, "{block}\n{}", fs::read_to_string(&log).unwrap());
    }
}

#[track_caller]
fn good(ended: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    assert!(ended.status.success(), "{out}\n{err}");
    out.into_owned()
}

async fn the_quick_start_of_the_readme_can_be_pasted() {
    let fresh = Fresh::start().await;
    let terminal = Terminal::new(&fresh);
    let all = blocks("README.md", "## On a cluster of yours");
    terminal.paste_until_pods_run(&all[0], 5).await;
    // Images are pushed by people; what is deployed is accepted.
    let deploy = all[1].lines().find(|line| line.starts_with("make deploy"));
    good(&terminal.paste(deploy.unwrap()));
    for block in blocks("README.md", "## A plan for your pods") {
        let said = good(&terminal.paste(&block));
        assert!(said.contains("an hour"), "{said}");
    }
    for block in blocks("docs/reference/problem.md", "# The problem file") {
        good(&terminal.paste(&block));
    }
}

async fn the_mock_mode_of_the_readme_and_its_guide_can_be_pasted() {
    let readme = blocks("README.md", "## Rackspace Spot");
    let guide = blocks("docs/guides/rackspace.md", "## Quick start");
    for block in [&readme[0], &guide[0]] {
        let fresh = Fresh::start().await;
        Terminal::new(&fresh).paste_until_pods_run(block, 5).await;
    }
    // For real: what is installed is accepted. The namespace is there already, as it is in every fresh cluster of ours.
    let fresh = Fresh::start().await;
    let terminal = Terminal::new(&fresh);
    good(&terminal.paste("kubectl delete namespace karpetrack-system"));
    good(&terminal.paste(&guide[1]));
}

async fn the_guides_of_own_racks_can_be_pasted() {
    for (guide, heading) in [
        ("docs/guides/proxmox.md", "## Try it without Proxmox"),
        ("docs/guides/redfish.md", "## Try it without hardware"),
    ] {
        let fresh = Fresh::start().await;
        let terminal = Terminal::new(&fresh);
        let block = &blocks(guide, heading)[0];
        terminal.paste_until_pods_run(block, 5).await;
        // The Secrets of real hardware; what is typed into the hardware itself is another's.
        let needed = blocks(guide, "## What you need");
        let secrets: Vec<&String> = needed
            .iter()
            .filter(|block| block.starts_with("kubectl"))
            .collect();
        assert_eq!(secrets.len(), 1, "{needed:?}");
        good(&terminal.paste(secrets[0]));
    }
}

async fn the_guide_of_ovhcloud_can_be_pasted() {
    let fresh = Fresh::start().await;
    good(&Terminal::new(&fresh).paste(&blocks("docs/guides/ovhcloud.md", "## Quick start")[0]));
    let fresh = Fresh::start().await;
    good(&Terminal::new(&fresh).paste(&blocks("README.md", "## OVHcloud Managed Kubernetes")[0]));
}

async fn the_guide_of_leftover_can_be_pasted() {
    let fresh = Fresh::start().await;
    let terminal = Terminal::new(&fresh);
    let said =
        good(&terminal.paste(&blocks("docs/guides/leftover.md", "## Try it without AWS")[0]));
    assert!(said.contains("kind: NodePool"), "{said}");
    let install = &blocks(
        "docs/guides/leftover.md",
        "## EKS with Karpenter, from nothing",
    )[0];
    let filled = install
        .replace("<ACCOUNT_ID>", "123456789012")
        .replace("<IRSA_ROLE_NAME>", "joiner")
        .replace("<CLUSTER>", "main");
    assert!(!filled.contains('<'), "{filled}");
    good(&terminal.paste(&filled));
}

async fn make_install_and_the_charts_go_together() {
    let fresh = Fresh::start().await;
    let terminal = Terminal::new(&fresh);
    good(&terminal.paste("make install"));
    let chart = ["./charts/karpetrack", "--namespace", "karpetrack-system"];
    fresh.helm(&[&["install", "karpetrack"], &chart[..]].concat());
    fresh.helm(&[&["upgrade", "karpetrack"], &chart[..]].concat());
    // As one comes from Karpetrack: the release goes, its CRDs stay, and the name is used again.
    fresh.helm(&[
        "uninstall",
        "karpetrack",
        "--namespace",
        "karpetrack-system",
    ]);
    good(&terminal.paste("kubectl get customresourcedefinition spotnodepools.karpetrack.io"));
    fresh.helm(&[&["install", "karpetrack"], &chart[..]].concat());
    good(&terminal.paste("make install"));
}

async fn undeploy_keeps_crds_and_refuses_while_machines_are_left() {
    let fresh = Fresh::start().await;
    let terminal = Terminal::new(&fresh);
    good(&terminal.paste("make install && make deploy IMG=registry.example.com/joiner:1"));
    let claim = r"kubectl apply -f - <<'YAML'
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: { name: ours, annotations: { joiner.dev/managed-by: someone } }
spec:
  nodeClassRef: { group: joiner.dev, kind: SimNodeClass, name: default }
  requirements: []
YAML";
    good(&terminal.paste(claim));
    for target in ["undeploy", "uninstall"] {
        let refused = terminal.paste(&format!("make {target}"));
        let said = String::from_utf8_lossy(&refused.stdout);
        assert!(
            !refused.status.success() && said.contains("NodeClaim/ours"),
            "{said}"
        );
    }
    good(&terminal.paste("kubectl delete nodeclaim ours"));
    good(&terminal.paste("make undeploy"));
    let left = good(
        &terminal
            .paste("kubectl get deployments --all-namespaces -o name; kubectl get crd -o name"),
    );
    assert!(
        !left.contains("joiner-system") && !left.contains("deployment.apps/joiner"),
        "{left}"
    );
    assert!(
        left.contains("nodepools.karpenter.sh") && left.contains("joiner.dev"),
        "{left}"
    );
    good(&terminal.paste("make uninstall"));
    let left = good(&terminal.paste("kubectl get crd -o name"));
    assert!(
        left.contains("nodepools.karpenter.sh") && !left.contains("joiner.dev"),
        "{left}"
    );
}
