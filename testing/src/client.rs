//! A small HTTP client for one API server: no types, no retries, no cleverness, so that a test sees what was said.

use anyhow::{Context as _, Result, bail};
use reqwest::{Method, RequestBuilder, header};
use serde_json::Value;

/// Speaks to one API server.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

impl Client {
    /// A client for a server that speaks plain HTTP.
    pub fn plain(base: impl Into<String>) -> Result<Self> {
        let http = Self::builder().build()?;
        Ok(Self {
            http,
            base: base.into(),
            token: None,
        })
    }

    /// A client for a server whose certificate stands in, or is signed by one in, `certificates` (PEM).
    pub fn secure(base: impl Into<String>, certificates: &[u8], token: &str) -> Result<Self> {
        let roots = reqwest::Certificate::from_pem_bundle(certificates)?;
        let http = Self::builder().tls_certs_only(roots).build()?;
        Ok(Self {
            http,
            base: base.into(),
            token: Some(token.to_owned()),
        })
    }

    fn builder() -> reqwest::ClientBuilder {
        // HTTP/1.1 on both servers of a comparison; the name becomes the default field manager.
        reqwest::Client::builder()
            .http1_only()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent("joiner-testing/1")
    }

    /// A request to `path`, which begins with a slash.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends an object and returns the answer; anything but success is an error that holds the server's words.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut request = self.request(method.clone(), path);
        if let Some(body) = body {
            let text = serde_json::to_vec(body)?;
            request = request
                .header(header::CONTENT_TYPE, "application/json")
                .body(text);
        }
        let answer = request
            .send()
            .await
            .with_context(|| format!("{method} {path}"))?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            bail!("{method} {path}: {status}: {text}");
        }
        serde_json::from_str(&text).with_context(|| format!("{method} {path} answered {text:?}"))
    }

    /// Reads `path`.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, None).await
    }
}
