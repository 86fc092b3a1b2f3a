//! A case as written in `differential/*.yaml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

/// The cases of one file.
#[derive(Debug)]
pub struct Subject {
    /// The file's name without its ending.
    pub name: String,
    /// Its cases, in the order of the file.
    pub cases: Vec<Case>,
}

/// One behaviour.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A sentence that says what must be so.
    pub name: String,
    /// A short unique word, which is also the name of the case's namespace. Given by [`load`].
    #[serde(skip)]
    pub id: String,
    /// Custom resource definitions that must be established first: names of files in `differential/crds`.
    #[serde(default)]
    pub crds: Vec<String>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One request, or a look at a watch that an earlier step opened.
///
/// In every string, `${ns}` stands for the namespace of the case and `${x}` for what an earlier step saved as `x`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// `METHOD /path?query`.
    #[serde(default)]
    pub r#do: Option<String>,
    /// The body, sent as JSON.
    #[serde(default)]
    pub body: Option<Value>,
    /// The body, sent as it stands.
    #[serde(default)]
    pub text: Option<String>,
    /// A body of this many bytes: a config map with one long value.
    #[serde(default)]
    pub size: Option<usize>,
    /// Breaks the connection after this many bytes of the body, so that there is no answer.
    #[serde(default)]
    pub cut: Option<usize>,
    /// The body's type: `json`, `yaml`, `json-patch`, `merge`, `strategic`, `apply`, or a media type.
    #[serde(default)]
    pub r#type: Option<String>,
    /// More headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The status that the answer must have; 200 or 201 when nothing is said.
    #[serde(default)]
    pub expect: Option<u16>,
    /// Words that must stand in the answer: proof that it is the answer the case is about.
    #[serde(default)]
    pub says: Option<String>,
    /// Compares only this part of the answer: names and `key=value` steps into lists, separated by slashes.
    #[serde(default)]
    pub look: Option<String>,
    /// Variables to take from the answer, by JSON pointer.
    #[serde(default)]
    pub save: BTreeMap<String, String>,
    /// Keeps the answer open as a watch of this name.
    #[serde(default)]
    pub open: Option<String>,
    /// Reads from the watch of this name instead of sending a request.
    #[serde(default)]
    pub read: Option<String>,
    /// How many events to read from a watch; without it, all of them until the server ends the answer.
    #[serde(default)]
    pub events: Option<usize>,
    /// Relations between saved variables: `a < b`, `a = b`, `a != b` (as whole numbers where both are).
    #[serde(default)]
    pub check: Vec<String>,
    /// Asks again until the answer is as expected: for what a server does soon, but not at once.
    #[serde(default)]
    pub eventually: bool,
    /// Does not compare the message of a refusal, where it is known to hold a server's own words; says why.
    #[serde(default)]
    pub words_differ_because: Option<String>,
    /// Sorts the causes of a refusal before they are compared, where even one server gives them in any order; says why.
    #[serde(default)]
    pub causes_in_any_order_because: Option<String>,
}

/// Reads every case in `directory`, sorted by file name.
pub fn load(directory: &Path) -> Result<Vec<Subject>> {
    let mut files: Vec<_> = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .filter(|path| !matches!(path, Ok(path) if path.extension().is_none_or(|e| e != "yaml")))
        .collect::<Result<_>>()?;
    files.sort();
    let mut subjects = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for path in files {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path)?;
        let mut cases: Vec<Case> =
            serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        for (index, case) in cases.iter_mut().enumerate() {
            case.id = format!("{name}-{:02}", index + 1);
            ensure!(
                names.insert(case.name.clone()),
                "two cases are called {:?}",
                case.name
            );
            ensure!(!case.steps.is_empty(), "{:?} has no steps", case.name);
        }
        subjects.push(Subject { name, cases });
    }
    Ok(subjects)
}

/// The definitions that `case` needs, from `directory`.
pub(super) fn definitions(directory: &Path, case: &Case) -> Result<Vec<Value>> {
    case.crds
        .iter()
        .map(|name| {
            let path = directory.join("crds").join(format!("{name}.yaml"));
            let text = fs::read_to_string(&path)
                .with_context(|| format!("{:?} needs {}", case.name, path.display()))?;
            Ok(serde_saphyr::from_str(&text)?)
        })
        .collect()
}
