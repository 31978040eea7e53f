"""The names under which clusters are mirrored."""

from __future__ import annotations

from moorage_schemas.refs import HOME


def advice(source: str, fleet: str) -> str:
    """Return what to do about two clusters with one name."""
    others = "If the other one no longer exists, remove its mirrored objects with"
    if source != source_of(fleet):  # a hub or a control plane, whose name is its kind
        return f"{others} `moorage bridge leave {source.removeprefix('bridge/')} --gone`"
    name = f" --cluster {fleet}" if fleet else ""
    return (
        "Two clusters cannot have one name: give this one another with --cluster. "
        f"{others} `moorage bridge leave{name} --gone`"
    )


def advice_on_names(fleet: str, other: str) -> str:
    """Return what to do about one cluster with two names.

    Args:
        fleet: the name that its bridge gives it. Empty for the home fleet.
        other: the name under which it is mirrored already, or `home`.
    """
    own, others = (f"--cluster {name}" if name else "" for name in (fleet, "" if other == HOME else other))
    command = f"moorage bridge leave {others}".rstrip()
    return (
        f"This bridge has {own or 'no --cluster'}, and the other one {others or 'no --cluster'}. Run one of them only. "
        "To give the cluster the name of this one, stop the other one, and forget what it has mirrored with "
        f"`{command}`"
    )


def source_of(fleet: str) -> str:
    """Return the source of the reports of the bridge to a Kubernetes cluster."""
    return f"bridge/{fleet or HOME}"


def lease_of(fleet: str) -> str:
    """Return the name of the Lease that elects one of several bridges of a cluster.

    A bridge that has another name for the cluster has another Lease. So it does not wait: the gateway refuses what it
    sends, and it ends.
    """
    return f"moorage-bridge-{fleet or HOME}"
