"""Variables of the environment: those that the project uses are known to it."""

from __future__ import annotations

import re

from tests.architecture.files import files, name

from moorage.runtime.environment import OTHERS, variable
from moorage.runtime.settings import Settings

_VARIABLE = re.compile(r"(?<![\w$])MOORAGE_[A-Z_]*[A-Z]\b")
_MISSPELT = {"tests/component/runtime/test_environment.py", "tests/component/cli/test_words.py"}
"""Files that name variables which do not exist."""


def test_every_variable_that_the_project_uses_is_known() -> None:
    used = {
        found
        for path in files()
        if name(path) not in _MISSPELT
        for found in _VARIABLE.findall(path.read_text("utf-8", "ignore"))
    }
    assert {"MOORAGE_ORACLE", "MOORAGE_SERVER"} <= used
    assert used <= OTHERS | {variable(field) for field in Settings.model_fields}
