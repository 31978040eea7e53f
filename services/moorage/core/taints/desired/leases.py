"""Leases of Open Cluster Management: how many renewals may be missing before nobody is there any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

RENEWALS: Final = 5
"""A lease is good for so many times its duration after it was renewed, of clusters and of add-ons alike."""

LEASE_SECONDS: Final = 60
"""The duration of a lease that does not say."""

DEFAULT_GRACE: Final = timedelta(seconds=RENEWALS * LEASE_SECONDS)

_LONGEST: Final = timedelta(days=36_500)


def lease_grace(seconds: Any) -> timedelta | None:
    """For how long a lease of so many seconds is good, a hundred years at most.

    None when the field is absent, 0 or no number of seconds: then it says nothing.
    """
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds <= 0:
        return None
    return timedelta(seconds=min(RENEWALS * seconds, _LONGEST.total_seconds()))
