//! Headless Chromium and the scripts of `testing/browser` that drive it. Node.js is needed; Chromium and what npm
//! brings are installed when they are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A browser and the scripts that drive it.
#[derive(Clone, Debug)]
pub struct Browser {
    chromium: String,
    scripts: PathBuf,
}

impl Browser {
    /// Found, or installed. `Err` with what is missing and what to do about it.
    pub fn install() -> Result<Self, String> {
        if !runs("node") || !runs("npm") {
            let said = "Node.js and npm are not here: install Node.js 20 or newer";
            return Err(said.to_owned());
        }
        Ok(Browser {
            chromium: chromium()?,
            scripts: scripts()?,
        })
    }

    /// A script of `testing/browser`, to be given its addresses and run.
    pub fn script(&self, name: &str) -> Command {
        let mut command = Command::new("node");
        command
            .arg(name)
            .current_dir(&self.scripts)
            .env("CHROMIUM", &self.chromium);
        command
    }
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
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser");
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
