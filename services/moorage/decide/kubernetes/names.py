"""Kubernetes' rules for names, label keys and label values, and the names of accounts.

Each `check_*` function returns a list of errors with Kubernetes' messages. The list is empty if the value is valid. As
in Kubernetes, lengths are in bytes of UTF-8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_SUBDOMAIN: Final = 253
MAX_LABEL: Final = 63

_LABEL_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_LABEL_NAME})?"
_DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_PERCENT: Final = "[0-9]+%"

_LABEL_NAME_RE: Final = re.compile(_LABEL_NAME)
_LABEL_VALUE_RE: Final = re.compile(_LABEL_VALUE)
_DNS_LABEL_RE: Final = re.compile(_DNS_LABEL)
_DNS_SUBDOMAIN_RE: Final = re.compile(_DNS_SUBDOMAIN)

_CONFIG_KEY_RE: Final = re.compile(_CONFIG_KEY)
_PERCENT_RE: Final = re.compile(_PERCENT)

_EMPTY: Final = "must be non-empty"
_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_DNS_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_DNS_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)


@dataclass(frozen=True, slots=True)
class Wording:
    """Two phrases that differ between releases of Kubernetes."""

    unit: str
    key: str

    def too_long(self, limit: int) -> str:
        """Return the error for a text of more than `limit` bytes."""
        return f"must be no more than {limit} {self.unit}"


TODAY: Final = Wording("bytes", "a valid label key")
"""Kubernetes 1.37."""

OLDER: Final = Wording("characters", "a qualified name")
"""Kubernetes 1.34 and earlier, on which Karmada 1.16 is built."""


def _pattern(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _longer(value: str, limit: int) -> bool:
    return len(value.encode("utf-8", "surrogatepass")) > limit


def check_dns_label(value: str, wording: Wording = TODAY) -> list[str]:
    """Check a DNS label (RFC 1123): lower case, digits and `-`, at most 63 bytes. Namespaces have such names."""
    errors = [wording.too_long(MAX_LABEL)] if _longer(value, MAX_LABEL) else []
    if not _DNS_LABEL_RE.fullmatch(value):
        if _DNS_SUBDOMAIN_RE.fullmatch(value):
            errors.append("must not contain dots")
        else:
            errors.append(_pattern(_DNS_LABEL_RULE, _DNS_LABEL, "my-name", "123-abc"))
    return errors


def check_dns_subdomain(value: str, wording: Wording = TODAY) -> list[str]:
    """Check a DNS subdomain (RFC 1123): labels separated by dots, at most 253 bytes. Most objects have such names."""
    errors = [wording.too_long(MAX_SUBDOMAIN)] if _longer(value, MAX_SUBDOMAIN) else []
    if not _DNS_SUBDOMAIN_RE.fullmatch(value):
        errors.append(_pattern(_DNS_SUBDOMAIN_RULE, _DNS_SUBDOMAIN, "example.com"))
    return errors


def check_path_segment(value: str) -> list[str]:
    """Check a name that is to be one segment of a path. An empty one is valid here."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in value]


def check_qualified_name(value: str, wording: Wording = TODAY) -> list[str]:
    """Check a label or taint key: an optional DNS subdomain and `/`, then a name of at most 63 bytes."""
    prefix, slash, name = value.rpartition("/")
    name_rule = _pattern(_NAME_RULE, _LABEL_NAME, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        return [f"{wording.key} {name_rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors: list[str] = []
    if slash and not prefix:
        errors.append(f"prefix part {_EMPTY}")
    elif slash:
        errors.extend(f"prefix part {message}" for message in check_dns_subdomain(prefix, wording))
    if not name:
        errors.append(f"name part {_EMPTY}")
    elif _longer(name, MAX_LABEL):
        errors.append(f"name part {wording.too_long(MAX_LABEL)}")
    if not _LABEL_NAME_RE.fullmatch(name):
        errors.append(f"name part {name_rule}")
    return errors


def check_label_value(value: str, wording: Wording = TODAY) -> list[str]:
    """Check the value of a label or taint: empty, or at most 63 bytes that begin and end with a letter or digit."""
    errors = [wording.too_long(MAX_LABEL)] if _longer(value, MAX_LABEL) else []
    if not _LABEL_VALUE_RE.fullmatch(value):
        rule = f"a valid label must be an empty string or {_NAME_RULE.removeprefix('must ')}"
        errors.append(_pattern(rule, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return errors


def check_key_length(value: str, wording: Wording = TODAY) -> list[str]:
    """Check that a taint key has at most 253 bytes, including the prefix (upstream's code allows 317)."""
    return [wording.too_long(MAX_SUBDOMAIN)] if _longer(value, MAX_SUBDOMAIN) else []


def check_config_key(value: str) -> list[str]:
    """Check a key of a ConfigMap or a Secret: letters, digits, `-`, `_` and `.`, but no way out of a folder."""
    errors = [OLDER.too_long(MAX_SUBDOMAIN)] if _longer(value, MAX_SUBDOMAIN) else []
    if not _CONFIG_KEY_RE.fullmatch(value):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errors.append(_pattern(rule, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in {".", ".."}:
        errors.append(f"must not be '{value}'")
    elif value.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def check_percent(value: str) -> list[str]:
    """Check a percentage such as `25%`."""
    if _PERCENT_RE.fullmatch(value):
        return []
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return [_pattern(rule, _PERCENT, "1%", "93%")]


ACCOUNT_PREFIX: Final = "system:serviceaccount:"
"""How the name of a service account as a user begins. Its namespace and its name follow."""

ACCOUNTS: Final = "system:serviceaccounts"
"""The group of all service accounts. With `:` and a namespace, of all in that namespace."""


def account_user(namespace: str, name: str) -> str:
    """Return the name that a service account has as a user."""
    return f"{ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of a service account, in addition to that of all authenticated users."""
    return (ACCOUNTS, f"{ACCOUNTS}:{namespace}")
