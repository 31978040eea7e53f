"""taint-manager: conditions and people's edits in, the taints of each target out.

`policies` is its view of Karmada's cluster taint policies, `addon_signs` of OCM's add-ons. The rules are in
`moorage.core.taints.desired`.
"""

from moorage.workers.taint_manager.service import TaintManager, service

__all__ = ["TaintManager", "service"]
