//! The page in a real browser: `joiner demo`, headless Chromium, and the checks of `testing/browser`.
//!
//! Node.js is needed; Chromium and what npm brings are installed when they are missing. Where that cannot be, the tests say
//! what is missing and count as not run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests, helpers too"
)]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

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

/// A browser and the scripts that drive it.
#[derive(Clone)]
struct Browser {
    chromium: String,
    scripts: PathBuf,
}

impl Browser {
    /// Found, or installed. `Err` with what is missing and what to do about it.
    fn install() -> Result<Self, String> {
        if !runs("node") || !runs("npm") {
            let said = "Node.js and npm are not here: install Node.js 20 or newer";
            return Err(said.to_owned());
        }
        Ok(Browser {
            chromium: chromium()?,
            scripts: scripts()?,
        })
    }

    /// Runs a script against a demo of its own.
    fn drive(&self, script: &str, arguments: &[PathBuf]) -> Output {
        let directory = tempfile::tempdir().unwrap();
        let (_demo, cluster, page) = demo(directory.path());
        Command::new("node")
            .arg(script)
            .args(arguments)
            .current_dir(&self.scripts)
            .env("JOINER_PAGE", page)
            .env("JOINER_CLUSTER", cluster)
            .env("CHROMIUM", &self.chromium)
            .output()
            .unwrap()
    }
}

/// Chromium, installed where that is possible.
fn chromium() -> Result<String, String> {
    let named = std::env::var("CHROMIUM").ok();
    let known = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    let find = || {
        let mut all = named.iter().chain(&known);
        all.find(|program| runs(program)).cloned()
    };
    if let Some(found) = find() {
        return Ok(path_of(&found));
    }
    let apt = |arguments: &[&str]| {
        let output = Command::new("apt-get")
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .output();
        match output {
            Ok(output) if output.status.success() => String::new(),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => format!("apt-get: {error}"),
        }
    };
    // A machine that was never asked for a package knows none.
    let listed = apt(&["update"]);
    let installed = apt(&["install", "--yes", "--no-install-recommends", "chromium"]);
    find().map(|found| path_of(&found)).ok_or_else(|| {
        let said = [listed, installed].join(" ");
        format!(
            "Chromium cannot be installed here ({}): install Debian's package chromium, or name a browser in $CHROMIUM",
            said.trim()
        )
    })
}

fn path_of(program: &str) -> String {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join(program))
        .find(|path| path.is_file());
    found.map_or_else(|| program.to_owned(), |path| path.display().to_string())
}

/// The scripts, beside what npm installs for them: in a cache, so that the checkout stays as it is.
fn scripts() -> Result<PathBuf, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folder = cache
        .ok_or("there is no cache: set $HOME or $XDG_CACHE_HOME")?
        .join("joiner/browser");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/browser");
    let mut fresh = ["playwright-core", "axe-core"]
        .iter()
        .all(|name| folder.join("node_modules").join(name).is_dir());
    for entry in std::fs::read_dir(&source).map_err(failed)? {
        let from = entry.map_err(failed)?.path();
        let to = folder.join(from.file_name().unwrap_or_default());
        let text = std::fs::read(&from).map_err(failed)?;
        let same = std::fs::read(&to).is_ok_and(|known| known == text);
        fresh &= same || from.extension().is_none_or(|end| end != "json");
        std::fs::write(to, text).map_err(failed)?;
    }
    if !fresh {
        let output = Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund"])
            .current_dir(&folder)
            .output()
            .map_err(failed)?;
        if !output.status.success() {
            // What was half installed would be taken for whole the next time.
            let _ = std::fs::remove_dir_all(folder.join("node_modules"));
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "npm cannot install playwright-core and axe-core: {}",
                said.trim()
            ));
        }
    }
    Ok(folder)
}

/// What a script said, unless it failed.
fn passed(output: &Output) -> Result<String, Failed> {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{said}\n{errors}").into())
}

fn the_page_shows_the_truth_live_to_everyone_and_runs_no_script_but_its_own(
    browser: &Browser,
) -> Result<(), Failed> {
    let said = passed(&browser.drive("page.mjs", &[]))?;
    assert!(said.contains("all passed"), "{said}");
    Ok(())
}

/// Not a test of anything: `make screenshots` takes the pictures in `docs/images`.
fn pictures(browser: &Browser) -> Result<(), Failed> {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    passed(&browser.drive("shots.mjs", &[images])).map(drop)
}

fn main() {
    let arguments = Arguments::from_args();
    // Nothing is installed for those who only want to know what there is.
    let browser = if arguments.list {
        Err("nothing is run".to_owned())
    } else {
        Browser::install()
    };
    let trial = |name: &str, test: fn(&Browser) -> Result<(), Failed>| match browser.clone() {
        Ok(browser) => Trial::test(name, move || test(&browser)),
        Err(missing) => {
            Trial::test(name, move || Err(missing.into())).with_ignored_flag(!arguments.list)
        }
    };
    let trials = vec![
        trial(
            "the_page_shows_the_truth_live_to_everyone_and_runs_no_script_but_its_own",
            the_page_shows_the_truth_live_to_everyone_and_runs_no_script_but_its_own,
        ),
        trial("pictures", pictures).with_ignored_flag(true),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let (Err(missing), false) = (&browser, arguments.list) {
        eprintln!("NOT RUN: the page was not tested in a browser. {missing}.\n");
    }
    conclusion.exit();
}
