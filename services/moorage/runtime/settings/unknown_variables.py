"""Environment variables that look like Moorage's and have no effect. This module is quick to import."""

from __future__ import annotations

import os
import re
from typing import Final

from moorage.runtime.settings.environment import OTHERS, PREFIX, variable

_COMMON: Final = frozenset({"bootstrap_servers", "topic_prefix", "server", "gateway_port"})
"""Settings whose names need no loading of all settings."""

_SERVICE_LINK: Final = re.compile(
    r"(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""The variables that Kubernetes sets in every pod for a Service whose name begins with `moorage`, after `MOORAGE_`."""

_NEAR: Final = 0.8
"""The similarity, from 0 to 1, from which an existing name is suggested. All names have the same beginning."""


def unknown_variables() -> dict[str, str]:
    """Return the variables `MOORAGE_…` that have no effect, each with the most similar existing name, or `""`."""
    names = {name for name in os.environ if name.upper().startswith(PREFIX)}
    names -= OTHERS
    names = {name for name in names if name.upper() not in {variable(field) for field in _COMMON}}
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        names = {name for name in names if not _SERVICE_LINK.fullmatch(name.removeprefix(PREFIX))}
    if not names:
        return {}
    import difflib  # noqa: PLC0415 - rarely needed, and every command loads this module

    from moorage.runtime.settings.process_settings import Settings  # noqa: PLC0415 - as above

    settings = {variable(field) for field in Settings.model_fields}
    return {
        name: next(iter(difflib.get_close_matches(name.upper(), sorted(settings | OTHERS), n=1, cutoff=_NEAR)), "")
        for name in sorted(names)
        if name.upper() not in settings
    }
