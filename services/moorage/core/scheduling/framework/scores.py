"""The scale of scores, and how raw figures are brought to it."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_SCORE: Final = 100
"""The best score of a prioritizer, before its weight."""


def normalised(raw: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Raw figures of all candidates, none negative, brought to 0…100 by the highest; `reverse` makes the lowest best.

    All zeros stay zeros, or become 100 in reverse. Integers, cut down, as upstream's are.
    """
    highest = int(raw.max(initial=0))
    if highest == 0:
        return np.full(raw.size, MAX_SCORE if reverse else 0, dtype=np.int64)
    scaled: NDArray[np.int64] = raw * MAX_SCORE // highest
    return MAX_SCORE - scaled if reverse else scaled
