"""`moorage demo`: its acts, its claims, and the check of every claim against the topics."""
