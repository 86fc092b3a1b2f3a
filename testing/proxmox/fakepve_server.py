"""Serves fakepve, a Proxmox VE that others wrote, until standard input ends.

Prints one line: the port and the SHA-256 fingerprint of its certificate.
"""

import asyncio
import hashlib
import pathlib
import socket
import sys
import tempfile

from fakepve import FakePve
from fakepve.certs import make_cert


async def main() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        cert, key, der = make_cert(pathlib.Path(folder), hosts=("127.0.0.1",))
        pve = FakePve(host="127.0.0.1", port=port)
        pve.time_scale = 0.2
        for node in ("n1", "n2"):
            pve.add_node(node)
        pve.apitokens["joiner@pve!t"] = "third-party-secret"
        await pve.start(str(cert), str(key))
        digest = hashlib.sha256(der).hexdigest().upper()
        fingerprint = ":".join(digest[at : at + 2] for at in range(0, 64, 2))
        print(port, fingerprint, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
