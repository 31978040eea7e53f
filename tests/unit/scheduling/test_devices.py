"""Devices: pools, allocation, and the taints of devices. tests/conformance compares random cases with upstream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.tables import table

from moorage.decide.scheduling.devices.allocation import MOST_STEPS, AllocationError, Offer, allocate
from moorage.decide.scheduling.devices.pools import DeviceId, DeviceNode, PooledDevice, pools_for
from moorage.decide.scheduling.devices.reserved_claims import claims_of
from moorage.decide.scheduling.devices.tainted_devices import (
    PublishedDevices,
    as_if_evicting,
    devices_of,
    progress,
    rule_selects,
)
from moorage.decide.taints.dialects.devices import keeps_away, leaves_at
from moorage_schemas.resources.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from moorage_schemas.taint import Taint, Toleration

Object = dict[str, Any]

GPU = "gpu.example.com"
NODE = DeviceNode("n1", {"zone": "a"})
ADDED = datetime(2026, 1, 1, tzinfo=UTC)
API = "resource.k8s.io/v1"


def devices_named(*names: str, **rest: Any) -> list[Object]:
    return [{"name": name, **rest} for name in names]


def a_slice(name: str, devices: list[Object], pool: str = "n1", **rest: Any) -> ResourceSlice:
    generation, count = rest.pop("generation", 1), rest.pop("count", 1)
    spec: Object = {"driver": rest.pop("driver", GPU), "devices": devices, **(rest or {"nodeName": "n1"})}
    spec["pool"] = {"name": pool, "generation": generation, "resourceSliceCount": count}
    made = {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name, "uid": f"u-{name}"}, "spec": spec}
    return ResourceSlice.model_validate(made)


def a_class(name: str = "gpu", *expressions: str) -> DeviceClass:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    made = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors}}
    return DeviceClass.model_validate(made)


def a_claim(*requests: Object, name: str = "c", constraints: list[Object] | None = None) -> ResourceClaim:
    spec = {"devices": {"requests": list(requests), "constraints": constraints}}
    metadata = {"name": name, "namespace": "default"}
    return ResourceClaim.model_validate(
        {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
    )


def exactly(name: str = "r", **rest: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **rest}}


def got(claims: list[ResourceClaim], slices: list[ResourceSlice], *allocated: str) -> list[list[str]] | None:
    """The devices that each claim gets."""
    taken = frozenset(DeviceId(GPU, "n1", name) for name in allocated)
    found = allocate(claims, NODE, Offer(slices, {"gpu": a_class()}, taken))
    if found is None:
        return None
    return [[result.device for result in one.devices.results or ()] for one in found]


EIGHT = a_slice("s", devices_named(*(f"gpu-{n}" for n in range(8))))


def test_each_of_eight_claims_gets_one_of_eight_devices_and_the_ninth_none() -> None:
    claims = [a_claim(exactly(), name=f"c{n}") for n in range(8)]
    assert got(claims, [EIGHT]) == [[f"gpu-{n}"] for n in range(8)]
    assert got([*claims, a_claim(exactly(), name="c8")], [EIGHT]) is None
    assert got([a_claim(exactly())], [EIGHT], *(f"gpu-{n}" for n in range(7))) == [["gpu-7"]]


def test_only_slices_of_the_newest_generation_count() -> None:
    old, new = a_slice("old", devices_named("gpu-0")), a_slice("new", devices_named("gpu-1"), generation=2)
    assert got([a_claim(exactly())], [old, new]) == [["gpu-1"]]


def test_nothing_comes_from_a_pool_that_is_being_updated() -> None:
    part = a_slice("s", devices_named("gpu-0"), count=2)
    assert got([a_claim(exactly())], [part]) is None
    with pytest.raises(AllocationError, match=r"asks for all devices, but resource pool .* is currently being updated"):
        got([a_claim(exactly(allocationMode="All"))], [part])


def test_a_pool_with_one_name_twice_is_invalid() -> None:
    twice = a_slice("s", devices_named("gpu-0", "gpu-0"))
    with pytest.raises(AllocationError, match="invalid resource pools were encountered") as caught:
        got([a_claim(exactly())], [twice])
    assert caught.value.on_node


def test_pools_are_tried_by_driver_and_name_whatever_the_order_of_slices() -> None:
    slices = [a_slice(f"s{name}", devices_named(f"gpu-{name}"), pool=name) for name in ("c", "a", "b")]
    assert got([a_claim(exactly(count=3))], slices) == [["gpu-a", "gpu-b", "gpu-c"]]
    assert got([a_claim(exactly(count=3))], slices[::-1]) == [["gpu-a", "gpu-b", "gpu-c"]]


def selecting(**term: Any) -> Object:
    return {"nodeSelector": {"nodeSelectorTerms": [term]}}


@table(
    ("where", "usable"),
    [
        ({"nodeName": "n1"}, True),
        ({"nodeName": "n2"}, False),
        ({"allNodes": True}, True),
        (selecting(matchExpressions=[{"key": "zone", "operator": "Exists"}]), True),
        (selecting(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n2"]}]), False),
    ],
)
def test_a_node_uses_the_devices_that_select_it(where: Object, usable: bool) -> None:  # noqa: FBT001 - a table
    assert got([a_claim(exactly())], [a_slice("s", devices_named("gpu-0"), **where)]) == (
        [["gpu-0"]] if usable else None
    )
    per_device = a_slice("s", devices_named("gpu-0", **where), perDeviceNodeSelection=True)
    assert got([a_claim(exactly())], [per_device]) == ([["gpu-0"]] if usable else None)


def test_the_first_way_that_can_be_satisfied_is_taken() -> None:
    ways = [{"name": "many", "deviceClassName": "gpu", "count": 3}, {"name": "one", "deviceClassName": "gpu"}]
    claim = a_claim({"name": "r", "firstAvailable": ways})
    found = allocate([claim], NODE, Offer([a_slice("s", devices_named("gpu-0"))], {"gpu": a_class()}))
    assert found is not None
    assert [(one.request, one.device) for one in found[0].devices.results or ()] == [("r/one", "gpu-0")]
    assert got([claim], [EIGHT]) == [["gpu-0", "gpu-1", "gpu-2"]]


def test_devices_share_an_attribute_where_a_constraint_wants_it() -> None:
    numa = [{"name": f"gpu-{n}", "attributes": {"numa": {"int": n % 2}}} for n in range(4)]
    claim = a_claim(exactly(count=2), constraints=[{"matchAttribute": f"{GPU}/numa"}])
    assert got([claim], [a_slice("s", numa)]) == [["gpu-0", "gpu-2"]]
    assert got([claim], [a_slice("s", numa)], "gpu-0") == [["gpu-1", "gpu-3"]]
    assert got([claim], [a_slice("s", numa)], "gpu-0", "gpu-1") is None


def test_a_request_with_admin_access_gets_devices_that_others_have() -> None:
    assert got([a_claim(exactly(adminAccess=True))], [EIGHT], "gpu-0") == [["gpu-0"]]


def test_partitions_of_a_device_share_its_counters() -> None:
    parts = [
        {"name": f"part-{n}", "consumesCounters": [{"counterSet": "gpu", "counters": {"slices": {"value": "3"}}}]}
        for n in range(3)
    ]
    counters = [{"name": "gpu", "counters": {"slices": {"value": "7"}}}]
    slices = [a_slice("s", parts, count=2), a_slice("c", [], count=2, sharedCounters=counters)]
    assert got([a_claim(exactly(count=2))], slices) == [["part-0", "part-1"]]
    assert got([a_claim(exactly(count=3))], slices) is None
    assert got([a_claim(exactly())], slices, "part-0", "part-1") is None


def test_an_untolerated_taint_keeps_a_request_away_and_a_taint_without_effect_does_not() -> None:
    def tainted(effect: str) -> ResourceSlice:
        taint = {"key": "unhealthy", "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}
        return a_slice("s", [{"name": "gpu-0", "taints": [taint]}, {"name": "gpu-1"}])

    assert got([a_claim(exactly())], [tainted("NoSchedule")]) == [["gpu-1"]]
    assert got([a_claim(exactly())], [tainted("NoExecute")]) == [["gpu-1"]]
    assert got([a_claim(exactly())], [tainted("None")]) == [["gpu-0"]]
    tolerant = a_claim(exactly(tolerations=[{"key": "unhealthy", "operator": "Exists"}]))
    assert got([tolerant], [tainted("NoSchedule")]) == [["gpu-0"]]


def test_rules_keep_a_request_away_as_slices_do() -> None:
    rule = a_rule("maintenance", device="gpu-0", effect="NoSchedule")
    published = PublishedDevices([EIGHT], [rule])

    def taints(device: PooledDevice) -> list[Taint]:
        return [one.taint for one in published.taints(device.id)]

    found = allocate([a_claim(exactly())], NODE, Offer([EIGHT], {"gpu": a_class()}, taints=taints))
    assert found is not None
    assert [one.device for one in found[0].devices.results or ()] == ["gpu-1"]


@table(
    ("claim", "error"),
    [
        (
            a_claim(exactly(deviceClassName="no")),
            "claim default/c, request r: could not retrieve device class no: deviceclass.resource.k8s.io",
        ),
        (a_claim(exactly(deviceClassName="")), "claim default/c, request r: missing device class name"),
        (a_claim(exactly(allocationMode="Some")), "claim default/c, request r: unsupported count mode Some"),
        (a_claim(exactly(count=33)), "claim default/c: number of requested devices 33 exceeds the claim limit of 32"),
        (a_claim(exactly(), constraints=[{}]), "claim default/c, constraint #0: empty constraint"),
        (a_claim(exactly(selectors=[{}])), "claim default/c, request r, selector #0: CEL expression empty"),
        (
            a_claim(exactly(selectors=[{"cel": {"expression": "device.x"}}])),
            "claim default/c: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:7: undefined field",
        ),
        (
            a_claim(exactly(selectors=[{"cel": {"expression": f"device.attributes['{GPU}'].x == 1"}}])),
            f"claim default/c: selector #0 on device {GPU}/n1/gpu-0: CEL runtime error: no such key: x. consider using",
        ),
    ],
)
def test_a_wrong_claim_is_an_error_that_names_it(claim: ResourceClaim, error: str) -> None:
    with pytest.raises(AllocationError) as caught:
        got([claim], [EIGHT])
    assert str(caught.value).startswith(error)


def test_a_search_without_end_is_stopped() -> None:
    devices = [{"name": f"gpu-{n:02}", "attributes": {"id": {"int": n}}} for n in range(20)]
    numa = [{"matchAttribute": f"{GPU}/none", "requests": ["last"]}]
    claim = a_claim(exactly(count=10), exactly("last"), constraints=numa)
    with pytest.raises(AllocationError, match=f"the search for devices was stopped after {MOST_STEPS} steps"):
        got([claim], [a_slice("s", devices)])


def test_an_allocation_names_the_nodes_on_which_it_can_be_used() -> None:
    found = allocate([a_claim(exactly())], NODE, Offer([EIGHT], {"gpu": a_class()}))
    everywhere = a_slice("s", devices_named("gpu-0"), allNodes=True)
    assert found is not None
    selector = found[0].node_selector
    assert selector is not None
    assert selector.node_selector_terms[0].match_fields is not None
    assert selector.node_selector_terms[0].match_fields[0].values == ["n1"]
    found = allocate([a_claim(exactly())], NODE, Offer([everywhere], {"gpu": a_class()}))
    assert found is not None
    assert found[0].node_selector is None
    assert [pool.id.pool for pool in pools_for(DeviceNode("n2", {}), [EIGHT, everywhere])] == ["n1"]


# --- taints


def a_rule(name: str, effect: str = "NoExecute", **selector: str) -> DeviceTaintRule:
    taint = {"key": "unhealthy", "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}
    spec = {"deviceSelector": selector, "taint": taint}
    metadata = {"name": name, "uid": f"u-{name}"}
    return DeviceTaintRule.model_validate(
        {"apiVersion": API, "kind": "DeviceTaintRule", "metadata": metadata, "spec": spec}
    )


def holding(name: str, device: str, pod: str, tolerations: list[Object] | None = None) -> ResourceClaim:
    result = {"request": "r", "driver": GPU, "pool": "n1", "device": device, "tolerations": tolerations}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": f"u-{pod}"}],
    }
    made = a_claim(exactly(), name=name).model_dump(by_alias=True, mode="json", exclude_none=True)
    return ResourceClaim.model_validate({**made, "status": status})


def a_pod(name: str, *claims: str, node: str = "n1") -> Object:
    used = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}"}
    return {"metadata": metadata, "spec": {"nodeName": node, "resourceClaims": used}}


def test_one_of_eight_devices_fails_and_one_pod_of_eight_leaves() -> None:
    claims = {("default", f"c{n}"): holding(f"c{n}", f"gpu-{n}", f"p{n}") for n in range(8)}
    published = PublishedDevices([EIGHT], [a_rule("broken", driver=GPU, pool="n1", device="gpu-3")])
    leaving = {n: published.leaving(claims_of(a_pod(f"p{n}", f"c{n}"), claims)) for n in range(8)}
    found = leaving.pop(3)
    assert found is not None
    assert (found.time, found.reason) == (ADDED, "DeviceTaintRule /broken:u-broken")
    assert set(leaving.values()) == {None}


def test_a_pod_uses_only_claims_that_are_reserved_for_it() -> None:
    claims = {("default", "c"): holding("c", "gpu-0", "p")}
    assert len(claims_of(a_pod("p", "c"), claims)) == 1
    assert claims_of(a_pod("other", "c"), claims) == []
    assert claims_of(a_pod("p", "c", node=""), claims) == []
    assert claims_of(a_pod("p", "no"), claims) == []


TAINT = Taint(key="unhealthy", effect="NoExecute", time_added=ADDED)


@table(
    ("tolerations", "seconds"),
    [
        ([], 0),
        ([("NoExecute", 60)], 60),
        ([("NoExecute", 60), ("NoExecute", 30)], 30),  # not the first, as for nodes, but the shortest
        ([("NoExecute", -5)], 0),
        ([("NoExecute", None)], None),
        ([("NoExecute", 30), ("NoExecute", None)], None),
        ([("", None)], 0),  # it keeps no work on a device: the effect must be named
        ([("NoSchedule", None)], 0),
    ],
)
def test_when_work_leaves_a_device(tolerations: list[tuple[str, int | None]], seconds: int | None) -> None:
    known = [
        Toleration(key="unhealthy", operator="Exists", effect=effect, toleration_seconds=limit)
        for effect, limit in tolerations
    ]
    assert leaves_at(TAINT, known) == (None if seconds is None else ADDED + timedelta(seconds=seconds))
    assert leaves_at(TAINT.model_copy(update={"effect": "None"}), known) is None
    assert keeps_away([TAINT], known) is (not any(effect in {"", "NoExecute"} for effect, _ in tolerations))


def test_a_taint_without_its_time_is_an_error_that_names_the_field() -> None:
    with pytest.raises(ValueError, match="timeAdded: Required value: taint unhealthy"):
        leaves_at(Taint(key="unhealthy", effect="NoExecute"), [])


def test_a_rule_without_effect_counts_the_work_that_would_leave() -> None:
    rule = a_rule("try", effect="None", driver=GPU)
    claims = [holding("c0", "gpu-0", "p0"), holding("c1", "gpu-1", "p1")]
    published = PublishedDevices([EIGHT], [rule])
    assert published.leaving(claims) is None
    assert PublishedDevices([EIGHT], [as_if_evicting(rule)]).leaving(claims) is not None
    allocated = sum(rule_selects(rule, device) for device in devices_of(claims))
    found = progress(rule, {"default": 2}, published=published.published(rule), allocated=allocated)
    assert (found.status, found.reason) == ("False", "NoEffect")
    assert found.message.startswith(
        "8 published devices selected. 2 allocated devices selected. 2 pods would be evicted in 1 namespace if"
    )
