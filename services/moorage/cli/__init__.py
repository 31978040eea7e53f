"""The command line `moorage`. Importing it is cheap: commands import what they need when they run."""

from __future__ import annotations


def main() -> None:
    """Run the command line (the console script `moorage`)."""
    from moorage.cli.app import app  # noqa: PLC0415 - importing the package stays free of typer and rich

    app()
