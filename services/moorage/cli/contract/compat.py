"""Checks that a changed schema still accepts every record that the old one accepted.

Compacted topics keep records forever, so new code reads what old code has written. A change that breaks this needs a
new version of the event type and of the topic. Then the old schema may be removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.cli.contract.jsonschemas import EVENT_TYPE, TOPIC

Schema = Mapping[str, Any]

_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_FIXED = ("pattern", "format", "multipleOf", "uniqueItems")
_VERSION = re.compile(r"^(?P<base>.+)\.v(?P<number>\d+)$")


@dataclass(frozen=True, slots=True)
class Breaking:
    """One change with which old records or old writers do not comply."""

    schema: str
    """The name of the schema."""

    path: str
    """The place in the schema, such as `spec.taints[].key`. Empty for the whole."""

    change: str
    """The change in words."""

    def __str__(self) -> str:
        return f"{self.schema}: {self.path or '(whole)'}: {self.change}"


def compare(old: Mapping[str, Schema], new: Mapping[str, Schema]) -> list[Breaking]:
    """Return every breaking change between two sets of schemas, which are compared by name."""
    found: list[Breaking] = []
    for name, before in sorted(old.items()):
        after = new.get(name)
        if after is None:
            if not _succeeded(before, new):
                found.append(Breaking(name, "", "the schema was removed, and no event of a higher version replaces it"))
            continue
        if before.get(TOPIC) != after.get(TOPIC):
            found.append(Breaking(name, "", f"the topic changed from {before.get(TOPIC)} to {after.get(TOPIC)}"))
        if before.get(EVENT_TYPE) != after.get(EVENT_TYPE):
            found.append(
                Breaking(name, "", f"the event type changed from {before.get(EVENT_TYPE)} to {after.get(EVENT_TYPE)}")
            )
        found += [Breaking(name, path, change) for path, change in _Comparison(before, after).run()]
    return found


def _succeeded(gone: Schema, new: Mapping[str, Schema]) -> bool:
    """Return whether an event of a higher version, on a topic of its own, replaces one that was removed."""
    match = _VERSION.match(str(gone.get(EVENT_TYPE, "")))
    if match is None:
        return False
    for other in new.values():
        successor = _VERSION.match(str(other.get(EVENT_TYPE, "")))
        if (
            successor is not None
            and successor["base"] == match["base"]
            and int(successor["number"]) > int(match["number"])
            and other.get(TOPIC) != gone.get(TOPIC)
        ):
            return True
    return False


@dataclass(slots=True)
class _Comparison:
    old_root: Schema
    new_root: Schema
    seen: set[tuple[str, str]] = field(default_factory=set)
    found: list[tuple[str, str]] = field(default_factory=list)

    def run(self) -> list[tuple[str, str]]:
        self.node("", self.old_root, self.new_root)
        return self.found

    def node(self, path: str, old: Schema, new: Schema) -> None:
        refs = (str(old.get("$ref", "")), str(new.get("$ref", "")))
        if all(refs):
            if refs in self.seen:
                return
            self.seen.add(refs)
        old, new = _resolve(self.old_root, old), _resolve(self.new_root, new)
        olds, news = _branches(self.old_root, old), _branches(self.new_root, new)
        if len(olds) > 1 or len(news) > 1:
            self.branches(path, olds, news)
            self.default(path, old, new)
            return
        before = len(self.found)
        self.scalars(path, olds[0], news[0])
        if len(self.found) == before:
            self.members(path, olds[0], news[0])
        self.default(path, old, new)

    def branches(self, path: str, olds: list[Schema], news: list[Schema]) -> None:
        """Check that each alternative that was accepted is still accepted by one."""
        for branch in olds:
            closest: list[tuple[str, str]] | None = None
            for candidate in news:
                trial = _Comparison(self.old_root, self.new_root, set(self.seen))
                trial.node(path, branch, candidate)
                if not trial.found:
                    closest = []
                    break
                if branch.get("type") == candidate.get("type") and closest is None:
                    closest = trial.found
            if closest is None:
                self.found.append((path, f"{_kinds(branch)} is no longer accepted"))
            else:
                self.found += closest

    def scalars(self, path: str, old: Schema, new: Schema) -> None:
        old_types, new_types = _types(old), _types(new)
        if new_types and not all(
            kind in new_types or (kind == "integer" and "number" in new_types) for kind in old_types
        ):
            self.say(path, f"the type narrowed from {_words(old_types)} to {_words(new_types)}")
        if new_types and not old_types:
            self.say(path, f"the type narrowed from anything to {_words(new_types)}")
        self.values(path, old, new)
        for name in _UPPER:
            if name in new and (name not in old or new[name] < old[name]):
                self.say(path, f"{name} fell from {old.get(name, 'none')} to {new[name]}")
        for name in _LOWER:
            if name in new and (name not in old or new[name] > old[name]):
                self.say(path, f"{name} rose from {old.get(name, 'none')} to {new[name]}")
        for name in _FIXED:
            if name in new and new[name] != old.get(name):
                self.say(path, f"{name} changed from {old.get(name, 'none')} to {new[name]}")

    def values(self, path: str, old: Schema, new: Schema) -> None:
        old_values, new_values = _values(old), _values(new)
        if new_values is None:
            return
        if old_values is None:
            self.say(path, f"only {_words(new_values)} is accepted now")
        elif gone := [value for value in old_values if value not in new_values]:
            self.say(path, f"{_words(gone)} is no longer accepted")

    def members(self, path: str, old: Schema, new: Schema) -> None:
        old_properties: Mapping[str, Schema] = old.get("properties", {})
        new_properties: Mapping[str, Schema] = new.get("properties", {})
        for name, schema in old_properties.items():
            where = f"{path}.{name}" if path else name
            if name not in new_properties:
                self.say(where, "the field was removed")
            else:
                self.node(where, schema, new_properties[name])
        for name in new.get("required", []):
            if name not in old.get("required", []):
                where = f"{path}.{name}" if path else name
                self.say(where, "a new required field" if name not in old_properties else "the field became required")
        old_rest, new_rest = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if old_rest is not False and new_rest is False:
            self.say(path, "fields that are not named are no longer accepted")
        elif isinstance(new_rest, Mapping) and old_rest is not False:
            self.node(f"{path}.*" if path else "*", old_rest if isinstance(old_rest, Mapping) else {}, new_rest)
        if "items" in new:
            self.node(f"{path}[]", old.get("items", {}), new["items"])

    def default(self, path: str, old: Schema, new: Schema) -> None:
        if "default" not in old:
            return
        if "default" not in new:
            self.say(path, f"the default {old['default']!r} was removed")
        elif new["default"] != old["default"]:
            self.say(path, f"the default changed from {old['default']!r} to {new['default']!r}")

    def say(self, path: str, change: str) -> None:
        self.found.append((path, change))


def _resolve(root: Schema, node: Schema) -> Schema:
    """Return the node with its `$ref` replaced by what it names. Keywords beside it take precedence."""
    reference = node.get("$ref")
    if reference is None:
        return node
    target: Any = root
    for part in str(reference).removeprefix("#/").split("/"):
        target = target[part.replace("~1", "/").replace("~0", "~")]
    rest = {name: value for name, value in node.items() if name != "$ref"}
    return {**_resolve(root, target), **rest}


def _branches(root: Schema, node: Schema) -> list[Schema]:
    options = node.get("anyOf") or node.get("oneOf")
    if options is None:
        return [node]
    return [branch for option in options for branch in _branches(root, _resolve(root, option))]


def _types(node: Schema) -> list[str]:
    kinds = node.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _values(node: Schema) -> list[Any] | None:
    if "const" in node:
        return [node["const"]]
    return list(node["enum"]) if "enum" in node else None


def _kinds(node: Schema) -> str:
    return _words(_values(node) or _types(node) or ["anything"])


def _words(values: list[Any]) -> str:
    return ", ".join(map(str, values))
