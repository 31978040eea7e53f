"""Random requests about patches, and the answers of Moorage to them.

A request is a dictionary, as the program in `ops/patching-vectors` reads it, which answers with upstream's own code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from typing import Any

from tests.support.typed_documents import Document, Documents, as_typed, openapi

from moorage.apiserver.machinery.openapi.registry import Origin, origin_of, schema_of
from moorage.apiserver.machinery.patching import json_patch, merge_patch, strategic_merge
from moorage.apiserver.machinery.patching.errors import PatchError
from moorage.apiserver.machinery.patching.server_side_apply import LAST_APPLIED, FieldManagement, reset_fields
from moorage.apiserver.machinery.schema import Schema

Request = dict[str, Any]
Answer = dict[str, Any]

KINDS = (
    ("", "v1", "Pod"),
    ("", "v1", "Node"),
    ("", "v1", "Service"),
    ("", "v1", "ConfigMap"),
    ("apps", "v1", "Deployment"),
    ("batch", "v1", "Job"),
    ("policy", "v1", "PodDisruptionBudget"),
)
CUSTOM_KINDS = (
    ("cluster.open-cluster-management.io", "v1", "ManagedCluster"),
    ("cluster.open-cluster-management.io", "v1beta1", "Placement"),
    ("policy.karmada.io", "v1alpha1", "PropagationPolicy"),
)
NEW = datetime(2100, 1, 1, tzinfo=UTC)
"""The time of every write here, which the oracle puts in the place of its own."""

_NEW_TEXT = "2100-01-01T00:00:00Z"
_DECODING = "failed to convert new object"
_MANAGERS = ("kubectl", "alice", "bob", "carol")


def schema_for(request: Request) -> Schema:
    """The schema of the kind of a request."""
    return schema_of(request["group"], request["version"], request["kind"])


def is_custom(request: Request) -> bool:
    """Whether the kind is a custom resource."""
    return origin_of(request["group"], request["kind"]) is Origin.CUSTOM


def models(request: Request) -> Document:
    """The definition of a custom resource, which the oracle needs."""
    return openapi(schema_for(request), request["group"], request["version"], request["kind"])


def answered(request: Request) -> Answer:
    """What Moorage answers."""
    try:
        return {"result": _ANSWERS[request["op"]](request)}
    except PatchError as error:
        causes = [[cause.reason, cause.message, cause.field] for cause in error.causes]
        return {"code": error.code, "error": error.message, **({"causes": causes} if causes else {})}


def differs(request: Request, theirs: Answer, mine: Answer) -> bool:
    """Whether two answers differ in what counts."""
    if theirs.get("error", "").startswith(_DECODING):
        return False  # what is merged does not fit upstream's type, which is checked when it is decoded
    if ("result" in theirs) != ("result" in mine):
        return True
    if "result" not in theirs:
        # Upstream's API server replaces the messages of some errors.
        is_replaced = request["op"] in {"json", "merge"} or (theirs["code"], mine["code"]) == (500, 422)
        return not is_replaced and _refusal(theirs) != _refusal(mine)
    if request.get("is_defaulted"):
        return _differs_but_for_defaults(request, theirs["result"], mine["result"])
    return bool(comparable(request, theirs["result"]) != comparable(request, mine["result"]))


def _differs_but_for_defaults(request: Request, theirs: Document, mine: Document) -> bool:
    """Whether a result differs in more than what an API server fills in.

    What Moorage has must be there, too. Of what is there and Moorage does not have, the server's answer to a
    replacement by Moorage's result tells whether it is a default, where it was asked.
    """
    if request["op"] == "apply" and _entries(theirs) != _entries(mine):
        return True
    replaced = request.get("replaced")
    if replaced is not None and _substance(replaced) != _substance(theirs):
        return True
    return not _is_within(_substance(mine), _substance(theirs))


def _entries(document: Document) -> list[Document]:
    """The entries of `managedFields` without their times, each of which is its own server's."""
    found = [dict(one) for one in document["metadata"].get("managedFields", [])]
    for one in found:
        one.pop("time", None)
    return sorted(found, key=lambda one: json.dumps(one, sort_keys=True))


def _substance(document: Document) -> Document:
    """An object without what changes with every write."""
    metadata = {key: one for key, one in document.get("metadata", {}).items() if key not in _OF_A_WRITE}
    return {**document, "metadata": metadata}


_OF_A_WRITE = {"managedFields", "resourceVersion", "generation"}


def _is_within(mine: Any, theirs: Any) -> bool:
    if not mine and theirs is None:
        return True  # upstream's types leave out what is empty
    if isinstance(mine, dict):
        return isinstance(theirs, dict) and all(_is_within(one, theirs.get(key)) for key, one in mine.items())
    if isinstance(mine, list):
        return isinstance(theirs, list) and len(mine) == len(theirs) and all(map(_is_within, mine, theirs))
    return bool(mine == theirs)


def _refusal(answer: Answer) -> tuple[str, list[list[str]]]:
    return answer["error"], sorted(answer.get("causes", []))


def places(theirs: Any, mine: Any, path: str = "") -> Iterator[str]:
    """Where two results differ, for people to read."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in {**theirs, **mine}:
            yield from places(theirs.get(key), mine.get(key), f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(mine, list) and len(theirs) == len(mine):
        for number, (one, other) in enumerate(zip(theirs, mine, strict=True)):
            yield from places(one, other, f"{path}[{number}]")
    elif theirs != mine:
        yield f"{path}: upstream {json.dumps(theirs)}, Moorage {json.dumps(mine)}"


def comparable(request: Request, result: Any) -> Any:
    """A result in one shape, whoever has made it."""
    if request["op"] not in {"apply", "update"}:
        return result
    result = json.loads(json.dumps(result))
    metadata = result.setdefault("metadata", {})
    entries = metadata.pop("managedFields", None) or []
    if "is_plane" in request:
        entries = _entries({"metadata": {"managedFields": entries}})
    result = _without_nothing(result) if is_custom(request) else as_typed(result, schema_for(request))
    return {"result": result, "entries": entries}


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_nothing(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one is not None}
    return [_without_nothing(one) for one in value] if isinstance(value, list) else value


def moved_to(step: int, result: Document) -> Document:
    """The result of a step of a chain as the next one finds it: some time ago, and known to exist."""
    live: Document = json.loads(json.dumps(result).replace(_NEW_TEXT, f"2020-01-01T00:00:0{step}Z"))
    live["metadata"] = {**live.get("metadata", {}), "uid": "1"}
    return live


# Moorage's answers


def _management(request: Request) -> FieldManagement:
    group, version = request["group"], request["version"]
    return FieldManagement(
        schema_for(request),
        f"{group}/{version}" if group else version,
        request["kind"],
        subresource=request.get("subresource", ""),
        reset=[tuple(path) for path in request["reset"]],
        is_custom=is_custom(request),
    )


_ANSWERS: dict[str, Callable[[Request], Any]] = {
    "strategic": lambda r: strategic_merge.applied(r["document"], r["patch"], schema_for(r)),
    "json": lambda r: json_patch.applied(r["document"], r["patch"]),
    "merge": lambda r: merge_patch.applied(r["document"], r["patch"]),
    "merge_two_way": lambda r: merge_patch.two_way(r["original"], r["modified"]),
    "update": lambda r: _management(r).updated(r["document"], r["modified"], r["manager"], NEW),
    "apply": lambda r: _management(r).applied(r["document"], r["patch"], r["manager"], NEW, force=r["force"]),
}


OPERATIONS = _ANSWERS.keys()
"""What is compared."""


# Random requests


class Requests:
    """Makes random requests from a seed."""

    def __init__(self, seed: str, typed: Callable[[Request, Document], Document]) -> None:
        """Prepare.

        Args:
            seed: of everything that is random.
            typed: brings a document of a built-in kind into the shape of upstream's type.
        """
        self._documents = Documents(seed)
        self._random = self._documents.random
        self._typed = typed

    def one(self) -> Request:
        """A request that stands alone."""
        group, version, kind = self._random.choice((*KINDS, *KINDS, *CUSTOM_KINDS))
        base = {"group": group, "version": version, "kind": kind}
        schema = schema_for(base)
        first = self._whole(base, schema)
        second = self._documents.changed(first, schema)
        first, second = self._typed(base, first), self._typed(base, second)
        ops = ["json", "merge", "merge_two_way"] + ["strategic"] * 3 * (not is_custom(base))
        op = self._random.choice(ops)
        if op == "strategic":
            patch = self._strategic(first, second)
            return {**base, "op": op, "document": first, "patch": patch}
        if op == "json":
            return {**base, "op": op, "document": first, "patch": self._operations(first)}
        if op == "merge":
            patch = self._with_nulls(self._documents.changed(second, schema))
            return {**base, "op": op, "document": first, "patch": patch}
        return {**base, "op": op, "original": first, "modified": second}

    def chain(self) -> Generator[Request, Answer, None]:
        """Requests of several managers for one object. The answer to each is the `document` of the next.

        Each request is yielded without `document`, and the answer of upstream is to be sent back.
        """
        pick = self._random
        group, version, kind = pick.choice((*KINDS, *KINDS, *CUSTOM_KINDS))
        base = {"group": group, "version": version, "kind": kind}
        schema = schema_for(base)
        live: Document | None = None
        for step in range(pick.randint(3, 8)):
            has_status = "status" in schema.fields
            status = live is not None and has_status and pick.random() < 0.2
            reset = reset_fields(
                group, kind, "status" if status else "", has_status=has_status, is_custom=is_custom(base)
            )
            request: Request = {
                **base,
                "document": live,
                "reset": [list(path) for path in reset],
                "force": pick.random() < 0.3,
            }
            request["subresource"] = "status" if status else ""
            request["manager"] = pick.choice(_MANAGERS)
            if pick.random() < 0.5:
                request |= {"op": "update", "modified": self._modified(base, live, schema)}
            else:
                request |= {"op": "apply", "patch": self._config(base, live, schema)}
            answer = yield request
            if "result" in answer:
                live = moved_to(step, answer["result"])

    def _whole(self, base: Request, schema: Schema) -> Document:
        group = base["group"]
        return self._documents.whole(schema, f"{group}/{base['version']}" if group else base["version"], base["kind"])

    def _modified(self, base: Request, live: Document | None, schema: Schema) -> Document:
        if live is None:
            return self._typed(base, self._whole(base, schema))
        changed = self._typed(base, self._documents.changed(live, schema))
        metadata = dict(changed.get("metadata", {}))
        if self._random.random() < 0.3:
            metadata.pop("managedFields", None)
        elif self._random.random() < 0.05:
            metadata["managedFields"] = self._random.choice(([], [{}]))
        return {**changed, "metadata": {**metadata, "uid": "1"}}

    def _config(self, base: Request, live: Document | None, schema: Schema) -> Document:
        """What a manager applies: a part of what is there, changed."""
        pick = self._random
        config = self._whole(base, schema)
        if live is not None and pick.random() < 0.7:
            metadata = {key: one for key, one in live["metadata"].items() if key not in {"managedFields", "uid"}}
            source = {**live, "metadata": metadata}
            if pick.random() < 0.6:
                source = self._documents.changed(source, schema)
            config = self._thinned(source, schema)
        config = {**config, "apiVersion": (live or config).get("apiVersion"), "kind": base["kind"]}
        config["metadata"] = {**config.get("metadata", {}), "name": "one"}
        config["metadata"].pop("uid", None)
        if pick.random() < 0.1:
            last = {**config, "spec": config.get("spec")} if pick.random() < 0.5 else config
            annotations = {**(config["metadata"].get("annotations") or {}), LAST_APPLIED: json.dumps(last)}
            config["metadata"]["annotations"] = annotations
        if pick.random() < 0.1:
            config["spec"] = self._spoilt(config.get("spec"))
        return config

    def _spoilt(self, value: Any) -> Any:
        """A value with a mistake somewhere in it."""
        pick = self._random
        if pick.random() < 0.3 or not value or not isinstance(value, (dict, list)):
            return pick.choice((None, "a", 1, 1.5, True, [1], ["a", "a"], {"a": 1}, [[1]], [None]))
        if isinstance(value, list):
            where = pick.randrange(len(value))
            if pick.random() < 0.3:
                return [*value, value[where]]
            return [self._spoilt(one) if number == where else one for number, one in enumerate(value)]
        if pick.random() < 0.3:
            return {**value, "unknown": 1}
        where = pick.choice(sorted(value))
        return {**value, where: self._spoilt(value[where])}

    def _thinned(self, value: Any, schema: Schema) -> Any:
        if isinstance(value, dict):
            keys = {"name", *schema.list_keys}
            return {
                key: self._thinned(one, below)
                for key, one in value.items()
                if one is not None and (self._random.random() < 0.8 or key in keys or schema.form.value != "struct")
                for below in [schema.at(key) or Schema(schema.form)]
            }
        if isinstance(value, list) and schema.items is not None:
            found = []
            for one in value:
                if self._random.random() < 0.8:
                    thin = self._thinned(one, schema.items)
                    if isinstance(one, dict):
                        thin |= {key: one[key] for key in schema.list_keys if key in one}
                    found.append(thin)
            return found
        return value

    def _strategic(self, first: Document, second: Document) -> Document:
        if self._random.random() < 0.6:
            patch = merge_patch.two_way(first, second)
        else:
            patch = {key: one for key, one in second.items() if key not in {"apiVersion", "kind"}}
        marked: Document = self._marked(patch)
        return marked

    def _marked(self, patch: Any) -> Any:
        """A patch with more marks in it, some of them wrong."""
        if isinstance(patch, list):
            return self._marked_list([self._marked(one) for one in patch])
        return self._marked_object(patch) if isinstance(patch, dict) else patch

    def _marked_list(self, elements: list[Any]) -> list[Any]:
        pick = self._random
        if not elements or not all(isinstance(one, dict) and one for one in elements):
            return elements
        where = pick.randrange(len(elements))
        if pick.random() < 0.15:
            elements[where] = {
                **elements[where],
                "$patch": pick.choice(("delete", "delete", "replace", "merge", "bad")),
            }
        if pick.random() < 0.03:
            elements[0].pop(next(iter(elements[0])))
        return elements

    def _marked_object(self, patch: Document) -> Document:
        pick = self._random
        result: Document = {}
        for key, one in patch.items():
            if pick.random() < 0.03:
                result[key] = None
                continue
            result[key] = one if key.startswith("$") else self._marked(one)
            if isinstance(one, list) and one and not key.startswith("$") and pick.random() < 0.2:
                for mark, value in self._marks_of_list(key, one):
                    result.setdefault(mark, value)
        if pick.random() < 0.04:
            result["$patch"] = pick.choice(("replace", "delete", "merge"))
        if pick.random() < 0.04:
            result["$retainKeys"] = [*pick.sample(sorted(result), pick.randint(0, len(result))), "name"]
        return result

    def _marks_of_list(self, key: str, elements: list[Any]) -> Iterator[tuple[str, Any]]:
        pick = self._random
        if isinstance(elements[0], dict) and "name" in elements[0]:
            order = [{"name": element.get("name")} for element in elements if isinstance(element, dict)]
            if pick.random() < 0.3:
                pick.shuffle(order)
            yield f"$setElementOrder/{key}", order
        elif isinstance(elements[0], str):
            yield f"$deleteFromPrimitiveList/{key}", pick.sample(("a", "b", "x/a"), 2)
            if pick.random() < 0.5:
                yield f"$setElementOrder/{key}", [*elements, "x/c"]

    def _with_nulls(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: None if self._random.random() < 0.1 else self._with_nulls(one) for key, one in value.items()}
        return value

    def _operations(self, document: Document) -> list[Document]:
        pick = self._random
        places = list(_places(document, ""))
        found = []
        for _ in range(pick.randint(1, 4)):
            path, value = pick.choice(places)
            other, _ = pick.choice(places)
            if pick.random() < 0.2:
                path += pick.choice(("/-", "/0", "/1", "/-1", "/missing", "/a/b"))
            op = pick.choice(("add", "remove", "replace", "move", "copy", "test", "test", "bad"))
            operation: Document = {"op": op, "path": path}
            if op in {"move", "copy"}:
                operation["from"] = other
            elif op != "remove" and pick.random() < 0.95:
                operation["value"] = value if pick.random() < 0.7 else pick.choice((None, 1, "a", [], {"a": None}))
            found.append(operation)
        return found


def _places(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if path:
        yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _places(one, f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}")
