"""The manifests of ops/kubernetes as kustomize and helm make them, and what their pods are given."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from tests.kubectl import programs

ROOT: Final = Path(__file__).parents[2]
KUBERNETES: Final = ROOT / "ops" / "kubernetes"
CHART: Final = KUBERNETES / "chart"
NAMESPACE: Final = "moorage"

KUSTOMIZATIONS: Final = ("base", "overlays/bridge", "overlays/bridges", "overlays/dev", "overlays/production")
"""What kustomize builds for the cluster that Moorage runs in."""

REMOTE: Final[dict[str, tuple[str, ...]]] = {
    kind: (f"bridge/{kind}", f"bridge/{kind}/acts") for kind in ("kubernetes", "ocm", "karmada")
}
"""What kustomize builds for a cluster that is bridged from elsewhere: the account that reads, and the acts."""

BRIDGES: Final[tuple[dict[str, Any], ...]] = (
    {"name": "home", "kind": "kubernetes", "acts": ["taints", "evictions", "placement", "conditions"]},
    {
        "name": "east",
        "kind": "kubernetes",
        "cluster": "east",
        "acts": ["taints", "evictions", "placement", "conditions"],
        "kubeconfigSecret": "moorage-bridge-east-kubeconfig",
    },
    {
        "name": "west",
        "kind": "kubernetes",
        "cluster": "west",
        "kubeconfigSecret": "moorage-bridge-west-kubeconfig",
    },
    {
        "name": "hub",
        "kind": "ocm",
        "acts": ["placements", "taints", "labels"],
        "kubeconfigSecret": "moorage-bridge-hub-kubeconfig",
    },
    {
        "name": "karmada",
        "kind": "karmada",
        "acts": ["taints", "bindings"],
        "kubeconfigSecret": "moorage-bridge-karmada-kubeconfig",
    },
)
"""The bridges of the overlays, as values of the chart."""

BRIDGED: Final = ("overlays/bridge/home", *(f"overlays/bridges/{one['name']}" for one in BRIDGES[1:]))
"""The overlays of these bridges."""


def bridges(*wanted: Mapping[str, Any]) -> str:
    """The option that gives the chart bridges."""
    return f"--set-json=bridges={json.dumps(wanted)}"


WHOLE: Final = (
    "--set=kafka.strimzi.enabled=true,keda.enabled=true,monitoring.enabled=true",
    bridges(*BRIDGES),
)
"""The options that turn on everything that the chart has."""

CLUSTER_TOKENS: Final = "--set=clusterTokens.enabled=true"
"""The option with which bridges show tokens of the cluster."""

CHARTS: Final[dict[str, tuple[str, ...]]] = {
    "chart": (),
    "chart with everything": WHOLE,
    "chart without chains": (*WHOLE, "--set=chained=false"),
    "chart with tokens of the cluster": (*WHOLE, CLUSTER_TOKENS),
}
"""What helm renders: names, and the options of each."""

Manifest = dict[str, Any]

_HASH: Final = re.compile(r"\b(moorage-[a-z-]*settings)-[a-z0-9]{10}\b")
"""What kustomize puts at the end of the name of a ConfigMap that it generates."""

_OF_HELM: Final = ("helm.sh/hook", "helm.sh/chart", "app.kubernetes.io/managed-by")
_SECONDS: Final = 180.0


def kubectl() -> str:
    """The kubectl that is there. Empty if there is none."""
    return next((one.command[0] for one in programs.found()), "")


def is_complete() -> bool:
    """Whether this machine has what makes the manifests."""
    return bool(kubectl()) and programs.helm().exists()


@cache
def kustomized(folder: str) -> str:
    """What kustomize makes of a folder in ops/kubernetes, such as `base`."""
    return _run(kubectl(), "kustomize", str(KUBERNETES / folder))


def combined(folder: Path, *components: str, bridges: Sequence[str] = ()) -> str:
    """What kustomize makes of the base, bridges and components in an overlay of one's own, written into a folder."""

    def places(folders: Iterable[str]) -> list[str]:
        return [os.path.relpath(KUBERNETES / one, folder) for one in folders]

    overlay = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    text = yaml.safe_dump({**overlay, "resources": places(["base", *bridges]), "components": places(components)})
    (folder / "kustomization.yaml").write_text(text, "utf-8")
    return _run(kubectl(), "kustomize", str(folder))


def templated(*options: str) -> str:
    """What helm makes of the chart."""
    return _run(str(programs.helm()), "template", "moorage", str(CHART), "--namespace", NAMESPACE, *options)


def refused(*options: str) -> str:
    """Why helm makes nothing of the chart."""
    words = [str(programs.helm()), "template", "moorage", str(CHART), *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_SECONDS)
    assert done.returncode != 0
    return done.stderr


def made(form: str) -> str:
    """What kustomize or helm makes of one of `KUSTOMIZATIONS` or `CHARTS`."""
    return templated(*CHARTS[form]) if form in CHARTS else kustomized(form)


def linted(*options: str) -> str:
    """What helm says of the chart."""
    return _run(str(programs.helm()), "lint", "--strict", str(CHART), *options)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> dict[str, Manifest]:
    """The objects by kind and name, without what only says by which program they were made."""
    found = {}
    for one in yaml.safe_load_all(_HASH.sub(r"\1", text)):
        if one is not None:
            key = f"{one['kind']}/{one['metadata']['name']}"
            assert key not in found, f"{key} is there twice"
            found[key] = one
    return found


def without_makers(one: Manifest) -> Manifest:
    """An object without the labels and annotations that helm adds."""
    made = copy.deepcopy(one)
    for metadata in (made["metadata"], made.get("spec", {}).get("template", {}).get("metadata", {})):
        for name in _OF_HELM:
            metadata.get("labels", {}).pop(name, None)
        metadata.get("annotations", {}).pop("checksum/settings", None)
        if metadata.get("annotations") == {}:
            del metadata["annotations"]
    return made


def component(one: Manifest) -> str:
    """The component that an object belongs to. Empty for none."""
    return str(one["metadata"].get("labels", {}).get("app.kubernetes.io/component", ""))


def workloads(found: Mapping[str, Manifest]) -> Iterator[Manifest]:
    """The objects that have pods."""
    for one in found.values():
        if one["kind"] in ("Deployment", "StatefulSet", "Job") and one["apiVersion"] in ("apps/v1", "batch/v1"):
            yield one


def pod(one: Manifest) -> Manifest:
    """The spec of the pods of a workload."""
    spec: Manifest = one["spec"]["template"]["spec"]
    return spec


def container(one: Manifest) -> Manifest:
    """The only container of the pods of a workload."""
    (only,) = pod(one)["containers"]
    found: Manifest = only
    return found


def environment(found: Mapping[str, Manifest], one: Manifest, fields: Mapping[str, str]) -> dict[str, str]:
    """The variables of the pods of a workload, as a kubelet makes them.

    Args:
        found: all objects, with the ConfigMaps that are referred to.
        one: the workload.
        fields: the values of fields of the pod, such as `metadata.name`.
    """
    only = container(one)
    made: dict[str, str] = {}
    for source in only.get("envFrom", ()):
        made |= found[f"ConfigMap/{source['configMapRef']['name']}"]["data"]
    for variable in only.get("env", ()):
        if "value" in variable:
            # A reference is replaced only if the variable is defined before.
            value = re.sub(r"\$\((\w+)\)", lambda match: made.get(match[1], match[0]), variable["value"])
        else:
            value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        made[variable["name"]] = value
    return made
