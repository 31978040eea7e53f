"""Kubernetes' named formats of texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from typing_extensions import override

from moorage.decide.kubernetes.cel.declarations import Frame, Overload, charge, function, method
from moorage.decide.kubernetes.cel.functions import times
from moorage.decide.kubernetes.cel.functions.urls import is_request_uri
from moorage.decide.kubernetes.cel.types import STRING, Type, list_of, optional_of
from moorage.decide.kubernetes.cel.values import NONE, Opaque, Optional, no_overload
from moorage.decide.kubernetes.names import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
)

FORMAT: Final = Type("kubernetes.NamedFormat")

_UUID: Final = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_LABEL: Final = 63


@dataclass(frozen=True, slots=True)
class NamedFormat(Opaque):
    """A named format."""

    name: str

    @property
    def kind(self) -> str:  # type: ignore[override]  # every format has this kind
        """The name of the type."""
        return FORMAT.name

    @override
    def same(self, other: Opaque) -> bool:
        return self == other


def _by(matches: Callable[[str], object], problem: str) -> Callable[[str], list[str]]:
    return lambda text: [] if matches(text) else [problem]


def _dns_1035(text: str) -> list[str]:
    errors = [f"must be no more than {_LONGEST_LABEL} characters"] if len(text) > _LONGEST_LABEL else []
    if not _DNS_1035.fullmatch(text):
        errors.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character"
        )
    return errors


def _prefix(check: Callable[[str], list[str]], text: str) -> list[str]:
    """Check the beginning of a name, which may end with a dash."""
    return check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


_FORMATS: Final[dict[str, Callable[[str], list[str]]]] = {
    "dns1123Label": check_dns_label,
    "dns1123Subdomain": check_dns_subdomain,
    "dns1035Label": _dns_1035,
    "dns1123LabelPrefix": partial(_prefix, check_dns_label),
    "dns1123SubdomainPrefix": partial(_prefix, check_dns_subdomain),
    "dns1035LabelPrefix": partial(_prefix, _dns_1035),
    "qualifiedName": check_qualified_name,
    "labelValue": check_label_value,
    "uri": _by(is_request_uri, "invalid URI"),
    "uuid": _by(_UUID.fullmatch, "does not match the UUID format"),
    "byte": _by(_BASE64.fullmatch, "invalid base64"),
    "date": _by(times.is_date, "invalid date"),
    "datetime": _by(times.is_date_time, "invalid datetime"),
}


def _named(name: str) -> Optional:
    return Optional((NamedFormat(name),)) if name in _FORMATS else NONE


def _validate(frame: Frame, form: NamedFormat, text: str) -> Optional:
    if not isinstance(form, NamedFormat):
        raise no_overload()
    charge(frame, len(text))
    errors = _FORMATS[form.name](text)
    return Optional((errors,)) if errors else NONE


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("format.named", (STRING,), optional_of(FORMAT), _named),
    method("validate", (FORMAT, STRING), optional_of(list_of(STRING)), _validate, metered=True),
    *(function(f"format.{name}", (), FORMAT, partial(NamedFormat, name)) for name in _FORMATS),
)
