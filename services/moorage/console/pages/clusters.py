"""The real clusters that bridges mirror, and when each bridge was last heard."""

from __future__ import annotations

from typing import Any, Final

from moorage.console import api
from moorage.console.addresses import path_of
from moorage.console.views import ConsolePage, Content, PageView
from moorage_schemas.refs import HOME

_FORBIDDEN: Final = 403


async def listed(view: PageView) -> Content:
    """`/console/clusters`: what `moorage bridge list` shows, with the pages of each cluster.

    Raises:
        PageError: no gateway leads that could say it.
    """
    answer = await view.api.call("GET", api.CLUSTERS)
    is_denied = answer.code == _FORBIDDEN
    if not is_denied:
        answer.check()
    rows = [await _row(view, one) for one in answer.document.get("items") or ()] if not is_denied else []
    return Content("clusters.html", context={"rows": rows, "is_denied": is_denied})


async def _row(view: PageView, found: dict[str, Any]) -> dict[str, Any]:
    name = str(found["name"])
    may_see = name == HOME or await view.rights.may_see_cluster(name)
    address = "" if not may_see else "/" if name == HOME else f"{path_of(name)}/console"
    return {
        "name": name,
        "address": address,
        "source": str(found["source"]),
        "targets": found["targets"],
        "workloads": found["workloads"],
        "heard": str(found.get("lastHeardTime") or ""),
    }


PAGES: Final = (ConsolePage("/console/clusters", listed, in_clusters=False),)
