//! The simulated cloud of our own, with faults at its calls.

use std::sync::Arc;
use std::time::Duration;

use joiner_embedded::clock::Clock;
use joiner_providers::{MachineId, Provider};
use joiner_sim::clouds::faulty::{FaultRates, Faults, Faulty};
use joiner_sim::clouds::sim::{self, Rack, SimCloud, SimCloudOptions};

use super::{Counting, Subject};

pub(crate) struct Sim {
    cloud: SimCloud,
    provider: Faulty<SimCloud>,
}

impl Sim {
    pub(crate) fn open() -> Box<dyn Subject> {
        let rack: Arc<dyn Rack> = Arc::new(Counting::default());
        let options = SimCloudOptions::calm(sim::built_in(), 1);
        let cloud = SimCloud::new(options, Clock::virtual_time(), rack);
        let runner = cloud.clone();
        tokio::spawn(async move { runner.run().await });
        let provider = Faulty::new(cloud.clone(), Faults::new(FaultRates::default(), 1));
        Box::new(Sim { cloud, provider })
    }
}

impl Subject for Sim {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn truth(&self) -> usize {
        self.cloud.machines().len()
    }

    fn lose_next_answer(&self) {
        let always = FaultRates {
            lost: 10_000,
            ..FaultRates::default()
        };
        self.provider.faults().change(always);
        let faults = self.provider.faults().clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            faults.change(FaultRates::default());
        });
    }

    fn sell_out(&self) {
        self.cloud.change(|options| {
            let types = options.catalog.types.iter_mut();
            for offering in types.flat_map(|kind| kind.offerings.iter_mut()) {
                offering.available = false;
            }
        });
    }

    fn plant_foreign(&self) -> Option<MachineId> {
        None
    }

    fn break_list(&self) -> bool {
        false
    }
}
