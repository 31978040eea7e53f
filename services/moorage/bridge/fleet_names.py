"""The names under which clusters are mirrored."""

from __future__ import annotations

from typing import Final

HOME: Final = "home"
"""What the home fleet is called where a name is needed."""


def advice(source: str, fleet: str) -> str:
    """Return what to do about two clusters with one name."""
    others = "If the other one is gone for good, forget what was mirrored of it with"
    if source != source_of(fleet):  # a hub or a control plane, whose name is its kind
        return f"{others} `moorage bridge leave {source.removeprefix('bridge/')} --gone`"
    name = f" --cluster {fleet}" if fleet else ""
    return (
        "Two clusters cannot have one name: give this one another with --cluster. "
        f"{others} `moorage bridge leave{name} --gone`"
    )


def source_of(fleet: str) -> str:
    """Return the source of what the bridge to a Kubernetes cluster says."""
    return f"bridge/{fleet or HOME}"
