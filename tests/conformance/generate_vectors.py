"""Get the oracle's answers to seeded random requests, and write them to the folder of vectors.

Run by hand when operations or edge cases are added; the tests read what is committed::

    MOORAGE_ORACLE=path/to/oracle python -m tests.conformance.generate_vectors [NAME …]

`MOORAGE_ORACLE` names the built program or the folder that holds it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance import (
    generate_addons,
    generate_daemons,
    generate_devices,
    generate_disruptions,
    generate_karmada,
    generate_nodes,
    generate_ocm,
    generate_pod_fleets,
    generate_pods,
    generate_rollouts,
)
from tests.support.go_tools import built

Request = dict[str, Any]

SEED = 20260102
VECTORS = Path(__file__).parent / "vectors"
OPS = Path(__file__).parents[2] / "ops"
"""The folder of the project's own programs around upstream's code."""
_PROGRAMS = {
    "disruptions": "upstream-controllers",
    "daemons": "upstream-controllers",
    "nodes": "upstream-controllers",
    "pod_schedule": "upstream-scheduler",
    "addons": "upstream-addons",
    "devices": "upstream-devices",
}
"""The programs of files of vectors that have another name."""

KEYS = ("a", "b", "example.com/c", "node.kubernetes.io/not-ready")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute", "Bogus", "")
OPERATORS = ("", "Equal", "Exists", "Gt", "Lt", "exists", "Bogus")
VALUES = ("", "x", "7", "-7", "0", "-0", "+7", "007", "9223372036854775807", "9223372036854775808", "-", "x_", "é")
ODD_KEYS = (
    *KEYS,
    "",
    "/",
    "a/",
    "/a",
    "a/b/c",
    "A_/b",
    "-",
    "k" * 63,
    "k" * 64,
    f"{'p' * 253}/k",
    f"{'p' * 254}/k",
    "ü",
    "a b",
)
SECONDS = (0, -1, 1, 30, 300, 9223372036, 9223372037, 18446744074, 9223372036854775807, -9223372036854775808)
TIMES = ("2026-01-01T00:00:00Z", "2025-12-31T23:59:59.75+01:00", "2026-01-01T00:00:01.5Z", None)


def taint(rng: random.Random, *, timed: bool = True) -> Request:
    made: Request = {"key": rng.choice(KEYS), "effect": rng.choice(EFFECTS[:4])}
    if rng.random() < 0.6:
        made["value"] = rng.choice(VALUES)
    if timed and rng.random() < 0.5:
        made["timeAdded"] = rng.choice(TIMES)
    return made


def toleration(rng: random.Random, keys: tuple[str, ...] = KEYS) -> Request:
    made: Request = {}
    if rng.random() < 0.8:
        made["key"] = rng.choice(keys)
    if rng.random() < 0.8:
        made["operator"] = rng.choice(OPERATORS)
    if rng.random() < 0.5:
        made["value"] = rng.choice(VALUES)
    if rng.random() < 0.6:
        made["effect"] = rng.choice(EFFECTS)
    if rng.random() < 0.4:
        made["tolerationSeconds"] = rng.choice(SECONDS)
    return made


def some(rng: random.Random, make: Callable[[], Request], most: int) -> list[Request]:
    return [make() for _ in range(rng.randint(0, most))]


def normalize(rng: random.Random) -> Request:
    high = rng.choice((1, 3, 10, 1000, 2**40, 2**62))
    low = rng.choice((0, 0, 0, -high))
    return {"op": "normalize", "scores": [rng.randint(low, high) for _ in range(rng.randint(0, 8))]}


def set_taints(rng: random.Random) -> Request:
    request: Request = {"op": "set_taints", "taints": some(rng, lambda: taint(rng), 5)}
    request["add"] = some(rng, lambda: taint(rng), 3)
    request["remove"] = some(rng, lambda: taint(rng, timed=False) | rng.choice(({}, {"effect": ""})), 3)
    return request


def edges(rng: random.Random) -> Request:
    comparison = rng.random() < 0.6
    op = rng.choice(("tolerates", "filter", "evict", "validate", "parse_taints"))
    if op == "tolerates":
        return {"op": op, "comparisonOperators": comparison, "toleration": toleration(rng), "taint": taint(rng)}
    if op == "validate":
        made = some(rng, lambda: toleration(rng, ODD_KEYS), 3)
        return {"op": op, "comparisonOperators": comparison, "tolerations": made}
    if op == "parse_taints":
        return {"op": op, "spec": [spec(rng) for _ in range(rng.randint(0, 3))]}
    # Mostly tolerant, because otherwise nearly every answer would be the same.
    tolerations = some(rng, lambda: toleration(rng), 3)
    if rng.random() < 0.5:
        tolerations.append({"operator": "Exists", "tolerationSeconds": rng.choice(SECONDS)})
    return {
        "op": op,
        "comparisonOperators": comparison,
        "taints": some(rng, lambda: taint(rng), 4),
        "tolerations": tolerations,
    }


def spec(rng: random.Random) -> str:
    value = rng.choice(("", "=", f"={rng.choice(VALUES)}", f"={rng.choice(VALUES)}"))
    effect = rng.choice(("", *(f":{effect}" for effect in EFFECTS)))
    return rng.choice(ODD_KEYS) + value + effect + rng.choice(("", "", "-"))


CONDITIONS = ("Ready", "DiskPressure", "NetworkOK", "NoSuch")
STATUSES = ("True", "False", "Unknown")
CREATED = ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00.5Z", "2025-02-01T00:00:00+01:00", None)
FIELD_VALUES = {"zone": ("z1", "z2", "z3"), "region": ("r1", "r2"), "provider": ("p1", "p2", "7"), "other": ("x",)}


def required(rng: random.Random, key: str, values: tuple[str, ...], operators: tuple[str, ...]) -> Request:
    operator = rng.choice(operators)
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    listed = ["5"] if operator in {"Gt", "Lt"} else rng.sample(values, rng.randint(1, len(values)))
    return {"key": key, "operator": operator, "values": listed}


def affinity(rng: random.Random) -> Request:
    made: Request = {}
    if rng.random() < 0.3:
        made["clusterNames"] = rng.choice(([], ["c1"], ["c2"], ["c2", "c1"]))
    if rng.random() < 0.2:
        made["exclude"] = rng.choice(([], ["c1"], ["c2"]))
    if rng.random() < 0.3:
        label = rng.choice(("tier", "none"))
        wish = required(rng, label, ("gold", "tin"), ("In", "NotIn", "Exists", "DoesNotExist", "Bogus"))
        made["labelSelector"] = rng.choice(({}, {"matchLabels": {"tier": "gold"}}, {"matchExpressions": [wish]}))
    if rng.random() < 0.6:
        keys = rng.sample(tuple(FIELD_VALUES), rng.choice((1, 1, 2)))
        operators = ("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        made["fieldSelector"] = {"matchExpressions": [required(rng, key, FIELD_VALUES[key], operators) for key in keys]}
    return made


def ctp_edges(rng: random.Random) -> Request:
    spec: Request = {"syncMode": "Push"}
    if rng.random() < 0.6:
        spec["zones"] = rng.sample(FIELD_VALUES["zone"], rng.randint(0, 2))
    for name in ("zone", "region", "provider"):
        if rng.random() < 0.5:
            spec[name] = rng.choice(FIELD_VALUES[name])
    metadata = {"name": "c1", "labels": rng.choice(({}, {"tier": "gold"})), **generate_ocm.marked(rng)}
    cluster = {"metadata": metadata, "spec": spec}

    def match() -> Request:
        operator = rng.choice(("In", "In", "NotIn", "NotIn", "Bogus"))
        values = rng.sample(STATUSES, rng.randint(0, 2))
        return {"conditionType": rng.choice(CONDITIONS[:3]), "operator": operator, "statusValues": values}

    policies = []
    for name in rng.sample(("a", "b", "c", "d"), rng.randint(1, 3)):
        add, remove = some(rng, match, 2), some(rng, match, 2)
        made = [taint(rng, timed=False) for _ in range(rng.randint(1, 2))]
        policy: Request = {"addOnConditions": add, "removeOnConditions": remove, "taints": made}
        if rng.random() < 0.7:
            policy["targetClusters"] = affinity(rng)
        metadata = {"name": name, "creationTimestamp": rng.choice(CREATED), **generate_ocm.marked(rng)}
        policies.append({"metadata": metadata, "spec": policy})
    conditions = [{"type": name, "status": rng.choice(STATUSES)} for name in CONDITIONS[:3] if rng.random() < 0.8]
    request: Request = {"op": "ctp", "cluster": cluster, "conditions": conditions, "policies": policies}
    request["taints"] = list({(t["key"], t["effect"]): t for t in some(rng, lambda: taint(rng), 3)}.values())
    if rng.random() < 0.2:
        request["labels"] = {"tier": "tin"}
    return request


def karmada_edges(rng: random.Random) -> Request:
    op = rng.choice(("karmada_evict", "karmada_filter"))
    tolerations = some(rng, lambda: toleration(rng), 3)
    if rng.random() < 0.7:
        tolerations.append({"operator": "Exists", "tolerationSeconds": rng.choice(SECONDS)})
    request: Request = {"op": op, "now": rng.choice(TIMES[:3]), "tolerations": tolerations}
    request["taints"] = some(rng, lambda: taint(rng), 4)
    if op == "karmada_filter" and rng.random() < 0.3:
        request["alreadyScheduled"] = rng.random() < 0.5
    return request


def _program(name: str, oracle: Path) -> Path:
    """The program around upstream's code that answers the requests of a file of vectors."""
    program = _PROGRAMS.get(name, name)
    return built(OPS / program) if (OPS / program).is_dir() else oracle


def main(only: list[str]) -> int:
    path = Path(os.environ.get("MOORAGE_ORACLE", ""))
    oracle = path / "oracle" if path.is_dir() else path
    for name, make, count in (
        ("normalize", normalize, 200),
        ("set_taints", set_taints, 300),
        ("edges", edges, 500),
        ("ctp_edges", ctp_edges, 300),
        ("karmada_edges", karmada_edges, 500),
        ("ocm_wild", generate_ocm.schedule, 200),
        ("ocm_controller_edges", generate_ocm.taint_controller, 200),
        ("ocm_webhook_edges", generate_ocm.taint_webhook, 200),
        ("upstream-pods", generate_pods.pod, 900),
        ("upstream-karmada", generate_karmada.schedule, 250),
        ("pod_schedule", generate_pod_fleets.schedule, 300),
        ("disruptions", generate_disruptions.budget, 250),
        ("daemons", generate_daemons.status, 250),
        ("nodes", generate_nodes.history, 250),
        ("addons", generate_addons.labels, 250),
        ("devices", generate_devices.device, 1100),
        ("rollouts", generate_rollouts.rollout, 400),
    ):
        if only and name not in only:
            continue
        program = _program(name, oracle)
        if not program.is_file():
            sys.stderr.write(f"MOORAGE_ORACLE: Invalid value: {str(path)!r}: must name the built oracle\n")
            return 2
        rng = random.Random(f"{SEED}-{name}")  # noqa: S311 - seeded test data
        requests = [make(rng) for _ in range(count)]
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        with (VECTORS / f"{name}.jsonl").open("w", encoding="utf-8") as out:
            for i, (request, answer) in enumerate(zip(requests, answers, strict=True)):
                record = {"id": f"{name}-{i:03}", "request": request, "expect": answer}
                out.write(json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
