"""Checks of certificates: those in files, and those that servers present."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from moorage.insight.survey.findings import Finding, Level

CERTIFICATES: Final = "certificates"

_SOON: Final = timedelta(days=14)
"""The remaining validity below which there is a warning. The local certificates live for a week and are renewed."""

_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class Presented:
    """A certificate, and where it was found."""

    place: str
    """A file or an address."""

    renewed: bool
    """Whether Moorage renews it itself, so that a short validity is normal."""

    pem: bytes


def in_file(file: str, *, renewed: bool = False) -> Presented | Finding:
    """Return the first certificate of a file, or why it cannot be read."""
    try:
        return Presented(file, renewed, Path(file).read_bytes())
    except OSError as error:
        remedy = "check the path and the permissions of the file"
        return Finding(Level.ERROR, CERTIFICATES, f"{file}: cannot be read: {error.strerror or error}", remedy)


def of_server(host: str, port: int, *, renewed: bool = False) -> Presented | Finding:
    """Return the certificate that a server presents, by any authority, or why there is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # only its dates are read; clients check the rest
    context.verify_mode = ssl.CERT_NONE
    place = f"{host}:{port}"
    try:
        with (
            contextlib.closing(socket.create_connection((host, port), timeout=_TIMEOUT)) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            found = secured.getpeercert(binary_form=True)
    except OSError as error:
        return Finding(Level.UNKNOWN, CERTIFICATES, f"{place}: no certificate was received: {error}")
    return Presented(place, renewed, ssl.DER_cert_to_PEM_cert(found or b"").encode())


def certificate_findings(found: Iterable[Presented | Finding], now: datetime) -> list[Finding]:
    """Return the certificates that have expired or will soon, or that none has."""
    findings, ends = [], dict[str, datetime]()
    for one in found:
        if isinstance(one, Finding):
            findings.append(one)
            continue
        try:
            certificate = x509.load_pem_x509_certificate(one.pem)
        except ValueError as error:
            text = f"{one.place}: not a certificate in PEM: {error}"
            findings.append(Finding(Level.ERROR, CERTIFICATES, text, "replace the file"))
            continue
        end, begin = certificate.not_valid_after_utc, certificate.not_valid_before_utc
        ends[one.place] = end
        if end <= now or begin > now:
            word = f"expired on {end:%Y-%m-%d}" if end <= now else f"is not valid before {begin:%Y-%m-%d %H:%M} UTC"
            text = f"the certificate of {one.place} {word}"
            findings.append(Finding(Level.ERROR, CERTIFICATES, text, "renew it, and check the clock of this machine"))
        elif end - now < _SOON and not one.renewed:
            text = f"the certificate of {one.place} expires on {end:%Y-%m-%d}"
            findings.append(Finding(Level.WARNING, CERTIFICATES, text, "renew it"))
    if ends and not findings:
        first = min(ends, key=ends.__getitem__)
        text = (
            f"{len(ends)} certificate{'s are' if len(ends) > 1 else ' is'} valid, {first} until {ends[first]:%Y-%m-%d}"
        )
        findings.append(Finding(Level.OK, CERTIFICATES, text))
    return findings
