"""All environment variables that the project uses are known to it."""

from __future__ import annotations

import re

from tests.architecture.files import files

from moorage.runtime.settings.environment import OTHERS, variable
from moorage.runtime.settings.process_settings import Settings

_VARIABLE = re.compile(r"(?<![\w$])MOORAGE_[A-Z_]*[A-Z]\b")
_EXAMPLE = re.compile(r"^\+.*$", re.MULTILINE)
"""A line that is added in an example of a change, as in CONTRIBUTING. It does not exist in the code."""
_MISSPELT = "GATWAY"
"""The misspelling that tests of misspelt names use."""


def test_every_variable_that_the_project_uses_is_known() -> None:
    texts = (path.read_text("utf-8", "ignore") for path in files())
    used = {found for text in texts for found in _VARIABLE.findall(_EXAMPLE.sub("", text))}
    used = {found for found in used if _MISSPELT not in found}
    assert {"MOORAGE_ORACLE", "MOORAGE_SERVER"} <= used
    assert used <= OTHERS | {variable(field) for field in Settings.model_fields}
