//! The page in a real browser: `joiner demo`, headless Chromium, and the checks of `testing/browser`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Ends the demo, however the test ends.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a demo. Returns it with the addresses of its cluster and its page.
fn demo(directory: &Path) -> (Demo, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args([
            "demo",
            "--listen=127.0.0.1:0",
            "--page=127.0.0.1:0",
            "--kubeconfig",
        ])
        .arg(directory.join("demo.kubeconfig"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = child.stdout.take().unwrap();
    let demo = Demo(child);
    let (mut cluster, mut page) = (None, None);
    let mut lines = BufReader::new(out).lines();
    for line in lines.by_ref() {
        let line = line.unwrap();
        let mut words = line.split([' ', ';']);
        let Some(address) = words.find(|word| word.starts_with("http://")) else {
            continue;
        };
        if line.contains("The page") {
            page = Some(address.to_owned());
            break;
        }
        cluster = Some(address.to_owned());
    }
    // The story goes on being told; its output must be read, or it stops.
    std::thread::spawn(move || lines.for_each(drop));
    (
        demo,
        cluster.expect("the cluster's address"),
        page.expect("the page's address"),
    )
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Chromium, installed where that is possible.
fn chromium() -> String {
    let named = std::env::var("CHROMIUM").ok();
    let known = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    let find = || {
        named
            .iter()
            .chain(&known)
            .find(|program| runs(program))
            .cloned()
    };
    if let Some(found) = find() {
        return path_of(&found);
    }
    let install = Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends", "chromium"])
        .output();
    let found = find().unwrap_or_else(|| {
        let said = install.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        panic!(
            "the browser tests need Chromium, and it cannot be installed here ({said}): install Debian's package chromium, \
             or name a browser in $CHROMIUM"
        )
    });
    path_of(&found)
}

fn path_of(program: &str) -> String {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join(program))
        .find(|path| path.is_file());
    found.map_or_else(|| program.to_owned(), |path| path.display().to_string())
}

/// The scripts, beside what npm installs for them: in a cache, so that the checkout stays as it is.
fn scripts() -> PathBuf {
    assert!(
        runs("node") && runs("npm"),
        "the browser tests need Node.js and npm, and these are not here: install Node.js 20 or newer"
    );
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folder = cache
        .expect("$HOME or $XDG_CACHE_HOME")
        .join("joiner/browser");
    std::fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/browser");
    let mut fresh = folder.join("node_modules/playwright-core").is_dir();
    for entry in std::fs::read_dir(&source).unwrap() {
        let from = entry.unwrap().path();
        let to = folder.join(from.file_name().unwrap());
        let text = std::fs::read(&from).unwrap();
        let same = std::fs::read(&to).is_ok_and(|known| known == text);
        fresh &= same || from.extension().is_none_or(|end| end != "json");
        std::fs::write(to, text).unwrap();
    }
    if !fresh {
        let output = Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund"])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "npm cannot install playwright-core and axe-core for the browser tests: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    folder
}

/// Not a test of anything: `make screenshots` takes the pictures in `docs/images`.
#[test]
#[ignore = "writes into docs/images: make screenshots"]
fn pictures() {
    let (scripts, chromium) = (scripts(), chromium());
    let directory = tempfile::tempdir().unwrap();
    let (_demo, cluster, page) = demo(directory.path());
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    let status = Command::new("node")
        .arg("shots.mjs")
        .arg(images)
        .current_dir(scripts)
        .env("JOINER_PAGE", page)
        .env("JOINER_CLUSTER", cluster)
        .env("CHROMIUM", chromium)
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "open: not run to a green end yet; it needs Node.js and Chromium"]
fn the_page_shows_the_truth_live_to_everyone_and_runs_no_script_but_its_own() {
    let (scripts, chromium) = (scripts(), chromium());
    let directory = tempfile::tempdir().unwrap();
    let (_demo, cluster, page) = demo(directory.path());
    let output = Command::new("node")
        .arg("page.mjs")
        .current_dir(scripts)
        .env("JOINER_PAGE", page)
        .env("JOINER_CLUSTER", cluster)
        .env("CHROMIUM", chromium)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains("all passed"), "{said}\n{errors}");
}
