//! Folders that use each other in a circle cannot be read one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Modules whose children must not import each other in a circle: the file's folder, and the module's path.
const LAYERED: [(&str, &str); 1] = [("crates/core/src/pack", "crate::pack")];

/// Which children of a module use which others.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// A fault for each module whose children import each other in a circle.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for (folder, module) in LAYERED {
        let graph = graph(&root.join(folder), module)?;
        if let Some(circle) = circle(&graph) {
            faults.push(format!(
                "{folder}: modules import each other in a circle: {}",
                circle.join(" -> ")
            ));
        }
    }
    Ok(faults)
}

fn graph(folder: &Path, module: &str) -> Result<Graph> {
    let mut sources = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }
    let mut graph = Graph::new();
    for path in &sources {
        let inside: PathBuf = path.strip_prefix(folder)?.with_extension("");
        let names: Vec<String> = inside
            .iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        if names.last().is_some_and(|name| name == "tests") {
            continue;
        }
        let text = std::fs::read_to_string(path)?;
        let used = imports(&text, module, names.len());
        graph.entry(names[0].clone()).or_default().extend(used);
    }
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    for (name, used) in &mut graph {
        used.retain(|other| other != name && known.contains(other));
    }
    Ok(graph)
}

/// Children of a module that a source file names, as `module::child` or through as many `super` as the file is deep;
/// what stands in comments or in a test module does not count.
fn imports(text: &str, module: &str, depth: usize) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next();
    let code: Vec<&str> = text
        .unwrap_or_default()
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let code = code.join("\n");
    let above = vec!["super"; depth].join("::");
    let mut found = BTreeSet::new();
    for prefix in [format!("{module}::"), format!("{above}::")] {
        for (at, _) in code.match_indices(&prefix) {
            let qualified = code[..at].ends_with("::") || code[..at].ends_with(is_part);
            if !qualified {
                found.extend(names(&code[at + prefix.len()..]));
            }
        }
    }
    found
}

/// The name that a path goes on with, or the names of a list in braces.
fn names(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String { text.chars().take_while(|one| is_part(*one)).collect() };
    let Some(list) = rest.strip_prefix('{') else {
        return vec![name(rest)];
    };
    let (mut names, mut level) = (Vec::new(), 0);
    let mut start = 0;
    for (at, one) in list.char_indices() {
        match one {
            '{' => level += 1,
            ',' | '}' if level == 0 => {
                names.push(name(list[start..at].trim_start()));
                start = at + 1;
            }
            '}' => level -= 1,
            _ => {}
        }
        if one == '}' && level == 0 && start == at + 1 {
            break;
        }
    }
    names
}

fn is_part(one: char) -> bool {
    one.is_alphanumeric() || one == '_'
}

/// A circle of imports, its first member repeated at the end.
fn circle(graph: &Graph) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    graph
        .keys()
        .find_map(|name| walk(graph, name, &mut Vec::new(), &mut done))
}

fn walk(
    graph: &Graph,
    name: &str,
    path: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(start) = path.iter().position(|known| known == name) {
        let mut circle = path.split_off(start);
        circle.push(name.to_owned());
        return Some(circle);
    }
    if done.contains(name) {
        return None;
    }
    path.push(name.to_owned());
    for next in graph.get(name)? {
        if let Some(circle) = walk(graph, next, path, done) {
            return Some(circle);
        }
    }
    path.pop();
    done.insert(name.to_owned());
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_found_whichever_way_they_are_written() {
        let text = "use crate::pack::a::A;\nuse crate::pack::{b::{B, C}, d};\n\
                    use super::super::e::E;\nuse super::near::N;\n// crate::pack::f::F\nlet _ = crate::pack::g::g();\n\
                    #[cfg(test)]\nmod tests {\n    use crate::pack::h::H;\n}\n";
        let found: Vec<String> = imports(text, "crate::pack", 2).into_iter().collect();
        assert_eq!(found, ["a", "b", "d", "e", "g"]);
        let parent = imports("use super::a::A;", "crate::pack", 1);
        assert_eq!(parent.into_iter().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_circle_is_named_and_a_tree_is_not() {
        let graph = |edges: &[(&str, &str)]| {
            let mut graph = Graph::new();
            for (from, to) in edges {
                graph.entry((*from).to_owned()).or_default();
                graph.entry((*to).to_owned()).or_default();
                let used = graph.get_mut(*from).unwrap();
                used.insert((*to).to_owned());
            }
            graph
        };
        assert_eq!(circle(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
        let found = circle(&graph(&[("a", "b"), ("b", "c"), ("c", "b")])).unwrap();
        assert_eq!(found, ["b", "c", "b"]);
    }
}
