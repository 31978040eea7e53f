"""Random roles and bindings in a real kube-apiserver, and in Moorage's gateway: who may do what, and why.

    python -m tests.conformance.permissions --plane FOLDER [--count 50] [--seed TEXT] [--record]

Both are asked the same SubjectAccessReviews and SelfSubjectRulesReviews, and both are sent the same roles and bindings
by users who may not have what these give. Codes, answers, reasons and refusals are compared. When several bindings
permit something, a kube-apiserver names any of them: then the one that it names must permit it here, too.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import re
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from tests.component.gateway.double import Fixture
from tests.conformance.patching_plane import VARIABLE, PlaneMissingError, connection
from tests.conformance.permission_worlds import GROUP, LABEL, NAMESPACES, Asker, Json, PermissionWorld, Write

from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.apiserver.authorization.default_roles import default_bindings, default_roles
from moorage.apiserver.authorization.guards import WriteGuards
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.machinery.served_kinds import served_at
from moorage.apiserver.rbac.bindings import RoleBinding, RoleKey
from moorage.apiserver.rbac.policy import RbacPolicy
from moorage.apiserver.rbac.rules import aggregated_rules, rules_of
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Writer
from moorage.decide.kubernetes.attributes import Attributes, User

RECORDED = Path(__file__).parent / "vectors" / "apiserver" / "permissions.jsonl.gz"

_NOT_SERVED: Final = ["certificates.k8s.io"]
"""The group of what Kubernetes' default roles permit to service accounts, and what is not there here."""

_RBAC: Final = f"/apis/{GROUP}/v1"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"
_ERRORS = re.compile(r'[a-z]+\.rbac\.authorization\.k8s\.io "[^"]+" not found')


def path_of(plural: str, namespace: str, name: str = "") -> str:
    """The path of a role or a binding, or of all of a kind."""
    place = f"{_RBAC}/namespaces/{namespace}" if namespace else _RBAC
    return f"{place}/{plural}" + (f"/{name}" if name else "")


async def questioned(client: httpx.AsyncClient, world: PermissionWorld) -> list[Json]:
    """What a server answers to the questions of a world, in their order."""
    found: list[Json] = []
    for spec in world.questions():
        answer = await client.post(f"{_REVIEWS}/subjectaccessreviews", json=_review("SubjectAccessReview", spec))
        answer.raise_for_status()
        found.append(_evened(answer.json()["status"]))
    return found


def _review(kind: str, spec: Json) -> Json:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


def _evened(status: Json) -> Json:
    """A status in which roles that are not there are in the order of their names."""
    return {key: _evened_text(value) if isinstance(value, str) else value for key, value in status.items()}


def _evened_text(text: str) -> str:
    found = sorted(set(_ERRORS.findall(text)))
    if not found:
        return text
    first, last = text.index(_first_error(text)), text.rindex("not found") + len("not found")
    return f"{text[:first]}{', '.join(found)}{text[last:]}"


def _first_error(text: str) -> str:
    """The first error in a text about roles that are not there."""
    match = _ERRORS.search(text)
    assert match is not None
    return match[0]


class PlaneSide:
    """The kube-apiserver."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def answers(self, world: PermissionWorld) -> list[Json]:
        """All that it answers about a world, which is gone afterwards."""
        try:
            await self._make(world)
            found = await questioned(self._client, world)
            for asker, namespace in world.rules_asked():
                found.append(await self._rules(asker, namespace))
            for write in world.writes():
                found.append(await self._written(write))
            return found
        finally:
            await self._remove(world.seed)

    async def _make(self, world: PermissionWorld) -> None:
        for namespace in NAMESPACES:
            body = {"metadata": {"name": namespace}}
            made = await self._client.post("/api/v1/namespaces", json=body)
            assert made.status_code in {201, 409}, made.text
        for plural, namespace, document in world.objects:
            made = await self._client.post(path_of(plural, namespace), json=document)
            made.raise_for_status()
        wanted = _aggregated(world)
        for name, rules in wanted.items():
            await _until_there(self._client, path_of("clusterroles", "", name), rules)
        await self._until_seen(world)

    async def _until_seen(self, world: PermissionWorld) -> None:
        """Wait until its authorizer has seen everything: it follows four kinds, each in order."""
        name = f"w-{world.seed}-seen"
        rule = {"verbs": ["see"], "apiGroups": ["seen.example.com"], "resources": ["all"]}
        for plural, namespace in (("clusterroles", ""), ("roles", NAMESPACES[0])):
            kind = "ClusterRole" if not namespace else "Role"
            role = {"metadata": {"name": name, "labels": {LABEL: world.seed}}, "rules": [rule]}
            (await self._client.post(path_of(plural, namespace), json=role)).raise_for_status()
            binding = {
                "metadata": {"name": name, "labels": {LABEL: world.seed}},
                "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
                "subjects": [{"apiGroup": GROUP, "kind": "User", "name": f"{name}-{kind}"}],
            }
            (await self._client.post(path_of(f"{kind.lower()}bindings", namespace), json=binding)).raise_for_status()
            asked = {"verb": "see", "group": "seen.example.com", "resource": "all", "namespace": namespace}
            spec = {"user": f"{name}-{kind}", "resourceAttributes": asked}
            for _ in range(1000):
                answer = await self._client.post(
                    f"{_REVIEWS}/subjectaccessreviews", json=_review("SubjectAccessReview", spec)
                )
                if answer.json()["status"]["allowed"]:
                    break
            else:
                raise TimeoutError(f"{plural} are not seen")

    async def _rules(self, asker: Asker, namespace: str) -> Json:
        review = _review("SelfSubjectRulesReview", {"namespace": namespace})
        path = f"{_REVIEWS}/selfsubjectrulesreviews"
        answer = await self._client.post(path, json=review, headers=_with(self._client, asker))
        answer.raise_for_status()
        return _evened_rules(answer.json()["status"])

    async def _written(self, write: Write) -> Json:
        name = write.document["metadata"]["name"]
        method, path = ("POST", "") if write.is_new else ("PUT", name)
        answer = await self._client.request(
            method,
            path_of(write.plural, write.namespace, path),
            json=write.document,
            params={"dryRun": "All"},
            headers=_with(self._client, write.asker),
        )
        if answer.is_success:
            return {"code": 200}
        return {"code": answer.status_code, "message": _evened_text(answer.json()["message"])}

    async def _remove(self, seed: str) -> None:
        places = [("clusterroles", ""), ("clusterrolebindings", "")]
        places += [(plural, namespace) for plural in ("roles", "rolebindings") for namespace in NAMESPACES]
        for plural, namespace in places:
            await self._client.delete(path_of(plural, namespace), params={"labelSelector": f"{LABEL}={seed}"})


async def _until_there(client: httpx.AsyncClient, path: str, rules: list[Json]) -> None:
    """Wait until an aggregated role has the rules that it should have.

    Raises:
        AssertionError: it gets others.
    """
    found: Any = None
    for _ in range(2000):
        found = (await client.get(path)).json().get("rules") or []
        if found == rules:
            return
    raise AssertionError(f"{path} has other rules: {found} instead of {rules}")


def _with(client: httpx.AsyncClient, asker: Asker) -> httpx.Headers:
    return httpx.Headers([*client.headers.multi_items(), *asker.headers])


def _evened_rules(status: Json) -> Json:
    found = _evened(status)
    for field in ("resourceRules", "nonResourceRules"):
        rules = [{key: value for key, value in rule.items() if value} for rule in status.get(field) or ()]
        rules = [rule for rule in rules if rule.get("apiGroups") != _NOT_SERVED]
        found[field] = sorted(rules, key=lambda rule: json.dumps(rule, sort_keys=True))
    return found


def _aggregated(world: PermissionWorld) -> dict[str, list[Json]]:
    """The rules that the aggregated roles of a world should have."""
    roles = [document for plural, _, document in world.objects if plural == "clusterroles"]
    return {
        one["metadata"]["name"]: [rule.document() for rule in aggregated_rules(one, roles)]
        for one in roles
        if "aggregationRule" in one
    }


class OwnSide:
    """Moorage's gateway."""

    def __init__(self, gateway: Fixture) -> None:
        self._gateway = gateway
        store = gateway.store
        guards = WriteGuards(Authorizer(store))
        self._writer = Writer(store, gateway.log, gateway.clock, FeatureGates, guards)

    async def answers(self, world: PermissionWorld) -> list[Json]:
        """All that it answers about a world."""
        for plural, namespace, document in world.objects:
            await self._gateway.ok("POST", path_of(plural, namespace), document)
        await self._gateway.settled()
        found = await questioned(self._gateway.http, world)
        for asker, namespace in world.rules_asked():
            review = _review("SelfSubjectRulesReview", {"namespace": namespace})
            path = f"{_REVIEWS}/selfsubjectrulesreviews"
            headers = _with(self._gateway.http, asker)
            answer = await self._gateway.http.post(path, json=review, headers=headers)
            found.append(_evened_rules(answer.json()["status"]))
        for write in world.writes():
            found.append(await self._written(write))
        return found

    async def _written(self, write: Write) -> Json:
        kind = served_at(GROUP, "v1", write.plural)
        assert kind is not None
        caller = Caller(user=User(write.asker.name, write.asker.groups))
        document, name = write.document, write.document["metadata"]["name"]
        try:
            if write.is_new:
                await self._writer.create(kind, document, caller, dry_run=True)
            else:
                object_id = ObjectId(kind.kind, write.namespace, name)
                await self._writer.change(kind, object_id, lambda _: document, "update", caller, dry_run=True)
        except StatusError as error:
            return {"code": error.code, "message": _evened_text(error.message)}
        return {"code": 200}


@asynccontextmanager
async def own_side() -> AsyncIterator[OwnSide]:
    """A gateway with the roles that every fleet has."""
    async with Fixture(namespaces=NAMESPACES).running() as gateway:
        await gateway.app.state.first_content.run()
        await gateway.settled()
        yield OwnSide(gateway)


async def mine(seed: str) -> list[Json]:
    """What a gateway of its own answers about a world."""
    async with own_side() as side:
        return await side.answers(PermissionWorld(seed))


def is_same(world: PermissionWorld, place: int, theirs: Json, own: Json) -> bool:
    """Whether two answers agree."""
    if theirs == own:
        return True
    spec = next((one for number, one in enumerate(world.questions()) if number == place), None)
    if spec is None or not (theirs.get("allowed") and own.get("allowed")):
        return False
    return theirs["reason"] in reasons(world, spec)


def reasons(world: PermissionWorld, spec: Json) -> set[str]:
    """Why somebody may do something: what each binding of a world says that permits it."""
    user = User(spec["user"], tuple(spec["groups"]))
    asked = Attributes(**{"verb": "", **spec.get("resourceAttributes", {}), **spec.get("nonResourceAttributes", {})})
    found = set()
    bindings = [(namespace, one) for plural, namespace, one in world.objects if plural.endswith("bindings")]
    for namespace, document in (*bindings, *(("", one) for one in default_bindings())):
        policy = _roles_of(world)
        policy.put_binding(RoleBinding.of(namespace, document))
        found.add(policy.authorize(user, asked).reason)
    return found


def _roles_of(world: PermissionWorld) -> RbacPolicy:
    policy, aggregated = RbacPolicy(), _aggregated(world)
    for role in default_roles():
        policy.put_role(RoleKey("", role["metadata"]["name"]), rules_of(role["rules"]))
    for plural, namespace, document in world.objects:
        if not plural.endswith("bindings"):
            name = document["metadata"]["name"]
            rules = document["rules"] if namespace else aggregated.get(name, document["rules"])
            policy.put_role(RoleKey(namespace, name), rules_of(rules))
    return policy


def read() -> list[Json]:
    """The recorded worlds: the seed, and what a kube-apiserver answered."""
    return [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).decode().splitlines()]


async def compared(folder: Path, seed: str, count: int, *, record: bool, tell: Callable[[str], object]) -> Counter[str]:
    """Ask both about worlds, tell where they differ, and return how many answers there were and differed.

    Raises:
        PlaneMissingError: there is no control plane.
    """
    counted: Counter[str] = Counter()
    lines = []
    async with httpx.AsyncClient(**connection(folder)) as client:
        plane = PlaneSide(client)
        for number in range(count):
            world = PermissionWorld(f"{seed}-{number}")
            theirs, own = await plane.answers(world), await mine(world.seed)
            lines.append(json.dumps({"seed": world.seed, "answers": theirs}, sort_keys=True, separators=(",", ":")))
            for place, (one, other) in enumerate(zip(theirs, own, strict=True)):
                counted["answers"] += 1
                counted["allowed"] += bool(one.get("allowed"))
                counted["refused writes"] += one.get("code", 200) != 200
                if not is_same(world, place, one, other):
                    counted["differing"] += 1
                    parts = (json.dumps(part, sort_keys=True) for part in (one, other))
                    tell("{} {}\n  theirs: {}\n  mine:   {}\n".format(world.seed, place, *parts))
    if record:
        RECORDED.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    return counted


def main() -> int:
    """Compare, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="number of worlds, of 60 answers each (default 50)")
    parser.add_argument("--seed", default="", help="seed of the worlds; by default a new one")
    parser.add_argument("--plane", default=os.environ.get(VARIABLE, ""), help="folder with a kubeconfig")
    parser.add_argument("--record", action="store_true", help="keep the answers for the tests")
    options = parser.parse_args()
    seed = options.seed or secrets.token_hex(4)
    try:
        counted = asyncio.run(
            compared(Path(options.plane), seed, options.count, record=options.record, tell=sys.stdout.write)
        )
    except PlaneMissingError as problem:
        sys.stderr.write(f"permissions: {problem}\n")
        return 2
    sys.stdout.write(json.dumps({"seed": seed, "worlds": options.count, **counted}) + "\n")
    return 1 if counted["differing"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
