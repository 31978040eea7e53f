"""Parts that every process needs: its logs, metrics, health, errors, clock and tasks."""
