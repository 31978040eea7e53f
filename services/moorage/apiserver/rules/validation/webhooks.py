"""Validation of webhooks."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from moorage.decide.kubernetes.field_errors import FieldError, duplicate, invalid, required
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.webhook import WebhookSpec

_FILE: Final = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,252})")
_MAX_URL: Final = 2048


def validate_webhook(spec: WebhookSpec) -> list[FieldError]:
    """Validate a `Webhook`: its URL, the name of its file of secrets, its filters, and the time of a replay."""
    errors = _url(spec)
    if not spec.secret_file:
        errors.append(required("spec.secretFile", "names a file in the worker's folder of secrets"))
    elif not _FILE.fullmatch(spec.secret_file):
        rule = "must be the name of a file: letters, digits, '-', '_' and '.', beginning with a letter or digit"
        errors.append(invalid("spec.secretFile", spec.secret_file, rule))
    if not spec.events:
        errors.append(required("spec.events", "at least one must be named"))
    errors += [
        duplicate(f"spec.events[{number}]", event.value)
        for number, event in enumerate(spec.events)
        if event in spec.events[:number]
    ]
    for number, target in enumerate(spec.targets or ()):
        kind, slash, name = target.partition("/")
        if not slash or not name or kind not in set(TargetKind):
            rule = f"must be a kind ({', '.join(TargetKind)}), a slash, and a name or pattern, such as Node/*"
            errors.append(invalid(f"spec.targets[{number}]", target, rule))
    if spec.replay is not None and spec.replay.since > spec.replay.until:
        errors.append(
            invalid("spec.replay.since", spec.replay.since.isoformat(), "must not be after spec.replay.until")
        )
    return errors


def _url(spec: WebhookSpec) -> list[FieldError]:
    path = "spec.url"
    if not spec.url:
        return [required(path, "is where events are sent")]
    try:
        url = urlsplit(spec.url)
        host, _ = url.hostname, url.port
    except ValueError as error:
        return [invalid(path, spec.url, f"must be a URL: {error}")]
    rule = ""
    if len(spec.url) > _MAX_URL or not spec.url.isascii() or not spec.url.isprintable() or " " in spec.url:
        rule = f"must be at most {_MAX_URL} printable ASCII characters without spaces"
    elif url.scheme not in {"http", "https"} or not host:
        rule = "must be https://HOST/…, or http://HOST/…"
    elif url.username is not None or url.password is not None:
        return [FieldError(path, invalid(path, "", "").kind, "…", "must have no user or password")]
    elif url.fragment:
        rule = "must have no fragment"
    elif url.scheme == "http" and not spec.allow_insecure and not _is_loopback(url):
        rule = "must be https, unless the host is loopback or spec.allowInsecure is true"
    return [invalid(path, spec.url, rule)] if rule else []


def _is_loopback(url: SplitResult) -> bool:
    host = url.hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
