"""Surveys of a running fleet and of its environment: what `moorage status` and `moorage doctor` show."""
