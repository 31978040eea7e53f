"""`python -m moorage.cli`: the command line, for processes that are started by it."""

from __future__ import annotations

from moorage.cli import main

if __name__ == "__main__":
    main()
