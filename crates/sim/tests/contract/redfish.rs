//! Bare metal by Redfish.

use std::sync::Arc;
use std::time::Duration;

use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_embedded::clock::Clock;
use joiner_providers::http::Http;
use joiner_providers::rackspace::Clock as Now;
use joiner_providers::redfish::{
    Access, BootOptions, Credentials, HostOptions, PowerOffOptions, Redfish, RedfishOptions,
};
use joiner_providers::{MachineId, MemoryLedger, Owner, Provider};
use joiner_sim::clouds::rackspace::CallFault;
use joiner_sim::clouds::redfish::{HostSetup, Model, RedfishFleet};

use super::{Counting, Subject};

pub(crate) struct OnRedfish {
    fleet: RedfishFleet,
    provider: Redfish,
}

const BMCS: [&str; 4] = ["10.0.9.11", "10.0.9.12", "10.0.9.13", "10.0.9.14"];

impl OnRedfish {
    pub(crate) fn open() -> Box<dyn Subject> {
        let clock = Clock::virtual_time();
        let fleet = RedfishFleet::new(clock.clone(), Arc::new(Counting::default()));
        let hosts = BMCS.map(|bmc| {
            fleet.add(HostSetup::new(bmc, Model::plain()));
            HostOptions {
                name: format!("metal-{bmc}").into(),
                address: format!("https://{bmc}"),
                system_path: None,
                system_uuid: None,
                serial_number: None,
                node_name: None,
                capacity: Resources::new().with(CPU, 16_000).with(MEMORY, 64 << 30),
                labels: Labels::new(),
                price: Money::from_dollars(0.02),
                access: Access {
                    credentials: Arc::new(Credentials {
                        username: "admin".into(),
                        password: "sim-password".into(),
                    }),
                    http: Http::new(fleet.router()),
                    unverified: false,
                },
                boot: BootOptions::default(),
                power_off: PowerOffOptions::default(),
            }
        });
        let runner = fleet.clone();
        tokio::spawn(async move { runner.run().await });
        let options = RedfishOptions {
            catalog: "racks".into(),
            hosts: hosts.into(),
            fallback: None,
            allowed_hosts: Vec::new(),
            registration_timeout: Duration::from_mins(20),
        };
        let owner = Owner {
            cluster: "cluster-1".into(),
            family: "karpenter".into(),
        };
        let now: Now = Arc::new(move || clock.now());
        let ledger = Arc::new(MemoryLedger::default());
        let provider = Redfish::new(options, owner, ledger, Arc::default(), now).unwrap();
        Box::new(OnRedfish { fleet, provider })
    }
}

impl Subject for OnRedfish {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn truth(&self) -> usize {
        self.fleet.powered()
    }

    fn lose_next_answer(&self) {
        let reset = format!("POST {}/redfish/v1/Systems", BMCS[0]);
        self.fleet.fail(&reset, CallFault::Lost, 1);
    }

    fn sell_out(&self) {
        for bmc in BMCS {
            self.fleet
                .change(bmc, |setup| setup.health = "Critical".into());
        }
    }

    fn plant_foreign(&self) -> Option<MachineId> {
        self.fleet.occupy(BMCS[3]);
        let name = "00000000-0000-4000-8000-00000000beef";
        Some(MachineId(
            format!("redfish://{}/Systems/1#{name}", BMCS[3]).into(),
        ))
    }

    fn break_list(&self) -> bool {
        false
    }
}
