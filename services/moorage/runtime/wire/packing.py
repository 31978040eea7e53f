"""Compresses many short texts that are much alike, such as the JSON of all pods, each on its own."""

from __future__ import annotations

import zlib
from typing import Final

_LEVEL: Final = 3
_WINDOW: Final = 14  # the texts are short: 16 KiB of a text and its dictionary are enough
_MEMORY: Final = 5
_LONGEST: Final = 8 << 10  # bytes of a dictionary
_SAMPLES: Final = 4  # texts in a dictionary
_RENEWED: Final = (4, 64, 1024, 16_384, 262_144)
"""After how many texts a dictionary is made. The first texts of a table need not resemble the later ones."""


class _Book:
    """A dictionary, and the states of zlib that have read it. Copying them is cheaper than reading it again."""

    __slots__ = ("_compressor", "_decompressor")

    def __init__(self, dictionary: bytes) -> None:
        self._compressor = zlib.compressobj(
            _LEVEL, zlib.DEFLATED, -_WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, zdict=dictionary
        )
        self._decompressor = zlib.decompressobj(-_WINDOW, zdict=dictionary)

    def compressed(self, text: bytes) -> bytes:
        """Return a text without the parts that the dictionary contains."""
        state = self._compressor.copy()
        return state.compress(text) + state.flush()

    def text(self, compressed: bytes) -> bytes:
        """Return the text again."""
        return self._decompressor.copy().decompress(compressed)


class Packer:
    """Packs texts against a dictionary of earlier ones, so that only the differences are kept.

    The dictionaries are never written anywhere: only this packer unpacks its own texts. The same texts in the same
    order are packed to the same bytes.
    """

    __slots__ = ("_books", "_count", "_samples")

    def __init__(self) -> None:
        self._books = [_Book(b"")]
        self._count = 0
        self._samples: list[bytes] = []

    def pack(self, text: bytes) -> bytes:
        """Return a packed text. Its first byte is the number of the dictionary."""
        number = len(self._books) - 1
        packed = bytes((number,)) + self._books[number].compressed(text)
        if number < len(_RENEWED):
            self._count += 1
            if self._count > _RENEWED[number] - _SAMPLES:
                self._samples.append(text[: _LONGEST // _SAMPLES])
            if self._count == _RENEWED[number]:
                self._books.append(_Book(b"".join(self._samples)))
                self._samples = []
        return packed

    def unpack(self, packed: bytes) -> bytes:
        """Return the text that was packed."""
        return self._books[packed[0]].text(packed[1:])
