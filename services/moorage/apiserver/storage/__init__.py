"""The stored objects: the object log, the store that follows it, and the tables that objects are shown from."""
