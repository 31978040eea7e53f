"""taint-manager: reads conditions and people's taint edits, and writes the taints of each target.

`policies` is its view of Karmada's cluster taint policies, `addon_signals` that of OCM's add-ons. The rules are in
`moorage.decide.taints.desired`.
"""

from moorage.workers.taint_manager.service import TaintManager, service

__all__ = ["TaintManager", "service"]
