"""taint-manager: conditions and wishes in, the taints of each target out."""

from moorage.taint_manager.service import TaintManager, service

__all__ = ["TaintManager", "service"]
