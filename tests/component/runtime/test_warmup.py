"""The files that make the embedded Kafka start faster do not fill the cache folder."""

from __future__ import annotations

import os
from pathlib import Path

from moorage.runtime.embedded import warmup


def test_only_the_caches_that_were_used_last_are_kept(tmp_path: Path) -> None:
    caches = [tmp_path / f"start-{number}.aot" for number in range(8)]
    for number, cache in enumerate(caches):
        cache.write_bytes(b"x")
        os.utime(cache, (number, number))
    (tmp_path / "classpath.json").touch()
    warmup.used(caches[0])
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"classpath.json", "start-0.aot", "start-5.aot", "start-6.aot", "start-7.aot"}


def test_a_cache_that_is_gone_is_no_error(tmp_path: Path) -> None:
    warmup.used(tmp_path / "start-1.aot")
    assert list(tmp_path.iterdir()) == []
