"""Random devices, claims, rules and pods, for the operations on devices."""

from __future__ import annotations

import random
from typing import Any

from tests.conformance.generate_ocm import chance

Request = dict[str, Any]

OPERATIONS = ("device_tolerates", "device_cel", "device_allocate", "device_evict")

_KEYS = ("gpu.example.com/unhealthy", "example.com/maintenance", "x.io/y")
_EFFECTS = ("NoSchedule", "NoExecute", "None", "Other")
_ATTRIBUTES: dict[str, tuple[Request, ...]] = {
    "model": ({"string": "a100"}, {"string": "h200"}),
    "driverVersion": ({"version": "1.2.3"}, {"version": "2.0.0"}),
    "mig": ({"bool": True}, {"bool": False}),
    "numa": ({"int": 0}, {"int": 1}),
    "other.io/link": ({"string": "l0"}, {"string": "l1"}),
}
_OWN = 'device.attributes["gpu.example.com"]'
_SELECTORS = (
    'device.driver == "gpu.example.com"',
    f'{_OWN}.model == "h200"',
    f"has({_OWN}.numa) && {_OWN}.numa == 0",
    f"{_OWN}.?mig.orValue(false)",
    f'cel.bind(d, {_OWN}, has(d.model) && d.model.startsWith("a"))',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    '"other.io" in device.attributes',
    f'{_OWN}.driverVersion.isGreaterThan(semver("1.5.0"))',
    "true",
    "false",
)
_ODD_SELECTORS = (
    "1",
    "device",
    "device.nothing",
    "device.name == 'a'",
    "devices.driver == 'a'",
    "device.allowMultipleAllocations",
    "device.attributes == {}",
    "size(device.attributes) == 1 || size(device.capacity) == 1",
    "device.attributes.exists(d, d == 'nobody.io')",
    "device.attributes.all(d, device.attributes[d].size() > 0)",
    "device.attributes['nobody.io'].x == 1",
    "has(device.attributes['nobody.io'].x)",
    "has(device.attributes.nobody)",
    "has(device.capacity)",
    "device.capacity['nobody.io'].size() == 0",
    f"type({_OWN}.numa) == int",
    f"{_OWN}.numa + 1 == 2",
    f"{_OWN}.model + 1 == 'x'",
    f"{_OWN}.mig ? {_OWN}.numa == 0 : {_OWN}.model == 'h200'",
    f"cel.bind(a, {_OWN}, cel.bind(b, a.model, b == 'h200' && a.numa == 1))",
    f"cel.bind(a, {_OWN}.model, ['a100', 'h200'].exists(m, m == a))",
    f"cel.bind(a, {_OWN}.model, true)",
    "cel.bind(device, 1, device == 1)",
    "cel.bind(a.b, 1, true)",
    "cel.bind(a, 1)",
    "optional.of('h200').optMap(m, ['h200', 'a100'].filter(x, x == m)).orValue([]).size() == 1",
    "sets.contains(['a100', 'h200'], ['h200'])",
    f"sets.intersects([{_OWN}.model], ['h200'])",
    "sets.equivalent([1, 2, 2], [2, 1])",
    "semver('v1.2', true).isLessThan(semver('1.10.0')) && isSemver('01.2', true) && !isSemver('1.2')",
    "isQuantity('40Gi') && quantity('40Gi').isGreaterThan(quantity('1Gi'))",
    "device.capacity['gpu.example.com'].memory > quantity('1Gi')",
    "device.capacity['gpu.example.com'].?memory.hasValue()",
    "managedCluster.metadata.name == 'a'",
    "device.driver.startsWith('gpu') && device.driver.endsWith('.com') && device.driver.size() == 15",
    "'%s' .format([device.driver]) == 'gpu.example.com'",
    "ip('10.0.0.1').family() == 4",
)


def _taint(rng: random.Random) -> Request:
    made: Request = {"key": rng.choice(_KEYS), "effect": rng.choice(_EFFECTS)}
    if chance(rng, 0.5):
        made["value"] = rng.choice("ab")
    return made


def _added(rng: random.Random) -> Request:
    return _taint(rng) | {"timeAdded": f"2026-01-01T00:{rng.randrange(60):02d}:00Z"}


def _toleration(rng: random.Random) -> Request:
    made: Request = {"key": rng.choice(_KEYS)} if chance(rng, 0.8) else {}
    made["operator"] = rng.choice(("Exists", "Equal", "Equal")) if made else "Exists"
    if made["operator"] == "Equal" and chance(rng, 0.6):
        made["value"] = rng.choice("ab")
    if chance(rng, 0.7):
        made["effect"] = rng.choice(_EFFECTS[:3])
    if chance(rng, 0.5):
        made["tolerationSeconds"] = rng.choice((0, -5, 30, 60, 300, 3600))
    return made


def _device(rng: random.Random, number: int) -> Request:
    made: Request = {"name": f"gpu-{number}"}
    if chance(rng, 0.9):
        made["attributes"] = {name: rng.choice(values) for name, values in _ATTRIBUTES.items() if chance(rng, 0.75)}
    if chance(rng, 0.7):
        made["capacity"] = {"memory": {"value": rng.choice(("40Gi", "80Gi", "141Gi"))}}
    if chance(rng, 0.35):
        made["taints"] = [_added(rng) for _ in range(rng.choice((1, 1, 2)))]
    return made


def _zone(rng: random.Random, zones: str) -> Request:
    requirement = {"key": "zone", "operator": "In", "values": [rng.choice(zones)]}
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}


def _where(rng: random.Random) -> Request:
    """Where a device of a slice is that selects nodes for each device."""
    place = rng.random()
    if place < 0.6:
        return {"nodeName": rng.choice(("n1", "n2"))}
    return {"allNodes": True} if place < 0.8 else {"nodeSelector": _zone(rng, "ab")}


class _Slices:
    """The slices of some pools."""

    def __init__(self, rng: random.Random, pools: int) -> None:
        self.made: list[Request] = []
        self._rng = rng
        for number in range(pools):
            self._pool(rng.choice(("gpu.example.com", "gpu.example.com", "nic.example.com")), f"pool-{number}")
        self.devices = [
            [one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"]]
            for one in self.made
            for device in one["spec"].get("devices", [])
        ]

    def _add(self, driver: str, pool: Request, rest: Request) -> None:
        number = len(self.made)
        metadata = {"name": f"s{number}", "uid": f"u{number}"}
        self.made.append({"metadata": metadata, "spec": {"driver": driver, "pool": pool, **rest}})

    def _pool(self, driver: str, name: str) -> None:
        rng = self._rng
        generation, count, counters = rng.choice((1, 1, 1, 2)), rng.choice((1, 1, 2)), chance(rng, 0.3)
        total = count + counters + chance(rng, 0.08)
        pool = {"name": name, "generation": generation, "resourceSliceCount": total}
        for part in range(count):
            first = part * 4 if chance(rng, 0.97) else 0
            self._add(driver, pool, self._part(first, counters=counters))
        if counters:
            slots = {"slots": {"value": str(rng.choice((3, 4, 6)))}}
            self._add(driver, pool, {"sharedCounters": [{"name": "c0", "counters": slots}]})
        if generation > 1 and chance(rng, 0.6):
            old = {"name": name, "generation": 1, "resourceSliceCount": 1}
            self._add(driver, old, {"nodeName": "n1", "devices": [_device(rng, 9)]})

    def _part(self, first: int, *, counters: bool) -> Request:
        rng, place = self._rng, self._rng.random()
        devices = [_device(rng, first + number) for number in range(rng.choice((1, 2, 3, 4)))]
        for device in devices:
            if counters and chance(rng, 0.7):
                taken = {"slots": {"value": str(rng.choice((1, 2, 3)))}}
                device["consumesCounters"] = [{"counterSet": "c0" if chance(rng, 0.97) else "no", "counters": taken}]
        if place < 0.55:
            return {"nodeName": "n1" if chance(rng, 0.92) else "n2", "devices": devices}
        if place < 0.7:
            return {"allNodes": True, "devices": devices}
        if place < 0.85:
            return {"nodeSelector": _zone(rng, "aab"), "devices": devices}
        return {"perDeviceNodeSelection": True, "devices": [device | _where(rng) for device in devices]}


def _asked(rng: random.Random, *, sub: bool) -> Request:
    classes = ("gpu", "gpu", "any", "none") if chance(rng, 0.05) else ("gpu", "gpu", "any")
    mode = rng.choice(("ExactCount", "ExactCount", "ExactCount", "All"))
    made: Request = {"deviceClassName": rng.choice(classes), "allocationMode": mode}
    if mode == "ExactCount":
        made["count"] = 33 if chance(rng, 0.01) else rng.choice((1, 1, 1, 1, 2, 3))
    if chance(rng, 0.5):
        made["selectors"] = [{"cel": {"expression": rng.choice(_SELECTORS)}} for _ in range(rng.choice((1, 1, 2)))]
    if chance(rng, 0.4):
        made["tolerations"] = [_toleration(rng) for _ in range(rng.choice((1, 2)))]
    if not sub and chance(rng, 0.1):
        made["adminAccess"] = rng.choice((True, False))
    return made


def _claim(rng: random.Random, number: int) -> Request:
    requests: list[Request] = []
    for place in range(rng.choice((1, 1, 2, 3))):
        made: Request = {"name": f"r{place}"}
        if chance(rng, 0.25):
            made["firstAvailable"] = [{"name": f"s{way}", **_asked(rng, sub=True)} for way in range(rng.choice((2, 3)))]
        else:
            made["exactly"] = _asked(rng, sub=False)
        requests.append(made)
    devices: Request = {"requests": requests}
    if chance(rng, 0.3):
        names = ("gpu.example.com/numa", "gpu.example.com/model", "other.io/link", "gpu.example.com/driverVersion")
        constraint: Request = {"matchAttribute": rng.choice(names)}
        if chance(rng, 0.5):
            constraint["requests"] = [rng.choice(("r0", "r1", "r0/s1"))]
        devices["constraints"] = [constraint]
    return {"metadata": {"name": f"c{number}", "namespace": "default"}, "spec": {"devices": devices}}


def _class(name: str, *expressions: str) -> Request:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors} if selectors else {}}


def _allocate(rng: random.Random) -> Request:
    slices = _Slices(rng, 1)  # upstream tries several in random order
    return {
        "op": "device_allocate",
        "node": {"metadata": {"name": "n1", "labels": {"zone": "a"}}},
        "slices": slices.made,
        "classes": [_class("gpu", _SELECTORS[0]), _class("any")],
        "claims": [_claim(rng, number) for number in range(rng.choice((1, 1, 2, 3)))],
        "allocated": rng.sample(slices.devices, min(len(slices.devices), rng.choice((0, 0, 1, 2)))),
    }


def _rule(rng: random.Random, number: int, device: list[str]) -> Request:
    spec: Request = {"taint": _added(rng)}
    if chance(rng, 0.9):
        names = zip(("driver", "pool", "device"), device, strict=True)
        spec["deviceSelector"] = {name: value for name, value in names if chance(rng, 0.5)}
    return {"metadata": {"name": f"rule{number}", "uid": f"ru{number}"}, "spec": spec}


def _held(rng: random.Random, number: int, devices: list[list[str]]) -> Request:
    """A claim that has devices, in most cases."""
    metadata = {"name": f"c{number}", "namespace": rng.choice(("default", "other")), "uid": f"cu{number}"}
    status: Request = {"reservedFor": []}
    if chance(rng, 0.93):
        results = []
        for driver, pool, device in rng.sample(devices, min(len(devices), rng.choice((1, 1, 2)))):
            result: Request = {"request": "r", "driver": driver, "pool": pool, "device": device}
            if chance(rng, 0.7):
                result["tolerations"] = [_toleration(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
            results.append(result)
        status["allocation"] = {"devices": {"results": results}}
    return {"metadata": metadata, "spec": {"devices": {}}, "status": status}


def _pod(rng: random.Random, number: int, claims: list[Request]) -> Request:
    """A pod that uses claims of its namespace, some of them made from a template."""
    name, uid, namespace = f"p{number}", f"pu{number}", rng.choice(("default", "other"))
    spec: Request = {"resourceClaims": []} | ({"nodeName": "n1"} if chance(rng, 0.9) else {})
    status: Request = {}
    mine = [one for one in claims if one["metadata"]["namespace"] == namespace]
    for claim in rng.sample(mine, min(len(mine), rng.choice((1, 2)))):
        own = claim["metadata"]["name"]
        if chance(rng, 0.75):
            spec["resourceClaims"].append({"name": f"x-{own}", "resourceClaimName": own})
        else:
            spec["resourceClaims"].append({"name": f"x-{own}", "resourceClaimTemplateName": "t"})
            if chance(rng, 0.9):
                named = {"name": f"x-{own}", "resourceClaimName": own}
                status.setdefault("resourceClaimStatuses", []).append(named)
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": chance(rng, 0.9)}
            claim["metadata"]["ownerReferences"] = [owner]
        if chance(rng, 0.9):
            reserved = {"resource": "pods", "name": name, "uid": uid if chance(rng, 0.95) else "old"}
            claim["status"]["reservedFor"].append(reserved)
    return {"metadata": {"name": name, "namespace": namespace, "uid": uid}, "spec": spec, "status": status}


def _evict(rng: random.Random) -> Request:
    slices = _Slices(rng, rng.choice((1, 1, 2)))
    rules = [_rule(rng, number, rng.choice(slices.devices)) for number in range(rng.choice((0, 1, 1, 2, 3)))]
    claims = [_held(rng, number, slices.devices) for number in range(rng.choice((1, 2, 3)))]
    return {
        "op": "device_evict",
        "slices": slices.made,
        "rules": rules,
        "pods": [_pod(rng, number, claims) for number in range(rng.choice((1, 2, 3)))],
        "claims": claims,
        "evicted": {rule["metadata"]["name"]: rng.choice((0, 0, 1, 3)) for rule in rules},
    }


def device(rng: random.Random) -> Request:
    """A request for one of the operations."""
    kind = rng.random()
    if kind < 0.15:
        return {"op": "device_tolerates", "toleration": _toleration(rng), "taint": _taint(rng)}
    if kind < 0.4:
        expression = rng.choice(_SELECTORS if chance(rng, 0.3) else _ODD_SELECTORS)
        return {"op": "device_cel", "driver": "gpu.example.com", "device": _device(rng, 0), "expression": expression}
    return _allocate(rng) if kind < 0.7 else _evict(rng)
