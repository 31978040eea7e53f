"""Variables of the environment: those that the project uses are known to it."""

from __future__ import annotations

import re

from tests.architecture.files import files

from moorage.runtime.environment import OTHERS, variable
from moorage.runtime.settings import Settings

_VARIABLE = re.compile(r"(?<![\w$])MOORAGE_[A-Z_]*[A-Z]\b")
_MISSPELT = "GATWAY"
"""Tests of what is misspelt misspell it so."""


def test_every_variable_that_the_project_uses_is_known() -> None:
    used = {found for path in files() for found in _VARIABLE.findall(path.read_text("utf-8", "ignore"))}
    used = {found for found in used if _MISSPELT not in found}
    assert {"MOORAGE_ORACLE", "MOORAGE_SERVER"} <= used
    assert used <= OTHERS | {variable(field) for field in Settings.model_fields}
