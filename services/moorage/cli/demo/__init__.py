"""`moorage demo`: its acts, what it claims, and the check of every claim against the topics."""
