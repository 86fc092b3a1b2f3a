//! The paths of the API.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::ext::ReasonPhrase;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::cluster::{Cluster, Vm};
use super::params::{self, Params};
use super::tasks::{Effect, TaskSim};
use super::{CallFault, Inner, ProxmoxCloud, ProxmoxCloudOptions};

/// The largest body that is taken.
const BODY: usize = 512 * 1024;
/// Where the API begins.
const ROOT: &str = "/api2/json";

/// A refusal: status, reason phrase, and what is wrong with which field.
struct Refused(u16, String, BTreeMap<String, String>);

impl Refused {
    fn new(status: u16, reason: impl Into<String>) -> Self {
        Refused(status, reason.into(), BTreeMap::new())
    }
}

type Answer = Result<Value, Refused>;

pub(super) fn router(cloud: ProxmoxCloud) -> Router {
    Router::new().fallback(any).with_state(cloud)
}

async fn any(State(cloud): State<ProxmoxCloud>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let full = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let Some(path) = full.strip_prefix(ROOT) else {
        return (StatusCode::NOT_FOUND, "no such file").into_response();
    };
    let line = format!("{} {path}", parts.method);
    let fault = {
        let mut inner = cloud.lock();
        inner.calls.push(line.clone());
        inner.take_fault(&line)
    };
    match fault {
        Some(CallFault::Refused(status, reason)) => {
            return refuse(&cloud, &Refused::new(status, reason));
        }
        Some(CallFault::Field(field, text)) => {
            let reason = "Parameter verification failed.".to_owned();
            return refuse(
                &cloud,
                &Refused(400, reason, BTreeMap::from([(field, text)])),
            );
        }
        Some(CallFault::Says(status, body)) => {
            cloud.lock().cluster.say("says", &body);
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            return (status, body).into_response();
        }
        Some(CallFault::Hangs) => {
            cloud.lock().cluster.say("hangs", "no answer");
            return std::future::pending().await;
        }
        Some(CallFault::Lost | CallFault::Late(..)) | None => {}
    }
    let token = parts
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let json = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/json"));
    let Ok(body) = to_bytes(body, BODY).await else {
        return refuse(&cloud, &Refused::new(501, "for data too large"));
    };
    if let Some(CallFault::Late(status, takes)) = fault {
        let (path, token) = (path.to_owned(), token.map(str::to_owned));
        let (cloud, method) = (cloud.clone(), parts.method.clone());
        let late = cloud.clone();
        tokio::spawn(async move {
            tokio::time::sleep(takes).await;
            let _ = handle(&late, &method, &path, token.as_deref(), json, &body);
            late.act();
            late.changed.notify_one();
        });
        return refuse(&cloud, &Refused::new(status, "Connection timed out"));
    }
    let answer = handle(&cloud, &parts.method, path, token, json, &body);
    cloud.act();
    cloud.lock().count_sold();
    cloud.changed.notify_one();
    if fault == Some(CallFault::Lost) {
        cloud.lock().cluster.say("lost", parts.method.as_str());
        return (StatusCode::GATEWAY_TIMEOUT, "the answer is lost").into_response();
    }
    match answer {
        Ok(data) => axum::Json(json!({"data": data})).into_response(),
        Err(refused) => refuse(&cloud, &refused),
    }
}

/// The text is in the reason phrase, and in newer versions in the body too.
fn refuse(cloud: &ProxmoxCloud, refused: &Refused) -> Response {
    let Refused(status, reason, errors) = refused;
    let named = errors
        .iter()
        .fold(reason.clone(), |mut said, (field, text)| {
            let _ = write!(said, " {field}: {text}");
            said
        });
    cloud.lock().cluster.say(&status.to_string(), &named);
    let mut body = json!({"data": null});
    if cloud.lock().options.messages {
        body["message"] = json!(format!("{reason}\n"));
    }
    if !errors.is_empty() {
        body["errors"] = json!(errors);
    }
    let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = Response::new(Body::from(body.to_string()));
    *answer.status_mut() = status;
    if let Ok(phrase) = ReasonPhrase::try_from(reason.as_bytes()) {
        answer.extensions_mut().insert(phrase);
    }
    answer
}

fn handle(
    cloud: &ProxmoxCloud,
    method: &Method,
    path: &str,
    token: Option<&str>,
    json: bool,
    body: &Bytes,
) -> Answer {
    let now = cloud.clock.now();
    let mut inner = cloud.lock();
    let inner = &mut *inner;
    let (id, secret) = &inner.options.token;
    if token != Some(format!("PVEAPIToken={id}={secret}").as_str()) {
        return Err(Refused::new(401, "Authentication failed!"));
    }
    let user = id.clone();
    inner.cluster.settle(&mut inner.options, now);
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let writes = matches!(*method, Method::POST | Method::PUT);
    if !writes && !body.is_empty() {
        return Err(Refused::new(
            501,
            format!("Unexpected content for method '{method}'"),
        ));
    }
    let mut given = params::form(query);
    if writes {
        let text = String::from_utf8_lossy(body);
        let more = if json {
            params::json(body)
        } else {
            Some(params::form(&text))
        };
        given.extend(more.ok_or_else(|| Refused::new(400, "malformed JSON string"))?);
    }
    let decoded: Vec<String> = path.split('/').skip(1).map(params::decode).collect();
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    let unknown = || Refused::new(501, format!("Method '{method} {path}' not implemented"));
    if let ["nodes", host, rest @ ..] = segments.as_slice() {
        let found = inner.options.hosts.get(*host).ok_or_else(|| {
            let text = format!("hostname lookup '{host}' failed - failed to get address info for: {host}: Name or service not known");
            Refused::new(500, text)
        })?;
        if !found.online {
            return Err(Refused::new(595, "No route to host"));
        }
        if *method != Method::GET && !inner.cluster.quorum {
            return Err(Refused::new(500, "cluster not ready - no quorum?"));
        }
        let call = Call {
            host,
            now,
            user: &user,
            given,
        };
        return on_host(inner, method, rest, &call).unwrap_or_else(|| Err(unknown()));
    }
    let answer = match (method, segments.as_slice()) {
        (&Method::GET, ["version"]) => {
            json!({"version": "9.1.1", "release": "9.1", "repoid": "5f3a8b2c"})
        }
        (&Method::GET, ["access", "permissions"]) => permissions(),
        (&Method::GET, ["cluster", "status"]) => status(inner),
        (&Method::GET, ["cluster", "resources"]) => {
            resources(inner, given.get("type").map(String::as_str), now)
        }
        (&Method::GET, ["cluster", "nextid"]) => return next_id(&inner.cluster, &given),
        (&Method::GET, ["nodes"]) => Value::Array(host_rows(&inner.options)),
        (&Method::GET, ["pools"]) => json!([]),
        _ => return Err(unknown()),
    };
    Ok(answer)
}

fn permissions() -> Value {
    let all = [
        "VM.Audit",
        "VM.Allocate",
        "VM.Clone",
        "VM.PowerMgmt",
        "VM.Config.Disk",
        "VM.Config.CPU",
        "VM.Config.Memory",
        "VM.Config.Network",
        "VM.Config.Options",
        "VM.Config.HWType",
        "VM.Config.Cloudinit",
        "VM.Config.CDROM",
        "Sys.Audit",
        "Datastore.AllocateSpace",
        "Datastore.Audit",
        "SDN.Use",
    ];
    let granted: BTreeMap<&str, u8> = all.into_iter().map(|one| (one, 1)).collect();
    json!({"/": granted, "/vms": granted, "/nodes": granted, "/storage": granted})
}

fn status(inner: &mut Inner) -> Value {
    if !inner.cluster.quorum {
        inner.cluster.say("status", "not quorate");
    }
    let hosts = &inner.options.hosts;
    let mut rows = vec![
        json!({"type": "cluster", "id": "cluster", "name": inner.options.cluster, "version": 3,
        "nodes": hosts.len(), "quorate": u8::from(inner.cluster.quorum)}),
    ];
    rows.extend(hosts.iter().enumerate().map(|(index, (name, host))| {
        json!({"type": "node", "id": format!("node/{name}"), "name": name, "nodeid": index + 1,
            "online": u8::from(host.online), "local": u8::from(index == 0), "ip": format!("10.0.4.{}", 30 + index)})
    }));
    Value::Array(rows)
}

fn host_rows(options: &ProxmoxCloudOptions) -> Vec<Value> {
    options
        .hosts
        .iter()
        .map(|(name, host)| {
            let status = if host.online { "online" } else { "offline" };
            let mut row = json!({"id": format!("node/{name}"), "type": "node", "node": name, "status": status,
                "maxcpu": host.cpus, "maxmem": host.memory});
            if host.online {
                row["cpu"] = json!(0.1);
                row["mem"] = json!(host.memory / 8);
            }
            row
        })
        .collect()
}

fn resources(inner: &Inner, kind: Option<&str>, now: Timestamp) -> Value {
    let options = &inner.options;
    let mut rows = Vec::new();
    if kind.is_none_or(|kind| kind == "node") {
        rows.extend(host_rows(options));
    }
    if kind.is_none_or(|kind| kind == "vm") {
        rows.extend(inner.cluster.vms.iter().map(|(vmid, vm)| {
            let mut row = vm.row(*vmid, now, Some(options.lag));
            if options.hosts.get(&vm.node).is_some_and(|host| !host.online) {
                row["status"] = json!("unknown");
            }
            row
        }));
    }
    if kind.is_none_or(|kind| kind == "storage") {
        for (name, storage) in &options.storages {
            rows.extend(options.hosts.iter().map(|(host, at)| {
                let status = if at.online { "available" } else { "unknown" };
                json!({"id": format!("storage/{host}/{name}"), "type": "storage", "storage": name, "node": host,
                    "status": status, "content": "images,rootdir", "shared": u8::from(storage.shared),
                    "disk": storage.used_on(host), "maxdisk": storage.bytes})
            }));
        }
    }
    Value::Array(rows)
}

fn next_id(cluster: &Cluster, given: &Params) -> Answer {
    if let Some(asked) = given.get("vmid") {
        let vmid: u32 = asked.parse().unwrap_or_default();
        if cluster.vms.contains_key(&vmid) {
            let errors = BTreeMap::from([("vmid".to_owned(), format!("VM {vmid} already exists"))]);
            return Err(Refused(
                400,
                "Parameter verification failed.".to_owned(),
                errors,
            ));
        }
        return Ok(json!(asked));
    }
    let free = (100..1_000_000).find(|vmid| !cluster.vms.contains_key(vmid));
    Ok(json!(free.unwrap_or_default().to_string()))
}

/// A call about one host.
struct Call<'a> {
    host: &'a str,
    now: Timestamp,
    user: &'a str,
    given: Params,
}

impl Call<'_> {
    /// The end of a task that gets no lock on its storage in time, if too much is being made there.
    fn waits_for_lock(&self, inner: &Inner, vmid: u32, effect: Effect) -> Option<String> {
        let most = inner.options.makes_at_once?;
        let vm = inner.cluster.vms.get(&vmid)?;
        let makes = matches!(effect, Effect::Created | Effect::Cloned);
        let others = inner.cluster.made_at_once(self.host, &vm.config);
        (makes && others >= most).then(|| {
            "can't lock file '/var/lock/pve-manager/pve-storage-local-zfs' - got timeout".to_owned()
        })
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "an answer among others that may be refusals"
    )]
    fn begin(
        &self,
        inner: &mut Inner,
        kind: &str,
        vmid: u32,
        effect: Effect,
        takes: Duration,
    ) -> Answer {
        let task = TaskSim {
            kind: kind.to_owned(),
            vmid,
            node: self.host.to_owned(),
            due: self.now.checked_add(takes).unwrap_or(self.now),
            effect,
            fails: self.waits_for_lock(inner, vmid, effect),
            end: None,
        };
        Ok(json!(inner.cluster.begin(task, self.user, self.now)))
    }
}

fn on_host(inner: &mut Inner, method: &Method, rest: &[&str], call: &Call<'_>) -> Option<Answer> {
    Some(match (method, rest) {
        (&Method::GET, ["status"]) => {
            let host = inner.options.hosts.get(call.host)?;
            Ok(
                json!({"memory": {"total": host.memory, "used": host.memory / 8}, "cpuinfo": {"cpus": host.cpus}}),
            )
        }
        (&Method::GET, ["network"]) => {
            let bridges = inner.options.hosts.get(call.host)?.bridges.iter();
            let rows: Vec<Value> = bridges
                .map(|name| json!({"iface": name, "type": "bridge", "active": 1}))
                .collect();
            Ok(Value::Array(rows))
        }
        (&Method::GET, ["qemu"]) => {
            let own = inner
                .cluster
                .vms
                .iter()
                .filter(|(_, vm)| vm.node == call.host);
            Ok(Value::Array(
                own.map(|(vmid, vm)| vm.row(*vmid, call.now, None))
                    .collect(),
            ))
        }
        (&Method::POST, ["qemu"]) => create(inner, call),
        (&Method::GET, ["tasks"]) => {
            let own = inner
                .cluster
                .tasks
                .iter()
                .filter(|(_, task)| task.node == call.host);
            Ok(Value::Array(
                own.map(
                    |(upid, task)| json!({"upid": upid, "type": task.kind, "status": task.end}),
                )
                .collect(),
            ))
        }
        (&Method::GET, ["tasks", upid, what]) => task(inner, upid, what),
        (method, ["qemu", vmid, rest @ ..]) => {
            let vmid: u32 = vmid.parse().ok()?;
            let there = inner
                .cluster
                .vms
                .get(&vmid)
                .is_some_and(|vm| vm.node == call.host);
            if !there {
                let text = format!(
                    "Configuration file 'nodes/{}/qemu-server/{vmid}.conf' does not exist",
                    call.host
                );
                return Some(Err(Refused::new(500, text)));
            }
            if *method != Method::GET && rest != ["clone"] {
                inner.cluster.touched.push(vmid);
            }
            return on_machine(inner, method, vmid, rest, call);
        }
        _ => return None,
    })
}

fn task(inner: &Inner, upid: &str, what: &str) -> Answer {
    let task = inner
        .cluster
        .tasks
        .get(upid)
        .ok_or_else(|| Refused::new(400, "no such task"))?;
    if what == "log" {
        let last = match task.end.as_deref() {
            None => "running".to_owned(),
            Some("OK") => "TASK OK".to_owned(),
            Some(error) => format!("TASK ERROR: {error}"),
        };
        return Ok(json!([{"n": 1, "t": last}]));
    }
    let mut answer = json!({"upid": upid, "node": task.node, "type": task.kind, "id": task.vmid.to_string(),
        "status": if task.end.is_some() { "stopped" } else { "running" }});
    if let Some(end) = &task.end {
        answer["exitstatus"] = json!(end);
    }
    Ok(answer)
}

fn checked(given: &Params) -> Result<(), Refused> {
    let errors = params::problems(given);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Refused(
        400,
        "Parameter verification failed.".to_owned(),
        errors,
    ))
}

fn create(inner: &mut Inner, call: &Call<'_>) -> Answer {
    checked(&call.given)?;
    let vmid = u32::try_from(params::number(&call.given, "vmid", 0)).unwrap_or_default();
    if !(100..=999_999_999).contains(&vmid) {
        let errors = BTreeMap::from([(
            "vmid".to_owned(),
            "property is missing and it is not optional".to_owned(),
        )]);
        return Err(Refused(
            400,
            "Parameter verification failed.".to_owned(),
            errors,
        ));
    }
    if let Some(other) = inner.cluster.vms.get(&vmid) {
        let text = format!(
            "unable to create VM {vmid} - VM {vmid} already exists on node '{}'",
            other.node
        );
        return Err(Refused::new(500, text));
    }
    for (storage, _) in params::drives(&call.given) {
        if !inner.options.storages.contains_key(&storage) {
            return Err(Refused::new(
                500,
                format!("storage '{storage}' does not exist"),
            ));
        }
    }
    let mut config = call.given.clone();
    config.remove("vmid");
    config
        .entry("smbios1".to_owned())
        .or_insert_with(|| format!("uuid=00000000-0000-4000-8000-{vmid:012}"));
    let mut vm = Vm::made(call.host, tidy(config), false);
    vm.made = Some(call.now);
    vm.lock = Some("create".to_owned());
    inner.cluster.vms.insert(vmid, vm);
    let takes = inner.options.creates_within;
    call.begin(inner, "qmcreate", vmid, Effect::Created, takes)
}

/// Tags in lower case and in order, as Proxmox keeps them.
fn tidy(mut config: Params) -> Params {
    if let Some(tags) = config.get_mut("tags") {
        let mut all: Vec<String> = tags.split(';').map(str::to_ascii_lowercase).collect();
        all.sort();
        *tags = all.join(";");
    }
    config
}

fn clone_of(inner: &mut Inner, vmid: u32, call: &Call<'_>) -> Answer {
    let newid = u32::try_from(params::number(&call.given, "newid", 0)).unwrap_or_default();
    if inner.cluster.vms.contains_key(&newid) {
        return Err(Refused::new(
            500,
            format!("unable to create VM {newid}: config file already exists"),
        ));
    }
    let template = inner
        .cluster
        .vms
        .get(&vmid)
        .cloned()
        .ok_or_else(|| Refused::new(500, "gone"))?;
    let target = call.given.get("target").map_or(call.host, String::as_str);
    let mut config = template.config.clone();
    config.remove("template");
    for key in ["name", "description"] {
        if let Some(value) = call.given.get(key) {
            config.insert(key.to_owned(), value.clone());
        }
    }
    let shared = params::drives(&config).iter().all(|(name, _)| {
        inner
            .options
            .storages
            .get(name)
            .is_some_and(|one| one.shared)
    });
    if target != call.host && !shared {
        let text = format!("can't clone VM to node '{target}' (VM uses local storage)");
        return Err(Refused::new(500, text));
    }
    config.insert(
        "smbios1".to_owned(),
        format!("uuid=c10e0000-0000-4000-8000-{newid:012}"),
    );
    let mut vm = Vm::made(target, config, false);
    vm.made = Some(call.now);
    vm.lock = Some("clone".to_owned());
    inner.cluster.vms.insert(newid, vm);
    let takes = inner.options.clones_within;
    call.begin(inner, "qmclone", newid, Effect::Cloned, takes)
}

fn on_machine(
    inner: &mut Inner,
    method: &Method,
    vmid: u32,
    rest: &[&str],
    call: &Call<'_>,
) -> Option<Answer> {
    let options = &inner.options;
    let (starts, destroys) = (options.starts_within, options.destroys_within);
    let vm = inner.cluster.vms.get_mut(&vmid)?;
    Some(match (method, rest) {
        (&Method::GET, ["config"]) => {
            // A number is taken by writing nothing but a lock; the rest follows when the machine is made.
            let claimed = vm.lock.as_deref() == Some("create");
            let mut config = if claimed { json!({}) } else { json!(vm.config) };
            config["digest"] = json!(digest(&vm.config));
            if let Some(lock) = &vm.lock {
                config["lock"] = json!(lock);
            }
            Ok(config)
        }
        (&Method::GET, ["status", "current"]) => {
            let status = if vm.running { "running" } else { "stopped" };
            let mut row = vm.row(vmid, call.now, None);
            row["status"] = json!(status);
            let qmp = vm.qmp.as_deref().filter(|_| vm.running);
            row["qmpstatus"] = json!(qmp.unwrap_or(status));
            row["ha"] = json!({"managed": u8::from(vm.ha)});
            Ok(row)
        }
        (&Method::PUT | &Method::POST, ["config"]) => {
            if let Some(lock) = &vm.lock {
                return Some(Err(Refused::new(500, format!("VM is locked ({lock})"))));
            }
            if let Err(refused) = checked(&call.given) {
                return Some(Err(refused));
            }
            vm.config.extend(tidy(call.given.clone()));
            Ok(Value::Null)
        }
        (&Method::PUT, ["resize"]) => {
            let disk = call.given.get("disk").cloned().unwrap_or_default();
            let asked = call
                .given
                .get("size")
                .and_then(|text| text.strip_suffix('G'))
                .map(str::to_owned);
            if let (Some(value), Some(gib)) = (vm.config.get_mut(&disk), asked) {
                let storage = value.split(':').next().unwrap_or_default().to_owned();
                *value = format!("{storage}:{gib}");
            }
            call.begin(
                inner,
                "resize",
                vmid,
                Effect::Nothing,
                Duration::from_secs(1),
            )
        }
        (&Method::POST, ["clone"]) => clone_of(inner, vmid, call),
        (&Method::POST, ["status", "start"]) => {
            call.begin(inner, "qmstart", vmid, Effect::Started, starts)
        }
        (&Method::POST, ["status", "stop" | "shutdown"]) if vm.ha => call.begin(
            inner,
            "hastop",
            vmid,
            Effect::StopAsked,
            Duration::from_secs(1),
        ),
        (&Method::POST, ["status", "stop" | "shutdown"]) => {
            call.begin(inner, "qmstop", vmid, Effect::Stopped, starts)
        }
        (&Method::DELETE, []) => destroy(inner, vmid, call, destroys),
        _ => return None,
    })
}

fn destroy(inner: &mut Inner, vmid: u32, call: &Call<'_>, takes: Duration) -> Answer {
    let busy = inner.cluster.at_work(vmid);
    let Some(vm) = inner.cluster.vms.get_mut(&vmid) else {
        return Err(Refused::new(500, "gone"));
    };
    if vm.running {
        return Err(Refused::new(
            500,
            format!("VM {vmid} is running - destroy failed"),
        ));
    }
    if vm.config.get("protection").is_some_and(|text| text == "1") {
        return Err(Refused::new(
            500,
            format!("can't remove VM {vmid} - protection mode enabled"),
        ));
    }
    if vm.ha && call.given.get("purge").is_none_or(|text| text != "1") {
        let text = format!(
            "unable to remove VM {vmid} - used in HA resources and purge parameter not set."
        );
        return Err(Refused::new(500, text));
    }
    if busy {
        let text =
            format!("can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout");
        return Err(Refused::new(500, text));
    }
    call.begin(inner, "qmdestroy", vmid, Effect::Destroyed, takes)
}

fn digest(config: &Params) -> String {
    let sum = config
        .iter()
        .flat_map(|(key, value)| key.bytes().chain(value.bytes()));
    let sum = sum.fold(7_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let mut text = String::new();
    for part in 0..5_u64 {
        let _ = write!(
            text,
            "{:08x}",
            (sum.rotate_left(u32::try_from(part).unwrap_or(0) * 9)) & 0xffff_ffff
        );
    }
    text
}
