//! Proxmox VE.

use std::sync::Arc;

use joiner_embedded::clock::Clock;
use joiner_providers::http::{Endpoint, Http};
use joiner_providers::proxmox::{ApiToken, IdRange, Interface, Proxmox, ProxmoxOptions};
use joiner_providers::rackspace::Clock as Now;
use joiner_providers::{MachineId, Owner, Provider};
use joiner_sim::clouds::proxmox::{CallFault, ProxmoxCloud, ProxmoxCloudOptions};

use super::{Counting, Subject};

pub(crate) struct OnProxmox {
    cloud: ProxmoxCloud,
    provider: Proxmox,
}

impl OnProxmox {
    pub(crate) fn open() -> Box<dyn Subject> {
        let clock = Clock::virtual_time();
        let options = ProxmoxCloudOptions::of_hosts(2);
        let cloud = ProxmoxCloud::new(options, clock.clone(), Arc::new(Counting::default()));
        let runner = cloud.clone();
        tokio::spawn(async move { runner.run().await });
        let owner = Owner {
            cluster: "cluster-1".into(),
            family: "karpenter".into(),
        };
        let token = ApiToken {
            id: "joiner@pve!sim".to_owned(),
            secret: "sim-token-secret".into(),
        };
        let api = Endpoint::parse("https://pve.example.com:8006/api2/json", &[]).unwrap();
        let ids = IdRange {
            first: 1250,
            last: 1300,
        };
        let mut options = ProxmoxOptions::new(owner, api, Arc::new(token), ids, "joiner");
        options.interfaces.push(Interface {
            name: "net0".to_owned(),
            model: "virtio".to_owned(),
            bridge: "vmbr0".to_owned(),
            vlan: None,
            mac_prefix: None,
        });
        let now: Now = Arc::new(move || clock.now());
        let provider = Proxmox::new(Http::new(cloud.router()), options, now).unwrap();
        Box::new(OnProxmox { cloud, provider })
    }
}

impl Subject for OnProxmox {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn truth(&self) -> usize {
        let all = self.cloud.machines();
        all.keys().filter(|vmid| **vmid >= 1000).count()
    }

    fn lose_next_answer(&self) {
        for method in ["POST", "DELETE"] {
            let call = format!("{method} /nodes/");
            self.cloud.fail(&call, CallFault::Lost, 1);
        }
    }

    fn sell_out(&self) {
        for (vmid, host) in [(500, "pve1"), (501, "pve2")] {
            let config = [("name", "big"), ("memory", "65536"), ("cores", "16")];
            self.cloud.plant(vmid, host, &config, true);
        }
    }

    fn plant_foreign(&self) -> Option<MachineId> {
        // In our range, with our tag and the name of a node.
        let config = [("name", "node-1"), ("tags", "joiner"), ("memory", "2048")];
        self.cloud.plant(1255, "pve1", &config, true);
        let id = "proxmox://sim/vms/1255/0b5cbbe1-0000-4000-8000-00000000beef";
        Some(MachineId(id.into()))
    }

    fn break_list(&self) -> bool {
        let call = "GET /cluster/resources?type=vm";
        let fault = CallFault::Refused(500, "got timeout".to_owned());
        self.cloud.fail(call, fault, 1);
        true
    }
}
