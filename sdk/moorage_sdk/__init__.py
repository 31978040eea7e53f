"""Write probes and deployers for Moorage."""

from __future__ import annotations

from moorage_sdk.decisions import Remove, Running
from moorage_sdk.deployer import Deployer
from moorage_sdk.errors import Refusal, RefusedError, SdkError, TransportError
from moorage_sdk.probe import Probe
from moorage_sdk.settings import Connection

__all__ = [
    "Connection",
    "Deployer",
    "Probe",
    "Refusal",
    "RefusedError",
    "Remove",
    "Running",
    "SdkError",
    "TransportError",
]
