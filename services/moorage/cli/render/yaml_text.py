"""YAML as people write it."""

from __future__ import annotations

from typing import Any

import yaml
from typing_extensions import override


class PlainDumper(yaml.SafeDumper):
    """YAML without anchors. Equal parts are repeated, as people and tools expect."""

    @override
    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Dumper(PlainDumper):
    """YAML in which texts of many lines are blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump(document: Any) -> str:
    """Return a document as YAML."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
