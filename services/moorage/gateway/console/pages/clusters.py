"""The real clusters that bridges mirror, and when each bridge was last heard."""

from __future__ import annotations

from typing import Any, Final

from moorage.gateway.console.views import ConsolePage, Content, PageView
from moorage.gateway.http.cluster_paths import path_of
from moorage.gateway.http.request_attributes import CLUSTERS_PATH
from moorage_schemas.refs import HOME

_FORBIDDEN: Final = 403


async def listed(view: PageView) -> Content:
    """`/console/clusters`: what `moorage bridge list` shows, with the pages of each cluster.

    Raises:
        StatusError: no gateway leads that could say it.
    """
    answer = await view.api.call("GET", CLUSTERS_PATH)
    is_denied = answer.code == _FORBIDDEN
    if not is_denied:
        answer.check()
    rows = [_row(view, one) for one in answer.document.get("items") or ()] if not is_denied else []
    return Content("clusters.html", context={"rows": rows, "is_denied": is_denied})


def _row(view: PageView, found: dict[str, Any]) -> dict[str, Any]:
    name = str(found["name"])
    may_see = name == HOME or view.rights.may_see_cluster(name)
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
