"""Drives a BMC with OpenStack's client: finds its system, arms the network for the next boot, powers it on and off.

usage: drive.py URL USERNAME PASSWORD
"""

import sys
import time

import sushy
from sushy import auth

url, username, password = sys.argv[1:4]
login = auth.SessionAuth(username, password)
root = sushy.Sushy(url, auth=login, verify=False)
(system,) = root.get_system_collection().get_members()


def wait(state):
    for _ in range(60):
        system.refresh(force=True)
        if system.power_state == state:
            return
        time.sleep(0.5)
    sys.exit(f"the system is {system.power_state}, not {state}")


assert system.power_state == sushy.PowerState.OFF, system.power_state
boot = {"target": sushy.BootSource.PXE, "enabled": sushy.BootSourceOverrideEnabled.ONCE}
try:
    system.set_system_boot_options(**boot)
except sushy.exceptions.BadRequestError:
    # As Ironic does for vendors that want every property named.
    system.set_system_boot_options(mode=sushy.BootSourceOverrideMode.UEFI, **boot)
system.refresh(force=True)
# Where overrides stand in the settings resource alone, the boot itself is the proof.
assert system.boot is None or system.boot.target in (None, sushy.BootSource.PXE), system.boot
system.reset_system(sushy.ResetType.ON)
wait(sushy.PowerState.ON)
system.reset_system(sushy.ResetType.FORCE_OFF)
wait(sushy.PowerState.OFF)
login.close()
print("ok", system.uuid, system.manufacturer)
