"""Packs installed distributions as wheels, for projects where no package index has them."""

from __future__ import annotations

import base64
import hashlib
import importlib
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

PACKED: Final = {"moorage-schemas": "moorage_schemas", "moorage-sdk": "moorage_sdk"}
"""The distributions that a probe or a deployer needs, each with its package. They are pure Python."""

_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: moorage\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_TIME: Final = (2020, 1, 1, 0, 0, 0)  # the same files give the same wheel


def pack(name: str, folder: Path) -> Path:
    """Write the wheel of an installed distribution into a folder, and return it. It may be installed as editable."""
    found = distribution(name)
    package = Path(str(importlib.import_module(PACKED[name]).__file__)).parent
    stem = f"{name.replace('-', '_')}-{found.version}"
    content = {
        f"{package.name}/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    content[f"{stem}.dist-info/METADATA"] = (found.read_text("METADATA") or "").encode()
    content[f"{stem}.dist-info/WHEEL"] = _WHEEL.encode()
    record = f"{stem}.dist-info/RECORD"
    lines = [f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in content.items()]
    content[record] = "".join([*lines, f"{record},,\n"]).encode()
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, _TIME), data, zipfile.ZIP_DEFLATED)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
