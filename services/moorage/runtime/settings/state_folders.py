"""Folders of Moorage's own files, which only their user may enter."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from moorage.runtime.settings.environment import STATE_DIR, XDG_STATE, state_folder


class StateFolderError(ValueError):
    """The state folder cannot be used. The message names the variable, the folder and the rule."""


def other_state_folder() -> str:
    """Return the advice to use another state folder, by the variable that names the present one."""
    return f"set {STATE_DIR if os.environ.get(STATE_DIR) or not os.environ.get(XDG_STATE) else XDG_STATE}"


def ensure_state_folder() -> Path:
    """Create the state folder for this user alone, and return it.

    One that exists keeps its mode if a variable names it, because it may be shared on purpose. The default one becomes
    private: earlier versions let every user of the machine read it.

    Raises:
        StateFolderError: it cannot be used.
    """
    folder = state_folder()
    is_named = bool(os.environ.get(STATE_DIR))
    why = ""
    try:
        make_private(folder, keep_mode=is_named)
        with tempfile.TemporaryFile(dir=folder):  # permissions alone do not show a file system that is read-only
            pass
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        field = STATE_DIR if is_named else XDG_STATE
        raise StateFolderError(f"{field}: invalid value {str(folder)!r}: must be a folder that can be written: {why}")
    return folder


def make_private(folder: Path, *, keep_mode: bool = False) -> None:
    """Create a folder that only this user can enter. One that exists also gets that mode if this user owns it.

    Args:
        folder: the folder.
        keep_mode: whether one that exists keeps its mode.

    Raises:
        OSError: it cannot be created.
    """
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if not folder.is_dir():
            raise
        found = folder.stat()
        if not keep_mode and found.st_uid == os.getuid() and found.st_mode & 0o077:
            folder.chmod(0o700)
