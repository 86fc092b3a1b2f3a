//! Playing a case on one server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use reqwest::{Method, Response, header};
use serde_json::{Value, json};

use super::case::{Case, Step, definitions};
use super::suite::broken_promise;
use super::text::{Variables, fill, fill_value};
use crate::Client;

/// How long an answer or the next event of a watch may take. A watch that is read for more events than come shows what
/// came after this time, so it is short enough to wait for and long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a server said to one step.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The step, as sent.
    pub request: String,
    /// The status, or 0 where no answer was waited for.
    pub status: u16,
    /// The headers that callers act on.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub content: Content,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum Content {
    /// A JSON value.
    Json(Value),
    /// The events of a watch.
    Events(Vec<Value>),
    /// Anything else.
    Text(String),
}

/// Plays cases on one server.
#[derive(Debug)]
pub struct Player {
    client: Client,
    directory: PathBuf,
}

/// The state of one case while it is played.
struct Stage<'a> {
    player: &'a Player,
    variables: Variables,
    watches: BTreeMap<String, Watch>,
}

/// An open watch: the answer and what was received of an unfinished line.
struct Watch {
    response: Response,
    buffer: Vec<u8>,
    head: (u16, BTreeMap<String, String>),
}

impl Player {
    /// `directory` is where the cases stand.
    pub fn new(client: Client, directory: &Path) -> Self {
        Self {
            client,
            directory: directory.to_owned(),
        }
    }

    /// Plays every step; the answers are as many as the steps.
    pub async fn play(&self, case: &Case) -> Result<Vec<Answer>> {
        self.prepare(case).await.context("preparing")?;
        let variables = Variables::from([("ns".to_owned(), case.id.clone())]);
        let mut stage = Stage {
            player: self,
            variables,
            watches: BTreeMap::new(),
        };
        let mut answers = Vec::new();
        for (index, step) in case.steps.iter().enumerate() {
            let answer = stage
                .step(step)
                .await
                .with_context(|| format!("step {}", index + 1))?;
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Makes the namespace of the case and the definitions that it needs.
    async fn prepare(&self, case: &Case) -> Result<()> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.id}});
        self.client
            .send(Method::POST, "/api/v1/namespaces", Some(&namespace))
            .await?;
        for definition in definitions(&self.directory, case)? {
            self.establish(&definition).await?;
        }
        Ok(())
    }

    async fn establish(&self, definition: &Value) -> Result<()> {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let request = self.client.request(Method::POST, path).json(definition);
        let status = request.send().await?.status().as_u16();
        ensure!(
            matches!(status, 201 | 409),
            "the definition was refused with {status}"
        );
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for version in spec["versions"].as_array().into_iter().flatten() {
            let (group, name) = (text(&spec["group"]), text(&version["name"]));
            let path = format!("/apis/{group}/{name}/{}", text(&spec["names"]["plural"]));
            let deadline = Instant::now() + PATIENCE;
            while self.client.get(&path).await.is_err() {
                ensure!(Instant::now() < deadline, "{path} is not served");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }
}

impl Stage<'_> {
    async fn step(&mut self, step: &Step) -> Result<Answer> {
        let deadline = Instant::now() + PATIENCE;
        let answer = loop {
            let answer = match (&step.r#do, &step.read) {
                (Some(line), None) => self.request(step, line).await?,
                (None, Some(name)) => self.read(step, name).await?,
                _ => bail!("a step has either `do` or `read`"),
            };
            let as_promised = broken_promise(&self.variables["ns"], step, &answer).is_none();
            if !step.eventually || as_promised || Instant::now() > deadline {
                break answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        self.save(step, &answer)?;
        for relation in &step.check {
            self.check(relation)?;
        }
        Ok(answer)
    }

    async fn request(&mut self, step: &Step, line: &str) -> Result<Answer> {
        let line = fill(line, &self.variables)?;
        let (method, path) = line.split_once(' ').context("`do` is METHOD /path")?;
        let mut request = self
            .player
            .client
            .request(Method::from_bytes(method.as_bytes())?, path.trim());
        if let Some(body) = self.body(step)? {
            let kind = media_type(step.r#type.as_deref().unwrap_or("json"));
            request = request.header(header::CONTENT_TYPE, kind);
            request = match step.cut {
                Some(length) => cut(request, &body, length),
                None => request.body(body),
            };
        }
        for (name, value) in &step.headers {
            request = request.header(name, fill(value, &self.variables)?);
        }
        let sent = tokio::time::timeout(PATIENCE, request.send()).await;
        if step.cut.is_some() {
            ensure!(
                !matches!(sent, Ok(Ok(_))),
                "a request that was cut got an answer"
            );
            return Ok(silent(line));
        }
        let response = sent.context("no answer in time")??;
        let status = response.status().as_u16();
        let headers = telling_headers(&response);
        if let Some(name) = &step.open {
            let watch = Watch {
                response,
                buffer: Vec::new(),
                head: (status, headers.clone()),
            };
            self.watches.insert(name.clone(), watch);
            return Ok(Answer {
                request: line,
                status,
                headers,
                content: Content::Events(vec![]),
            });
        }
        if path.contains("watch=true") && status == 200 {
            let mut watch = Watch {
                response,
                buffer: Vec::new(),
                head: (status, headers),
            };
            return watch.answer(line, step.events).await;
        }
        let bytes = tokio::time::timeout(PATIENCE, response.bytes())
            .await
            .context("no end")??;
        Ok(Answer {
            request: line,
            status,
            headers,
            content: content(&bytes),
        })
    }

    fn body(&self, step: &Step) -> Result<Option<Vec<u8>>> {
        Ok(match (&step.body, &step.text, step.size) {
            (Some(body), None, None) => {
                Some(serde_json::to_vec(&fill_value(body, &self.variables)?)?)
            }
            (None, Some(text), None) => Some(fill(text, &self.variables)?.into_bytes()),
            (None, None, Some(size)) => Some(long_config_map(size)),
            (None, None, None) => None,
            _ => bail!("a step has one of `body`, `text` and `size`"),
        })
    }

    async fn read(&mut self, step: &Step, name: &str) -> Result<Answer> {
        let watch = self
            .watches
            .get_mut(name)
            .context("no such watch is open")?;
        watch.answer(format!("read {name}"), step.events).await
    }

    fn save(&mut self, step: &Step, answer: &Answer) -> Result<()> {
        for (name, pointer) in &step.save {
            let body = match &answer.content {
                Content::Json(body) => body.clone(),
                Content::Events(events) => Value::Array(events.clone()),
                Content::Text(_) => Value::Null,
            };
            let value = body.pointer(pointer).with_context(|| {
                format!(
                    "{} gave {} and nothing at {pointer}: {body}",
                    answer.request, answer.status
                )
            })?;
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            self.variables.insert(name.clone(), text);
        }
        Ok(())
    }

    fn check(&self, relation: &str) -> Result<()> {
        let words: Vec<&str> = relation.split_whitespace().collect();
        let [left, sign, right] = words[..] else {
            bail!("{relation:?} is not `a < b`")
        };
        let value = |name: &str| {
            self.variables
                .get(name)
                .cloned()
                .with_context(|| format!("no step saved {name}"))
        };
        let (left, right) = (value(left)?, value(right)?);
        let numbers = (left.parse::<u128>(), right.parse::<u128>());
        let holds = match (sign, numbers) {
            ("<", (Ok(left), Ok(right))) => left < right,
            ("=", _) => left == right,
            ("!=", _) => left != right,
            _ => bail!("{relation:?}: cannot compare {left:?} with {right:?}"),
        };
        ensure!(holds, "{relation:?} does not hold: {left:?}, {right:?}");
        Ok(())
    }
}

impl Watch {
    async fn answer(&mut self, request: String, wanted: Option<usize>) -> Result<Answer> {
        let mut events = Vec::new();
        while wanted.is_none_or(|wanted| events.len() < wanted) {
            match tokio::time::timeout(PATIENCE, self.next()).await {
                Ok(Some(event)) => events.push(event?),
                // Fewer events than asked for are an answer too: the comparison shows which are missing.
                Ok(None) | Err(_) => break,
            }
        }
        let (status, headers) = self.head.clone();
        Ok(Answer {
            request,
            status,
            headers,
            content: Content::Events(events),
        })
    }

    async fn next(&mut self) -> Option<Result<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).context("an event that is not JSON"));
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
                Ok(None) => return None,
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

fn content(bytes: &[u8]) -> Content {
    match serde_json::from_slice(bytes) {
        Ok(value) => Content::Json(value),
        Err(_) => Content::Text(String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// The headers that clients act on; the rest (dates, audit ids, priority levels) is a server's own affair.
fn telling_headers(response: &Response) -> BTreeMap<String, String> {
    ["content-type", "warning", "retry-after"]
        .into_iter()
        .filter_map(|name| {
            let values: Vec<_> = response.headers().get_all(name).iter().collect();
            let texts: Vec<&str> = values
                .iter()
                .filter_map(|value| value.to_str().ok())
                .collect();
            (!texts.is_empty()).then(|| (name.to_owned(), texts.join(" | ")))
        })
        .collect()
}

fn silent(request: String) -> Answer {
    let content = Content::Text(String::new());
    Answer {
        request,
        status: 0,
        headers: BTreeMap::new(),
        content,
    }
}

/// Announces the whole body, sends a part of it and breaks the connection.
fn cut(request: reqwest::RequestBuilder, body: &[u8], length: usize) -> reqwest::RequestBuilder {
    let part = body[..length.min(body.len())].to_vec();
    let broken = std::io::Error::new(std::io::ErrorKind::BrokenPipe, "cut on purpose");
    let pieces = futures::stream::iter([Ok(part), Err(broken)]);
    request
        .header(header::CONTENT_LENGTH, body.len())
        .body(reqwest::Body::wrap_stream(pieces))
}

fn media_type(kind: &str) -> &str {
    match kind {
        "json" => "application/json",
        "yaml" => "application/yaml",
        "json-patch" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    }
}

fn long_config_map(size: usize) -> Vec<u8> {
    let body = |value: String| {
        let metadata = json!({"name": "long"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value}})
    };
    let frame = body(String::new()).to_string().len();
    body("x".repeat(size.saturating_sub(frame)))
        .to_string()
        .into_bytes()
}
