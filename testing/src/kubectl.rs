//! The same suite one storey higher: what a person types into kubectl, on both servers, must print the same.
//!
//! Cases stand in `kubectl/*.yaml`. Ages, times, ids, versions and the widths of columns are forgiven, nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;

use anyhow::{Context as _, Result, ensure};
use regex::Regex;
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;

/// One thing that a person does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A sentence that says what must be so.
    pub name: String,
    /// The namespace of the case; given by [`load`].
    #[serde(skip)]
    pub id: String,
    /// Custom resource definitions that must be served first: names of files in `differential/crds`.
    #[serde(default)]
    pub crds: Vec<String>,
    /// The commands, in order.
    pub steps: Vec<Step>,
}

/// One command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The arguments, as a shell would split them. `${ns}` is the namespace of the case, which is also the default.
    pub run: String,
    /// What kubectl reads from its standard input.
    #[serde(default)]
    pub input: Option<String>,
    /// Whether the command must fail.
    #[serde(default)]
    pub fails: bool,
    /// Words that must be printed: proof that the case is about what it says.
    #[serde(default)]
    pub says: Option<String>,
}

/// What a command printed, ready to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// The command.
    pub command: String,
    /// Whether it ended well.
    pub success: bool,
    /// Both streams, lines with spaces folded.
    pub output: String,
}

/// kubectl, pointed at one server.
#[derive(Debug)]
pub struct Kubectl {
    /// The program.
    pub program: PathBuf,
    /// The server's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Where it may keep what it discovered.
    pub cache: PathBuf,
}

/// Reads every case in `directory`, with the name of its file.
pub fn load(directory: &Path) -> Result<Vec<(String, Case)>> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let subject = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path)?;
        let cases: Vec<Case> =
            serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        for (index, mut case) in cases.into_iter().enumerate() {
            case.id = format!("kubectl-{subject}-{:02}", index + 1);
            all.push((subject.clone(), case));
        }
    }
    Ok(all)
}

impl Kubectl {
    /// Runs every step; fails where a step does not keep what the case says of it.
    pub async fn play(&self, case: &Case, definitions: &Path) -> Result<Vec<Printed>> {
        self.must(&format!("create namespace {}", case.id)).await?;
        for name in &case.crds {
            let file = definitions.join(format!("{name}.yaml"));
            // Another case may have brought it already, or be bringing it right now.
            let _ = self
                .run(&format!("create -f {}", file.display()), None, "default")
                .await?;
            let wait = "wait --for=condition=Established --timeout=20s -f";
            self.must(&format!("{wait} {}", file.display())).await?;
        }
        let mut all = Vec::new();
        for step in &case.steps {
            let command = step.run.replace("${ns}", &case.id);
            let input = step
                .input
                .as_ref()
                .map(|input| input.replace("${ns}", &case.id));
            let printed = self.run(&command, input, &case.id).await?;
            ensure!(
                printed.success != step.fails,
                "kubectl {command} printed: {}",
                printed.output
            );
            let words = step
                .says
                .as_ref()
                .map(|words| words.replace("${ns}", &case.id));
            if let Some(words) = words {
                let said = printed.output.contains(&words);
                ensure!(
                    said,
                    "kubectl {command} does not print {words:?}: {}",
                    printed.output
                );
            }
            all.push(printed);
        }
        Ok(all)
    }

    async fn must(&self, command: &str) -> Result<()> {
        let printed = self.run(command, None, "default").await?;
        ensure!(printed.success, "kubectl {command}: {}", printed.output);
        Ok(())
    }

    async fn run(&self, command: &str, input: Option<String>, namespace: &str) -> Result<Printed> {
        let mut child = tokio::process::Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache)
            .args(["--namespace", namespace])
            .args(words(command))
            .env("COLUMNS", "200")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting kubectl")?;
        if let Some(mut stdin) = child.stdin.take() {
            // kubectl may end before it has read everything; its own words say why.
            let _ = stdin.write_all(input.unwrap_or_default().as_bytes()).await;
        }
        let output = child.wait_with_output().await?;
        let text = [output.stdout, output.stderr].concat();
        Ok(Printed {
            command: command.to_owned(),
            success: output.status.success(),
            output: normalised(&String::from_utf8_lossy(&text)),
        })
    }
}

/// Splits at spaces outside of single quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in command.split('\'').enumerate() {
        let starts_word = part.starts_with(' ') || words.is_empty();
        if index % 2 == 1 {
            // A quoted part continues the word that it stands in.
            match words.last_mut() {
                Some(last) => *last = format!("{last}{part}"),
                None => words.push(part.to_owned()),
            }
            continue;
        }
        let mut pieces = part
            .split(' ')
            .filter(|piece| !piece.is_empty())
            .map(str::to_owned);
        if !starts_word && let (Some(last), Some(piece)) = (words.last_mut(), pieces.next()) {
            last.push_str(&piece);
        }
        words.extend(pieces);
        if part.ends_with(' ') {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

macro_rules! patterns {
    ($($name:ident = $text:literal => $sign:literal,)*) => {
        #[allow(clippy::unwrap_used, reason = "constants, exercised by every test")]
        static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> =
            LazyLock::new(|| vec![$((Regex::new($text).unwrap(), $sign)),*]);
    };
}

patterns! {
    // What kubectl logs about itself depends on its own timing: a watch that its deadline ends early, for one.
    LOG = r"(?m)^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n" => "",
    UID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}" => "<uid>",
    TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z" => "<time>",
    LONG_TIME = r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}" => "<time>",
    ADDRESS = r"(https?://)?127\.0\.0\.1:\d+" => "<address>",
    VERSION = r#"([rR]esource ?[vV]ersion"?: *"?)\d+"# => "$1<rv>",
    AGE = r"\b(\d+d)?(\d+h)?(\d+m)?\d+s\b" => "<age>",
    SPACES = r"[ \t]+" => " ",
    ENDS = r"(?m) $" => "",
}

fn normalised(text: &str) -> String {
    PATTERNS
        .iter()
        .fold(text.to_owned(), |text, (pattern, sign)| {
            pattern.replace_all(&text, *sign).into_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_as_a_shell_would() {
        assert_eq!(words("get pods -n x"), ["get", "pods", "-n", "x"]);
        assert_eq!(
            words("patch cm a -p '{\"a\": 1}' -v"),
            ["patch", "cm", "a", "-p", "{\"a\": 1}", "-v"]
        );
        assert_eq!(
            words("get -o jsonpath='{.a b}'"),
            ["get", "-o", "jsonpath={.a b}"]
        );
    }

    #[test]
    fn ages_and_widths_are_forgiven_and_words_are_not() {
        assert_eq!(
            normalised("NAME   AGE\na      2m5s \n"),
            "NAME AGE\na <age>\n"
        );
        assert_eq!(
            normalised("Resource Version:  17\n"),
            "Resource Version: <rv>\n"
        );
        assert_eq!(normalised("pods \"a\" not found"), "pods \"a\" not found");
        assert_eq!(
            normalised("I1115 14:17:23.363987 8576 reflector.go:571] \"Warning\"\nerror: late\n"),
            "error: late\n"
        );
    }
}
