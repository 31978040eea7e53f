"""`python -m moorage.cli`: the command line, as its child processes are started."""

from __future__ import annotations

from moorage.cli import main

if __name__ == "__main__":
    main()
