"""Starts sushy-tools' emulator with two fake systems behind one account.

usage: emulator.py DIRECTORY PORT
"""

import os
import sys

import bcrypt

directory, port = sys.argv[1], int(sys.argv[2])
htpasswd = os.path.join(directory, "htpasswd")
config = os.path.join(directory, "emulator.conf")
with open(htpasswd, "w") as file:
    file.write("admin:" + bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode() + "\n")
systems = [
    {"uuid": "%d1111111-1111-4111-8111-111111111111" % number, "name": "metal-%d" % number,
     "power_state": "Off", "nics": [{"mac": "52:54:00:aa:00:0%d" % number, "ip": "10.0.0.1%d" % number}]}
    for number in (1, 2)
]
with open(config, "w") as file:
    file.write(f"""
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_AUTH_FILE = {htpasswd!r}
SUSHY_EMULATOR_STATE_DIR = {directory!r}
SUSHY_EMULATOR_FAKE_SYSTEMS = {systems!r}
""")
emulator = os.path.join(os.path.dirname(sys.executable), "sushy-emulator")
os.execv(emulator, [emulator, "--config", config])
