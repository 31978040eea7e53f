"""OpenAPI 2.0 from 3.0: what older clients read, kubectl among them.

Version 2 cannot say that a value is a number or a text. There it is a text, as it is in an API server's document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.machinery.openapi.schemas import REFERENCE

Json = dict[str, Any]

_DEFINITIONS: Final = "#/definitions/"
_METHODS: Final = ("get", "put", "post", "delete", "patch")


def schema(said: Mapping[str, Any], *, is_custom: bool = False) -> Json:
    """Return a schema of version 3 as version 2 has it.

    Args:
        said: the schema.
        is_custom: whether it is a part of a custom resource of upstream's. As an API server does, nothing is said there
            of values that may be of more than one type, such as null.
    """
    if is_custom and (said.get("nullable") or "oneOf" in said):
        return {name: said[name] for name in ("description",) if name in said}
    made: Json = {name: value for name, value in said.items() if name not in _TRANSLATED}
    if (reference := said.get("$ref")) is not None:
        made["$ref"] = str(reference).replace(REFERENCE, _DEFINITIONS)
    if (whole := said.get("allOf")) is not None:
        made |= schema(whole[0], is_custom=is_custom)
    if (choices := said.get("oneOf")) is not None:
        made["type"] = "string" if {"type": "string"} in choices else choices[0]["type"]
    if (either := said.get("anyOf")) is not None:
        made |= schema(either[0], is_custom=is_custom)
    if (properties := said.get("properties")) is not None:
        made["properties"] = {name: schema(one, is_custom=is_custom) for name, one in properties.items()}
    for name in ("items", "additionalProperties"):
        if isinstance(said.get(name), Mapping):
            made[name] = schema(said[name], is_custom=is_custom)
    return made


_TRANSLATED: Final = frozenset(
    {"$ref", "allOf", "oneOf", "anyOf", "properties", "items", "additionalProperties", "nullable", "default"}
)
"""The keywords that differ, and those that an API server leaves out of version 2."""


def path(said: Mapping[str, Any]) -> Json:
    """Return the operations of a path of version 3 as version 2 has them."""
    made: Json = {"parameters": [_parameter(one) for one in said["parameters"]]}
    for method in _METHODS:
        if (operation := said.get(method)) is not None:
            made[method] = _operation(operation)
    return made


def _operation(said: Mapping[str, Any]) -> Json:
    made: Json = {name: value for name, value in said.items() if name not in {"requestBody", "responses", "parameters"}}
    body = said.get("requestBody")
    made["consumes"] = list(body["content"]) if body is not None else ["*/*"]
    made["produces"] = list(next(iter(said["responses"].values()))["content"])
    made["schemes"] = ["http"]
    made["parameters"] = [_parameter(one) for one in said["parameters"]]
    if body is not None:
        shown = next(iter(body["content"].values()))["schema"]
        is_patch = said["x-kubernetes-action"] == "patch"
        one = {"name": "body", "in": "body", "schema": {"type": "object"} if is_patch else schema(shown)}
        made["parameters"].insert(0, {**one, "required": True} if body.get("required") else one)
    made["responses"] = {
        code: {"description": answer["description"], "schema": schema(next(iter(answer["content"].values()))["schema"])}
        for code, answer in said["responses"].items()
    }
    return made


def _parameter(said: Mapping[str, Any]) -> Json:
    return {**{name: value for name, value in said.items() if name != "schema"}, **said["schema"], "uniqueItems": True}
