//! Classes, good and bad.

use std::collections::BTreeMap;

use jiff::Timestamp;
use joiner_providers::{MemoryLedger, Owner};

use super::*;
use crate::record::ClassKey;

struct Drawer(BTreeMap<&'static str, &'static str>);

#[async_trait]
impl Secrets for Drawer {
    async fn get(&self, namespace: &str, name: &str, key: &str) -> Result<String, String> {
        let found = self
            .0
            .get(key)
            .filter(|_| (namespace, name) == ("here", "creds"));
        found
            .map(|text| (*text).to_owned())
            .ok_or_else(|| format!("secret {namespace}/{name} has no key {key:?}"))
    }
}

fn good() -> Value {
    json!({
        "credentialsSecretRef": {"name": "creds"},
        "proxmox": {
            "endpoint": "https://10.0.4.30:8006/api2/json",
            "vmIDRange": {"lower": 1250, "upper": 1300},
            "managedNodeTag": "joiner",
            "networkInterfaces": [{"name": "net0", "model": "virtio", "bridge": "vmbr0", "vlanTag": 20, "macPrefix": "02:00:00"}],
            "vmOptions": [{"name": "cpu", "value": "host"}, {"name": "balloon", "value": 0}, {"name": "onboot", "value": true}],
        }
    })
}

async fn build(
    spec: Value,
    more: &[(&'static str, &'static str)],
) -> Result<Arc<dyn Provider>, ProviderError> {
    let mut keys = BTreeMap::from([(TOKEN_ID, "joiner@pve!j\n"), (SECRET, "s3cr3t\n")]);
    keys.extend(more.iter().copied());
    let secrets: Arc<dyn Secrets> = Arc::new(Drawer(keys));
    let class = ClassRecord {
        key: ClassKey {
            group: "joiner.dev".into(),
            kind: "ProxmoxNodeClass".into(),
            namespace: "".into(),
            name: "racks".into(),
        },
        uid: "u".into(),
        version: 1,
        generation: 1,
        deleting: false,
        finalizers: Vec::new(),
        ready: None,
        spec: Arc::new(spec),
    };
    let site = ClassSite {
        secrets: &*secrets,
        owner: Owner {
            cluster: "c".into(),
            family: "karpenter".into(),
        },
        ledger: Arc::new(MemoryLedger::default()),
    };
    let classes = ProxmoxClasses::new(
        Arc::clone(&secrets),
        "here",
        Arc::new(|| Timestamp::UNIX_EPOCH),
    );
    classes.build(&class, &site).await
}

#[tokio::test]
async fn a_class_as_documented_becomes_a_provider() {
    let provider = build(good(), &[]).await.unwrap();
    assert_eq!(provider.name(), "proxmox");
    assert_eq!(provider.concern().await, None);
}

#[tokio::test]
async fn whoever_skips_verification_is_told() {
    let concern =
        |provider: Arc<dyn Provider>| async move { provider.concern().await.unwrap_or_default() };
    let mut spec = good();
    spec["proxmox"]["tls"] = json!({"insecureSkipVerify": true});
    let said = concern(build(spec.clone(), &[]).await.unwrap()).await;
    assert!(said.contains("any certificate"), "{said}");
    let said = concern(build(good(), &[(SKIP_VERIFY, "true")]).await.unwrap()).await;
    assert!(said.contains("any certificate"), "{said}");
    spec["proxmox"]["tls"]["sha256Fingerprint"] = json!(["AB"; 32].join(":"));
    assert_eq!(
        concern(build(spec, &[]).await.unwrap()).await,
        "",
        "a fingerprint is verification"
    );
    let error = build(good(), &[(SKIP_VERIFY, "maybe")])
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("PROXMOX_SKIP_TLS_VERIFY \"maybe\""),
        "{error}"
    );
}

#[tokio::test]
async fn what_cannot_work_is_refused_by_field() {
    let cases: [(&str, Value, &str); 9] = [
        ("/credentialsSecretRef/name", json!("other"), "here/other"),
        (
            "/credentialsSecretRef/name",
            json!(""),
            "credentialsSecretRef.name",
        ),
        (
            "/proxmox/endpoint",
            json!("https://127.0.0.1:8006"),
            "spec.proxmox.endpoint",
        ),
        (
            "/proxmox/endpoint",
            json!("http://10.0.4.30:8006"),
            "must begin with https://",
        ),
        (
            "/proxmox/vmIDRange",
            json!({"lower": 5, "upper": 9}),
            "spec.proxmox.vmIDRange",
        ),
        (
            "/proxmox/managedNodeTag",
            json!("Joiner"),
            "spec.proxmox.managedNodeTag",
        ),
        (
            "/proxmox/networkInterfaces/0/bridge",
            json!(""),
            "spec.proxmox.networkInterfaces[0].bridge",
        ),
        (
            "/proxmox/vmOptions/0",
            json!({"name": "args", "value": "-x"}),
            "spec.proxmox.vmOptions: \"args\" may not be set",
        ),
        (
            "/proxmox/vmOptions/0",
            json!({"name": "cpu", "value": {}}),
            "write text, a number or a truth value",
        ),
    ];
    for (pointer, value, expected) in cases {
        let mut spec = good();
        *spec.pointer_mut(pointer).unwrap() = value;
        let said = build(spec, &[])
            .await
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(said.contains(expected), "{pointer}: {said:?}");
        assert!(!said.contains("s3cr3t"), "{said}");
    }
    let mut spec = good();
    spec["proxmox"]["tls"] = json!({"sha256Fingerprint": "AB"});
    let said = build(spec, &[]).await.err().unwrap().to_string();
    assert!(said.contains("spec.proxmox.tls"), "{said}");
    let mut spec = good();
    spec["price"] = json!({"perCore": "cheap"});
    let said = build(spec, &[]).await.err().unwrap().to_string();
    assert!(said.contains("spec.price.perCore"), "{said}");
    let mut spec = good();
    spec["registrationTimeout"] = json!("soon");
    let said = build(spec, &[]).await.err().unwrap().to_string();
    assert!(said.contains("spec.registrationTimeout"), "{said}");
}
