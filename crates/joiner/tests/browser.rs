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

use joiner_testing::Browser;
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

/// Runs a script against a demo of its own.
fn drive(browser: &Browser, script: &str, arguments: &[PathBuf]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let (_demo, cluster, page) = demo(directory.path());
    browser
        .script(script)
        .args(arguments)
        .env("JOINER_PAGE", page)
        .env("JOINER_CLUSTER", cluster)
        .output()
        .unwrap()
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
    let said = passed(&drive(browser, "page.mjs", &[]))?;
    assert!(said.contains("all passed"), "{said}");
    Ok(())
}

/// Not a test of anything: `make screenshots` takes the pictures in `docs/images`.
fn pictures(browser: &Browser) -> Result<(), Failed> {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    passed(&drive(browser, "shots.mjs", &[images])).map(drop)
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
