"""Drives the simulated Proxmox VE with proxmoxer, a client that others wrote.

proxmoxer speaks TLS only and the simulation listens in the clear, so a forwarder stands in between; it changes no octet.
Usage: proxmoxer_drives_simulation.py PORT
"""

import asyncio
import pathlib
import ssl
import sys
import tempfile
import threading
import time

import urllib3
from fakepve.certs import make_cert
from proxmoxer import ProxmoxAPI, ResourceException
from proxmoxer.tools import Tasks

urllib3.disable_warnings()


def forward(target: int) -> int:
    """Ends TLS on a port of its own, passes everything on, and returns the port."""
    ready: "list[int]" = []
    started = threading.Event()

    async def pump(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader, writer):
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer), return_exceptions=True)

    async def main():
        with tempfile.TemporaryDirectory() as folder:
            cert, key, _ = make_cert(pathlib.Path(folder), hosts=("127.0.0.1",))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
            ready.append(server.sockets[0].getsockname()[1])
            started.set()
            await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
    started.wait(10)
    return ready[0]


def main() -> None:
    port = forward(int(sys.argv[1]))
    pve = ProxmoxAPI(
        "127.0.0.1", port=port, user="joiner@pve", token_name="sim", token_value="sim-token-secret", verify_ssl=False
    )
    assert pve.version.get()["version"].startswith("9.")
    assert [one["node"] for one in pve.nodes.get()] == ["pve1", "pve2"]
    assert pve.cluster.status.get()[0]["quorate"] == 1
    vmid = pve.cluster.nextid.get()
    assert vmid == "100", vmid

    def done(upid: str) -> None:
        assert Tasks.decode_upid(upid)["node"] == "pve1", upid
        status = Tasks.blocking_status(pve, upid, timeout=30, polling_interval=0.1)
        assert status["exitstatus"] == "OK", status

    machine = pve.nodes("pve1").qemu
    done(machine.post(vmid=vmid, name="third-party", memory=2048, cores=2, net0="virtio,bridge=vmbr0",
                      boot="order=net0;scsi0", scsi0="local-zfs:8", tags="b;a"))
    config = machine(vmid).config.get()
    assert config["boot"] == "order=net0;scsi0" and config["tags"] == "a;b" and config["digest"], config
    try:
        pve.nodes("pve2").qemu.post(vmid=vmid)
        raise AssertionError("the number is taken")
    except ResourceException as error:
        assert error.status_code == 500 and "already exists on node 'pve1'" in str(error), error
    try:
        machine.post(vmid=101, nonsense=1)
        raise AssertionError("there is no such option")
    except ResourceException as error:
        assert error.status_code == 400 and "nonsense" in str(error.errors), error
    machine(vmid).config.put(description="a=b;c & d", onboot=1)
    assert machine(vmid).config.get()["description"] == "a=b;c & d"
    done(machine(vmid).status.start.post())
    assert machine(vmid).status.current.get()["status"] == "running"
    try:
        machine(vmid).delete()
        raise AssertionError("it runs")
    except ResourceException as error:
        assert "is running - destroy failed" in str(error), error
    done(machine(vmid).status.stop.post())
    done(machine(vmid).delete(purge=1))
    for _ in range(50):
        if not pve.cluster.resources.get(type="vm"):
            break
        time.sleep(0.1)
    assert pve.cluster.resources.get(type="vm") == []
    try:
        machine(vmid).config.get()
        raise AssertionError("it is gone")
    except ResourceException as error:
        assert "does not exist" in str(error), error
    wrong = ProxmoxAPI(
        "127.0.0.1", port=port, user="joiner@pve", token_name="sim", token_value="wrong", verify_ssl=False
    )
    try:
        wrong.nodes.get()
        raise AssertionError("the token is wrong")
    except ResourceException as error:
        assert error.status_code == 401, error
    print("ok")


main()
