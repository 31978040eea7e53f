"""A copy of the live state, and the real services on it, in memory and on a virtual clock."""
