"""Random objects with flaws, and what a real kube-apiserver says of them.

    python -m tests.conformance.validating --plane FOLDER [--family work] [--count 600] [--seed TEXT] [--record]

Each object begins as a valid one and gets some flaws. It is sent to the control plane whose `kubeconfig` is in the
folder with `dryRun=All`, so nothing is made there. The answers are compared with Moorage's: status, reason, causes.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import os
import random
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.flaws import data, roles, stored, ties, work
from tests.conformance.flaws.common import Document, Starts
from tests.conformance.patching_plane import VARIABLE, Plane, PlaneMissingError

from moorage.apiserver.admission import validation
from moorage.apiserver.admission.mutation import with_each_owner_once
from moorage.apiserver.kinds.kind import ServedKind, named
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.apiserver.rules.field_defaults import with_field_defaults
from moorage_schemas.resources.meta import Resource

Answer = dict[str, Any]
Pair = tuple[Document, Answer]

_MOST_TOLD = 10

FAMILIES: dict[str, Starts] = {
    "work": work.STARTS,
    "data": data.STARTS,
    "stored": stored.STARTS,
    "ties": ties.STARTS,
    "roles": roles.STARTS,
}
"""The tables of flaws. The answers of each are recorded in a file of its own."""


def recorded(family: str) -> Path:
    """The file with the recorded answers about the objects of a family."""
    return Path(__file__).parent / "vectors" / "apiserver" / f"validating_{family}.jsonl.gz"


def bodies(family: str, seed: str, count: int) -> Iterator[Document]:
    """Objects with flaws.

    Args:
        family: their kinds.
        seed: of everything that is random.
        count: the number of objects.
    """
    pick = random.Random(seed)  # noqa: S311 - the same seed gives the same objects
    for number in range(count):
        start, flaws = pick.choice(tuple(FAMILIES[family].values()))
        body = copy.deepcopy(start)
        body["metadata"] = {"name": f"flawed-{number}"}
        if body["kind"] == "Job":
            body["spec"]["template"]["spec"]["restartPolicy"] = pick.choice(("Never", "OnFailure"))
        for path in pick.sample(sorted(flaws), pick.randint(1, min(4, len(flaws)))):
            if flaws[path]:
                _set(body, path.split("."), copy.deepcopy(pick.choice(flaws[path])))
        yield body


def _set(body: Any, path: list[str], value: Any) -> None:
    """Set a field, unless what it is in was replaced by something without it."""
    for step in path[:-1]:
        if isinstance(body, list):
            if int(step) >= len(body):
                return
            body = body[int(step)]
        else:
            body = body.setdefault(step, {})
    if value is None:
        body.pop(path[-1], None)
    else:
        body[path[-1]] = value


def asked(plane: Plane, body: Document) -> Answer:
    """What a kube-apiserver answers."""
    definition = named(body["kind"])
    if definition is None:
        raise ValueError(body["kind"])
    prefix = f"/apis/{body['apiVersion']}" if "/" in body["apiVersion"] else f"/api/{body['apiVersion']}"
    path = (
        f"{prefix}/namespaces/default/{definition.plural}" if definition.namespaced else f"{prefix}/{definition.plural}"
    )
    found = plane.send("POST", path, body, dryRun="All")
    if "result" in found:
        return {"code": 201, "causes": []}
    # Errors about taints name the field of the document here, which a kube-apiserver calls metadata.taints.
    causes = [[*rest, field.replace("metadata.taints", "spec.taints")] for *rest, field in found.get("causes", ())]
    return (
        {"code": found["code"], "causes": sorted(causes)}
        if causes
        else {"code": found["code"], "error": found["error"]}
    )


def answered(body: Document) -> Answer:
    """What Moorage answers."""
    definition = named(body["kind"])
    if definition is None:
        raise ValueError(body["kind"])
    group, _, version = body["apiVersion"].rpartition("/")
    kind = ServedKind(definition, version, "" if group == definition.group else group)
    metadata = {**body["metadata"], **({"namespace": "default"} if definition.namespaced else {})}
    document = with_field_defaults(with_each_owner_once({**body, "metadata": metadata}))
    try:
        resource: Resource = validation.typed(document, kind)
        broken = validation.broken_rules(resource, document, kind, FeatureGates(), before=None)
        validation.refuse(kind, resource.metadata.name, broken)
    except StatusError as error:
        causes = sorted([one.reason, one.message, one.field] for one in error.causes)
        return {"code": error.code, "causes": causes}
    return {"code": 201, "causes": []}


def read(path: Path) -> list[Pair]:
    """The recorded pairs of a file."""
    return [tuple(json.loads(line)) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def main() -> int:
    """Send objects to a control plane, compare the answers, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=600, help="number of objects (default 600)")
    parser.add_argument("--seed", default="", help="seed of the objects; by default a new one")
    parser.add_argument("--plane", default=os.environ.get(VARIABLE, ""), help="folder with a kubeconfig")
    parser.add_argument("--family", choices=sorted(FAMILIES), help="the kinds of the objects (default all)")
    parser.add_argument("--record", action="store_true", help="keep the objects and the answers for the tests")
    options = parser.parse_args()
    seed = options.seed or secrets.token_hex(8)
    try:
        plane = Plane(Path(options.plane))
    except PlaneMissingError as problem:
        sys.stderr.write(f"validating: {problem}\n")
        return 2
    different = 0
    for family in [options.family] if options.family else FAMILIES:
        pairs = [(body, asked(plane, body)) for body in bodies(family, seed, options.count)]
        wrong = [(body, theirs, mine) for body, theirs in pairs if (mine := answered(body)) != theirs]
        _tell(wrong[:_MOST_TOLD])
        if options.record:
            text = "".join(json.dumps(pair, separators=(",", ":")) + "\n" for pair in pairs)
            recorded(family).write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
        told = {"family": family, "seed": seed, "objects": len(pairs), "differences": len(wrong)}
        sys.stdout.write(json.dumps(told) + "\n")
        different += len(wrong)
    return 1 if different else 0


def _tell(wrong: list[tuple[Document, Answer, Answer]]) -> None:
    for body, theirs, mine in wrong:
        sys.stdout.write(f"{json.dumps(body)}\n{theirs['code']} {mine['code']} {theirs.get('error', '')}\n")
        for mark, one, other in (("theirs", theirs, mine), ("mine", mine, theirs)):
            more = [cause for cause in one.get("causes", ()) if cause not in other.get("causes", ())]
            sys.stdout.write("".join(f"  {mark}: {json.dumps(cause)}\n" for cause in more))


if __name__ == "__main__":
    raise SystemExit(main())
