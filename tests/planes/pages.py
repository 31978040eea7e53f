"""Commands of a page, typed in a shell."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.planes.plane import Plane
from tests.support import manifests
from tests.support.commands import Done, program

PAGE = manifests.ROOT / "docs" / "kubernetes.md"


def shell(folder: Path, plane: Plane) -> None:
    """Make a folder that has a clone's manifests, kubectl, and an administrator's kubeconfig of the other cluster."""
    (folder / "bin").mkdir()
    (folder / "bin" / "kubectl").symlink_to(manifests.kubectl())
    (folder / "ops").symlink_to(manifests.ROOT / "ops")
    (folder / "east-admin.kubeconfig").symlink_to(plane.kubeconfig)


async def typed(folder: Path, title: str) -> Done:
    """Type the commands that the page has under a title. All of them succeed."""
    (text,) = re.findall(
        rf'^```sh title="{re.escape(title)}"\n(.*?)^```', PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    env = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder)}
    done = await program("bash", "-euo", "pipefail", "-c", f"cd {folder}\n{text}", env=env, seconds=120)
    assert done.code == 0, done.err
    return done
