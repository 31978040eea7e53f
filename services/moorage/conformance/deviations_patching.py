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
OWNERS_BY_NAME = DeviationEntry(
    "owners-by-name",
    "Entries of `managedFields` of other versions of a kind are compared with a write by the names of their fields.",
    "Kubernetes converts the object to the version of each entry, and drops entries of versions that are not served.",
    "Only four kinds have more than one version, and nearly all of their fields have the same names.",
    (),
)
PATCH_ORDER_IS_FIXED = DeviationEntry(
    "patch-order-is-fixed",
    "A strategic merge patch that both merges a list of scalars and deletes from it deletes last.",
    "The order is that of a map of Go's, so the same patch has one result or another.",
    "The same input gives the same result.",
    (),
)
