"""How answers look: tables, `describe`, `explain`, events, simulations. It writes text and asks nobody."""
