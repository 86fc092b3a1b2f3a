//! Collects the field numbers of Kubernetes' protobuf messages, so that the embedded API server can
//! read what kubectl sends in that form.
//!
//! Input is the folder that holds the Go modules (`$(go env GOMODCACHE)/k8s.io`). Output is one line
//! per message and one per field: `number name type`, where `[]` before the type is a list and `{}`
//! a map with text keys.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use flate2::{Compression, GzBuilder};

const API_GROUPS: [&str; 17] = [
    "admissionregistration/v1",
    "apps/v1",
    "authentication/v1",
    "authorization/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "coordination/v1",
    "core/v1",
    "discovery/v1",
    "events/v1",
    "networking/v1",
    "node/v1",
    "policy/v1",
    "rbac/v1",
    "scheduling/v1",
    "storage/v1",
];

/// Reads the modules of one version and writes the asset.
pub(crate) fn collect(modules: &Path, version: &str, into: &Path) -> anyhow::Result<()> {
    let mut messages = BTreeMap::new();
    for file in files(modules, version) {
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        read_messages(&text, &mut messages)
            .with_context(|| format!("cannot understand {}", file.display()))?;
    }
    let mut lines = String::new();
    for (name, fields) in messages {
        lines.push_str(&name);
        lines.push('\n');
        for field in fields {
            lines.push_str(&field);
            lines.push('\n');
        }
    }
    fs::create_dir_all(into)?;
    let target = fs::File::create(into.join("fields.txt.gz"))?;
    // No time and no name in the header: the same input gives the same bytes.
    let mut writer = GzBuilder::new().mtime(0).write(target, Compression::best());
    writer.write_all(lines.as_bytes())?;
    writer.finish()?;
    Ok(())
}

fn files(modules: &Path, version: &str) -> Vec<PathBuf> {
    let api = modules.join(format!("api@{version}"));
    let machinery = modules.join(format!("apimachinery@{version}/pkg"));
    let mut files: Vec<PathBuf> = API_GROUPS
        .iter()
        .map(|group| api.join(group).join("generated.proto"))
        .collect();
    for package in [
        "api/resource",
        "apis/meta/v1",
        "runtime",
        "runtime/schema",
        "util/intstr",
    ] {
        files.push(machinery.join(package).join("generated.proto"));
    }
    files
}

fn read_messages(text: &str, messages: &mut BTreeMap<String, Vec<String>>) -> anyhow::Result<()> {
    let mut package = String::new();
    let mut current: Option<(String, Vec<String>)> = None;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix("package ") {
            name.trim_end_matches(';').clone_into(&mut package);
        } else if let Some(name) = line.strip_prefix("message ") {
            current = Some((
                format!("{package}.{}", name.trim_end_matches(" {")),
                Vec::new(),
            ));
        } else if line == "}" {
            messages.extend(current.take());
        } else if let (Some((_, fields)), true) = (&mut current, line.ends_with(';')) {
            fields.extend(read_field(line.trim_end_matches(';'), &package)?);
        }
    }
    Ok(())
}

/// A field as the asset writes it; `None` for lines that only reserve names.
fn read_field(line: &str, package: &str) -> anyhow::Result<Option<String>> {
    if line.starts_with("reserved") {
        return Ok(None);
    }
    let Some((declaration, number)) = line.rsplit_once(" = ") else {
        bail!("no number in {line:?}")
    };
    let Some((kind, name)) = declaration.rsplit_once(' ') else {
        bail!("no name in {line:?}")
    };
    let kind = if let Some(map) = kind
        .strip_prefix("map<string, ")
        .and_then(|rest| rest.strip_suffix('>'))
    {
        format!("{{}}{}", full_name(map, package))
    } else if let Some(item) = kind.strip_prefix("repeated ") {
        format!("[]{}", full_name(item, package))
    } else {
        full_name(kind.trim_start_matches("optional "), package)
    };
    Ok(Some(format!("{number} {name} {kind}")))
}

fn full_name(kind: &str, package: &str) -> String {
    match kind.strip_prefix('.') {
        Some(absolute) => absolute.to_owned(),
        None if kind.starts_with(|c: char| c.is_ascii_uppercase()) => format!("{package}.{kind}"),
        None => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_lines() {
        let text = "package a.b;\n// note\nmessage X {\n  // 1;\n  optional string s = 1;\n  repeated Y ys = 2;\n\
                    map<string, bytes> data = 3;\n  optional .c.Z z = 4;\n}\n";
        let mut messages = BTreeMap::new();
        read_messages(text, &mut messages).unwrap();
        assert_eq!(
            messages["a.b.X"],
            ["1 s string", "2 ys []a.b.Y", "3 data {}bytes", "4 z c.Z"]
        );
    }
}
