"""`Ingress` (networking.k8s.io/v1)."""

from __future__ import annotations

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.kubernetes import first_of
from moorage.decide.kubernetes.unstructured import at


def _hosts(found: Object) -> str:
    rules = at(found, "spec", "rules")
    hosts = (
        [str(one["host"]) for one in rules if isinstance(one, dict) and one.get("host")]
        if isinstance(rules, list)
        else []
    )
    return first_of(hosts) or "*"


def _addresses(found: Object) -> str:
    entries = at(found, "status", "loadBalancer", "ingress")
    known = (
        [one.get("ip") or one.get("hostname") for one in entries if isinstance(one, dict)]
        if isinstance(entries, list)
        else []
    )
    return ",".join(str(one) for one in known if one)


class IngressKind(StoredKind):
    """Which requests from outside go to which service. Those who run the work follow it."""

    group = "networking.k8s.io"
    kind = "Ingress"
    plural = "ingresses"
    singular = "ingress"
    short_names = ("ing",)
    order = 114
    status_shown = True
    api_columns = (
        TableColumn("CLASS", text("spec", "ingressClassName")),
        TableColumn("HOSTS", of(_hosts)),
        TableColumn("ADDRESS", of(_addresses)),
        TableColumn("PORTS", of(lambda found: "80, 443" if at(found, "spec", "tls") else "80")),
        AGE,
    )


KIND = IngressKind()
