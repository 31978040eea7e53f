"""The names and groups that service accounts have as users."""

from __future__ import annotations

from typing import Final

ACCOUNT_PREFIX: Final = "system:serviceaccount:"
"""How the name of a service account as a user begins. Its namespace and its name follow."""

ACCOUNTS: Final = "system:serviceaccounts"
"""The group of all service accounts. With `:` and a namespace, of all in that namespace."""


def account_user(namespace: str, name: str) -> str:
    """Return the name that a service account has as a user."""
    return f"{ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of a service account, in addition to that of everybody who is authenticated."""
    return (ACCOUNTS, f"{ACCOUNTS}:{namespace}")
