"""Kubeconfig files: what kubectl reads, with contexts for gateways of Moorage.

A cluster that Moorage has written carries an extension, as kubeconfig files allow. Commands of Moorage take the current
context for their own only if its cluster carries it, so a context for a Kubernetes cluster never becomes their server.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moorage.cli.api.credentials import NONE, Credentials, of_entry
from moorage.cli.errors import CliError
from moorage.runtime.settings import environment

MARK: Final = "moorage.io/gateway"
"""The name of the extension of a cluster that is a gateway of Moorage."""

NAME: Final = "moorage"
"""The name of the context, the cluster and the user, unless another is given."""

_SHOWN: Final = {"token": "REDACTED", "password": "REDACTED", "client-key-data": "DATA+OMITTED"}

Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """A context for a gateway of Moorage."""

    name: str
    server: str
    namespace: str
    """Empty if it has none."""

    cluster: Mapping[str, Any] = field(default_factory=dict)
    """The entry of its cluster."""

    user: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The entry of its user."""

    def credentials(self) -> Credentials:
        """Return what its user shows. Raises CliError if a file of it cannot be read."""
        return of_entry(self.cluster, self.user, path().parent)


def path() -> Path:
    """Return the file that kubectl reads and writes: the first of `KUBECONFIG`, otherwise `~/.kube/config`."""
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return Path(named[0]).expanduser() if named else Path.home() / ".kube" / "config"


def document(server: str, name: str = NAME, namespace: str = "", credentials: Credentials = NONE) -> Config:
    """Return a kubeconfig for one gateway, with what is shown to it."""
    cluster: Config = {"server": server, "extensions": [{"name": MARK, "extension": {"provider": MARK}}]}
    if credentials.ca_data:
        cluster["certificate-authority-data"] = base64.b64encode(credentials.ca_data.encode()).decode()
    if credentials.insecure:
        cluster["insecure-skip-tls-verify"] = True
    user: Config = {"token": credentials.token} if credentials.token else {}
    if credentials.cert_file:
        user["client-certificate"] = str(Path(credentials.cert_file).absolute())
        user["client-key"] = str(Path(credentials.key_file or credentials.cert_file).absolute())
    context = {"cluster": name, "user": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }


def merged(there: Mapping[str, Any], new: Mapping[str, Any]) -> Config:
    """Return a kubeconfig with the entries of another. Those of the same name are replaced, all others stay."""
    result: Config = {"apiVersion": "v1", "kind": "Config", **there}
    for part in ("clusters", "users", "contexts"):
        named = {one["name"] for one in new.get(part) or []}
        result[part] = [one for one in there.get(part) or [] if one.get("name") not in named] + list(new[part])
    result["current-context"] = new["current-context"]
    return result


def load(file: Path) -> Config:
    """Return the content of a kubeconfig. Empty if it does not exist.

    Raises:
        CliError: it cannot be read, or is not a kubeconfig.
    """
    import yaml  # noqa: PLC0415 - few commands need it, and it loads slowly

    from moorage.apiserver.machinery.yaml_events import check_events  # noqa: PLC0415 - loads yaml

    try:
        text = file.read_text("utf-8")
        check_events(yaml.parse(text))
        found = yaml.safe_load(text)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except yaml.YAMLError as error:
        raise CliError(f"{file}: not a kubeconfig: {' '.join(str(error).split())}") from None
    if found is not None and not isinstance(found, dict):
        raise CliError(f"{file}: not a kubeconfig: expected a mapping")
    return found or {}


def save(file: Path, config: Mapping[str, Any]) -> None:
    """Write a kubeconfig, readable for its owner alone, as kubectl does. Raises CliError if it cannot be written."""
    import yaml  # noqa: PLC0415 - as above

    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as text:
            text.write(yaml.safe_dump(dict(config), sort_keys=False))
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CliError(f"{file}: cannot be written: {error.strerror}") from None


def own_file(server: str, namespace: str = "", credentials: Credentials = NONE) -> Path:
    """Write a kubeconfig for a gateway to the state folder, for kubectl alone, and return its path."""
    file = environment.state_folder() / "kubeconfig"
    save(file, document(server, namespace=namespace, credentials=credentials))
    return file


def entries(config: Mapping[str, Any], part: str) -> dict[str, Config]:
    """Return the entries of a part of a kubeconfig, such as `contexts`, by their names."""
    singular = part.removesuffix("s")
    return {str(one.get("name")): one.get(singular) or {} for one in config.get(part) or []}


def contexts(config: Mapping[str, Any]) -> list[Context]:
    """Return the contexts for gateways of Moorage."""
    clusters, users = entries(config, "clusters"), entries(config, "users")
    found = []
    for name, body in entries(config, "contexts").items():
        cluster = clusters.get(str(body.get("cluster"))) or {}
        is_ours = any(mark.get("name") == MARK for mark in cluster.get("extensions") or [])
        if is_ours and (server := str(cluster.get("server") or "")):
            user = users.get(str(body.get("user"))) or {}
            found.append(Context(name, server, str(body.get("namespace") or ""), cluster, user))
    return found


def chosen(name: str = "") -> Context | None:
    """Return a context for a gateway of Moorage: the named one, or the current one if it is for a gateway.

    Raises:
        CliError: no context for a gateway has that name, or the file cannot be read.
    """
    file = path()
    if not _mentions_us(file):
        if name:
            raise CliError(f'context "{name}" does not exist in {file}, or is not for a gateway of Moorage')
        return None
    config = load(file)
    wanted = name or str(config.get("current-context") or "")
    for one in contexts(config):
        if one.name == wanted:
            return one
    if name:
        raise CliError(f'context "{name}" does not exist in {file}, or is not for a gateway of Moorage')
    return None


def _mentions_us(file: Path) -> bool:
    """Return whether a file may have a context for a gateway. Far quicker than reading it as YAML."""
    try:
        return MARK.encode() in file.read_bytes()
    except OSError:
        return False


def redacted(config: Config) -> Config:
    """Return a kubeconfig without its secrets, to show it."""
    users = [
        {**one, "user": {name: _SHOWN.get(name, value) for name, value in (one.get("user") or {}).items()}}
        for one in config.get("users") or []
    ]
    return {**config, "users": users} if "users" in config else config
