"""Asks the simulated EC2 at sys.argv[1] with botocore, and says what it understood, as JSON."""

import json
import sys

import botocore.session

ENDPOINT = sys.argv[1]
session = botocore.session.get_session()


def client(service, **more):
    return session.create_client(
        service,
        region_name="us-east-1",
        endpoint_url=ENDPOINT,
        aws_access_key_id="AKIASIMULATED",
        aws_secret_access_key=more.get("secret", "simulated-secret"),
    )


ec2 = client("ec2")
pages = list(ec2.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 100}))
types = [one for page in pages for one in page["InstanceTypes"]]
gpus = [one for one in types if "GpuInfo" in one]
g6f = next(one for one in gpus if one["InstanceType"] == "g6f.large")["GpuInfo"]["Gpus"][0]
offerings = [
    one
    for page in ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["g5.*"]}]
    )
    for one in page["InstanceTypeOfferings"]
]
prices = [
    one
    for page in ec2.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=["g5.xlarge", "g6.xlarge"], ProductDescriptions=["Linux/UNIX"]
    )
    for one in page["SpotPriceHistory"]
]
scores = ec2.get_spot_placement_scores(
    InstanceTypes=["g5.xlarge", "g6.xlarge", "g4dn.xlarge"],
    TargetCapacity=2,
    SingleAvailabilityZone=True,
    RegionNames=["us-east-1"],
)["SpotPlacementScores"]
regions = ec2.get_spot_placement_scores(
    InstanceTypes=["g5.xlarge", "g6.xlarge", "g4dn.xlarge"],
    TargetCapacity=2,
    RegionNames=["eu-central-1", "us-east-1"],
)["SpotPlacementScores"]
zones = ec2.describe_availability_zones()["AvailabilityZones"]
subnets = ec2.describe_subnets(Filters=[{"Name": "tag:a", "Values": ["b"]}])["Subnets"]
groups = ec2.describe_security_groups()["SecurityGroups"]
products = client("pricing").get_products(ServiceCode="AmazonEC2")["PriceList"]
try:
    client("ec2", secret="wrong").describe_availability_zones()
    refused = ""
except Exception as error:  # botocore makes a class for each service
    refused = error.response["Error"]["Code"]

print(
    json.dumps(
        {
            "pages": len(pages),
            "types": len(types),
            "gpus": len(gpus),
            "g6f": [g6f["Count"], g6f["LogicalGpuCount"], g6f["GpuPartitionSize"]],
            "offerings": len(offerings),
            "prices": len(prices),
            "price": min(float(one["SpotPrice"]) for one in prices),
            "scores": [one["AvailabilityZoneId"] for one in scores],
            "regions": {one["Region"]: [one["Score"], "AvailabilityZoneId" in one] for one in regions},
            "zones": {one["ZoneId"]: one["ZoneName"] for one in zones},
            "subnets": len(subnets),
            "groups": len(groups),
            "products": len(products),
            "refused": refused,
        }
    )
)
