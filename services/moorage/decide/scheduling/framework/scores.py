"""The range of scores, and the conversion of raw numbers to it."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_SCORE: Final = 100
"""The highest score of a prioritizer, before its weight is applied."""


def normalised(raw: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Scale numbers of all candidates so that the highest becomes 100. With `reverse`, low numbers get high scores.

    The numbers must not be negative. If all are zero, all results are zero, or 100 with `reverse`. Results are rounded
    down to integers, as upstream does.
    """
    highest = int(raw.max(initial=0))
    if highest == 0:
        return np.full(raw.size, MAX_SCORE if reverse else 0, dtype=np.int64)
    scaled: NDArray[np.int64] = raw * MAX_SCORE // highest
    return MAX_SCORE - scaled if reverse else scaled
