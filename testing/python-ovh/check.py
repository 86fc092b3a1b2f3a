"""Talks to an OVHcloud API with OVHcloud's own Python client.

Usage: check.py URL APPLICATION_KEY APPLICATION_SECRET CONSUMER_KEY PROJECT CLUSTER
Prints "ok" if every call is accepted, and fails otherwise.
"""
import sys

import ovh
from ovh import client as ovh_client

url, key, secret, consumer, project, cluster = sys.argv[1:]
ovh_client.ENDPOINTS["sim"] = url
api = ovh.Client(endpoint="sim", application_key=key, application_secret=secret, consumer_key=consumer)
base = f"/cloud/project/{project}/kube/{cluster}"

assert api.get(base)["id"] == cluster
flavors = api.get(f"/cloud/project/{project}/capabilities/kube/flavors", region=api.get(base)["region"])
assert any(flavor["name"] == "b3-8" for flavor in flavors)
pool = api.post(
    f"{base}/nodepool",
    name="by-python",
    flavorName="b3-8",
    desiredNodes=1,
    availabilityZones=["eu-west-par-a"],
    template={
        "metadata": {"labels": {}, "annotations": {}, "finalizers": []},
        "spec": {"taints": [], "unschedulable": False},
    },
)
api.put(f"{base}/nodepool/{pool['id']}", desiredNodes=0)
assert any(one["name"] == "by-python" for one in api.get(f"{base}/nodepool"))

wrong = ovh.Client(endpoint="sim", application_key=key, application_secret="not-the-secret", consumer_key=consumer)
try:
    wrong.get(base)
except ovh.exceptions.APIError as error:
    assert "signature" in str(error).lower(), error
else:
    raise AssertionError("a wrong signature was accepted")
try:
    api.get(f"{base}/node")
except ovh.exceptions.APIError as error:
    assert "granted" in str(error), error
else:
    raise AssertionError("a call outside of the rules was granted")
print("ok")
