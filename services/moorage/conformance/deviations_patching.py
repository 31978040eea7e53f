"""The deviations in how patches are applied, and in who owns which field afterwards."""

from __future__ import annotations

from moorage.conformance.deviation_entry import DeviationEntry

BAD_PATCH_IS_THE_CLIENTS = DeviationEntry(
    "bad-patch-is-the-clients",
    "A patch that does not fit the object gets 400 with Kubernetes' message, such as a list element without its merge "
    "key.",
    "Kubernetes answers 500 with the same message, because its code does not tell these errors from its own.",
    "The client is wrong, not the server, and a client tries again after a 500.",
    (),
)
