//! What is done to a system: its next boot, its power, its asset tag.

use serde_json::{Map, Value, json};

use super::client::Bmc;
use super::options::{BootOptions, BootOverride};
use super::quirks::{self, Platform};
use super::types::{Boot, Power, System};
use crate::ProviderError;
use crate::http::Reply;

/// Why a system cannot boot as it is asked to, if so.
pub(super) fn unable(system: &System, platform: Platform, boot: &BootOptions) -> Option<String> {
    if boot.override_ == BootOverride::None {
        return None;
    }
    let shown = &system.boot;
    if !shown.is_shown() {
        return (!platform.keeps_boot_in_settings()).then(|| {
            "its BMC has no boot override; set boot.override to None and put the network first in its boot order".to_owned()
        });
    }
    let target: &str = boot.target.into();
    if let Some(targets) = &shown.targets
        && !targets.is_empty()
        && !targets.iter().any(|one| one == target)
    {
        let all = targets.join(", ");
        return Some(format!(
            "boot.target {target} is not among what its BMC allows ({all})"
        ));
    }
    let mode: &str = boot.mode?.into();
    if shown.mode.as_deref() == Some(mode) {
        return None;
    }
    let allowed = shown.modes.as_ref().filter(|modes| !modes.is_empty());
    if allowed.is_some_and(|modes| !modes.iter().any(|one| one == mode)) {
        let all = allowed.map(|modes| modes.join(", ")).unwrap_or_default();
        return Some(format!(
            "boot.mode {mode} is not among what its BMC allows ({all})"
        ));
    }
    match &shown.mode {
        None => Some(format!(
            "boot.mode {mode} cannot be set: its BMC shows no boot mode; leave boot.mode out"
        )),
        Some(present) if platform.refuses_boot_mode() => Some(format!(
            "boot.mode {mode} cannot be set: its BMC does not let the mode be changed from {present}; change it in the firmware's setup, or leave boot.mode out"
        )),
        Some(_) => None,
    }
}

/// Whether the mode is part of a boot change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SendMode {
    Yes,
    No,
}

fn boot_change(boot: &BootOptions, shown: &Boot, mode: SendMode) -> Value {
    let target: &str = boot.target.into();
    let enabled: &str = boot.override_.into();
    let mut change = Map::new();
    change.insert("BootSourceOverrideEnabled".to_owned(), json!(enabled));
    change.insert("BootSourceOverrideTarget".to_owned(), json!(target));
    let wanted: Option<&str> = boot.mode.map(Into::into);
    if mode == SendMode::Yes
        && let Some(mode) = wanted.or(shown.mode.as_deref())
    {
        change.insert("BootSourceOverrideMode".to_owned(), json!(mode));
    }
    if let Some(uri) = &boot.http_boot_uri {
        change.insert("HttpBootUri".to_owned(), json!(uri));
    }
    json!({ "Boot": change })
}

fn is_armed(boot: &BootOptions, shown: &Boot) -> bool {
    let target: &str = boot.target.into();
    let enabled: &str = boot.override_.into();
    let mode: Option<&str> = boot.mode.map(Into::into);
    shown.target.as_deref() == Some(target)
        && shown
            .enabled
            .as_deref()
            .is_some_and(|shown| quirks::counts_as(enabled, shown))
        && (mode.is_none() || shown.mode.is_none() || shown.mode.as_deref() == mode)
}

/// Where boot overrides are, their version, and what they are now.
async fn boot_of(
    bmc: &Bmc,
    platform: Platform,
) -> Result<(String, Option<String>, Boot), ProviderError> {
    let system = bmc.system().await?;
    if let Some(path) = system
        .settings
        .as_ref()
        .filter(|_| platform.keeps_boot_in_settings())
    {
        let (body, etag) = bmc.read(path).await?;
        let body =
            json!({"PowerState": "Off", "Boot": body["Boot"], "@odata.etag": body["@odata.etag"]});
        let settings = System::read(path, &body, etag);
        if let Some(settings) = settings {
            return Ok((path.clone(), settings.etag, settings.boot));
        }
    }
    Ok((system.path, system.etag, system.boot))
}

/// Makes the next boot come from the network, and sees that it took.
pub(super) async fn arm(bmc: &Bmc, boot: &BootOptions) -> Result<(), ProviderError> {
    if boot.override_ == BootOverride::None {
        return Ok(());
    }
    let platform = platform(bmc).await?;
    for _ in 0..2 {
        let (path, etag, shown) = boot_of(bmc, platform).await?;
        let wanted: Option<&str> = boot.mode.map(Into::into);
        let changes = wanted.is_some() && wanted != shown.mode.as_deref();
        let first = if !platform.refuses_boot_mode() && (platform.wants_whole_boot() || changes) {
            SendMode::Yes
        } else {
            SendMode::No
        };
        let change = boot_change(boot, &shown, first);
        let mut reply = bmc.patch(&path, etag.as_deref(), &change).await?;
        if quirks::wants_other_properties(&reply) && !quirks::is_busy(&reply) && !changes {
            // Some boards lack the mode and refuse it, some demand it: what it is now cannot be wrong.
            let other = if first == SendMode::Yes {
                SendMode::No
            } else {
                SendMode::Yes
            };
            let change = boot_change(boot, &shown, other);
            reply = bmc.patch(&path, None, &change).await?;
        }
        if !reply.status.is_success() {
            return Err(bmc.refusal(&reply));
        }
        let (_, _, shown) = boot_of(bmc, platform).await?;
        if is_armed(boot, &shown) {
            return Ok(());
        }
    }
    Err(bmc.transient("its BMC accepts the boot override and does not keep it"))
}

/// Takes the override back, as far as the BMC lets us: it must not outlive the machine, and does no harm if it does.
pub(super) async fn disarm(bmc: &Bmc, boot: &BootOptions) {
    if boot.override_ == BootOverride::None {
        return;
    }
    let Ok(platform) = platform(bmc).await else {
        return;
    };
    let Ok((path, etag, shown)) = boot_of(bmc, platform).await else {
        return;
    };
    if shown
        .enabled
        .as_deref()
        .is_none_or(|enabled| enabled == "Disabled")
    {
        return;
    }
    let target: &str = boot.target.into();
    // iLO and others want the target kept, some the mode repeated: from the least to the most.
    let mut changes = vec![
        json!({"BootSourceOverrideEnabled": "Disabled"}),
        json!({"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": target}),
    ];
    if let Some(mode) = &shown.mode {
        changes.push(
            json!({"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": target,
            "BootSourceOverrideMode": mode}),
        );
    }
    for change in changes {
        match bmc
            .patch(&path, etag.as_deref(), &json!({ "Boot": change }))
            .await
        {
            Ok(reply) if quirks::wants_other_properties(&reply) => {}
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(%error, "boot override stays");
                return;
            }
        }
    }
}

/// Asks for power. `Ok` once the BMC has accepted it, or the system is on.
pub(super) async fn on(bmc: &Bmc, system: &System) -> Result<(), ProviderError> {
    let kinds = ["On", "ForceOn", "PushPowerButton"];
    let kind = kinds.into_iter().find(|kind| system.allows(kind));
    let kind = kind.ok_or_else(|| bmc.invalid("its BMC offers no reset that powers it on"))?;
    reset(bmc, system, kind, Power::On).await
}

/// Whether a graceful shutdown can be asked for.
pub(super) fn can_shut_down(system: &System) -> bool {
    system.allows("GracefulShutdown")
}

/// Asks the operating system to shut down.
pub(super) async fn shut_down(bmc: &Bmc, system: &System) -> Result<(), ProviderError> {
    reset(bmc, system, "GracefulShutdown", Power::Off).await
}

/// Cuts power.
pub(super) async fn force_off(bmc: &Bmc, system: &System) -> Result<(), ProviderError> {
    reset(bmc, system, "ForceOff", Power::Off).await
}

async fn reset(bmc: &Bmc, system: &System, kind: &str, goal: Power) -> Result<(), ProviderError> {
    let default = || {
        format!(
            "{}/Actions/ComputerSystem.Reset",
            system.path.trim_end_matches('/')
        )
    };
    let target = system.reset_target.clone().unwrap_or_else(default);
    let reply: Reply = bmc.post(&target, &json!({ "ResetType": kind })).await?;
    if reply.status.is_success() {
        return Ok(());
    }
    if quirks::may_be_there_already(&reply) && bmc.system().await?.power == goal {
        return Ok(());
    }
    Err(bmc.refusal(&reply))
}

/// Writes the asset tag where there is one: a hint for people and for other clusters, never relied on.
pub(super) async fn tag(bmc: &Bmc, system: &System, text: &str) {
    if system
        .asset_tag
        .as_deref()
        .is_none_or(|present| present == text)
    {
        return;
    }
    let change = json!({ "AssetTag": text });
    match bmc
        .patch(&system.path, system.etag.as_deref(), &change)
        .await
    {
        Ok(reply) if reply.status.is_success() => {}
        Ok(reply) => tracing::debug!(status = %reply.status, "asset tag is not writable"),
        Err(error) => tracing::debug!(%error, "asset tag could not be written"),
    }
}

async fn platform(bmc: &Bmc) -> Result<Platform, ProviderError> {
    if let Some(platform) = bmc.platform().await {
        return Ok(platform);
    }
    bmc.system().await?;
    let known = bmc.platform().await;
    known.ok_or_else(|| bmc.transient("its BMC cannot be told apart yet"))
}

#[cfg(test)]
mod tests {
    use super::super::options::{BootMode, BootTarget};
    use super::*;

    fn system(boot: &Value, manufacturer: &str) -> (System, Platform) {
        let body = json!({"PowerState": "Off", "Boot": boot, "Manufacturer": manufacturer});
        let system = System::read("/redfish/v1/Systems/1", &body, None).unwrap();
        let platform = Platform::of(&json!({}), &system);
        (system, platform)
    }

    #[test]
    fn a_host_that_cannot_boot_as_asked_says_so() {
        let legacy = BootOptions {
            mode: Some(BootMode::Legacy),
            ..BootOptions::default()
        };
        let http = BootOptions {
            target: BootTarget::UefiHttp,
            ..BootOptions::default()
        };
        let pxe = json!({"BootSourceOverrideTarget": "None", "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe"]});
        let uefi = json!({"BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI",
            "BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI"]});
        let any = json!({"BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI"});
        for (boot, options, vendor, says) in [
            (
                &pxe,
                &http,
                "",
                "boot.target UefiHttp is not among what its BMC allows (None, Pxe)",
            ),
            (
                &uefi,
                &legacy,
                "",
                "boot.mode Legacy is not among what its BMC allows (UEFI)",
            ),
            (&pxe, &legacy, "", "its BMC shows no boot mode"),
            (
                &any,
                &legacy,
                "HPE",
                "does not let the mode be changed from UEFI",
            ),
            (&json!({}), &http, "", "has no boot override"),
        ] {
            let (system, platform) = system(boot, vendor);
            let said = unable(&system, platform, options).unwrap();
            assert!(said.contains(says), "{said}");
        }
        let (system, platform) = system(&any, "Dell");
        assert_eq!(unable(&system, platform, &legacy), None);
        let none = BootOptions {
            override_: BootOverride::None,
            ..legacy
        };
        assert_eq!(unable(&system, platform, &none), None);
    }

    #[test]
    fn a_boot_change_names_the_mode_only_when_told_to() {
        let boot = BootOptions {
            mode: Some(BootMode::Uefi),
            ..BootOptions::default()
        };
        let shown = Boot {
            mode: Some("Legacy".into()),
            ..Boot::default()
        };
        assert_eq!(
            boot_change(&boot, &shown, SendMode::Yes),
            json!({"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe",
                "BootSourceOverrideMode": "UEFI"}})
        );
        let plain = BootOptions::default();
        assert_eq!(
            boot_change(&plain, &shown, SendMode::No),
            json!({"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}})
        );
        let shown = Boot {
            target: Some("Pxe".into()),
            enabled: Some("Continuous".into()),
            ..Boot::default()
        };
        assert!(is_armed(&plain, &shown));
    }
}
