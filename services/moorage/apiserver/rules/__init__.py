"""Rules of the API's objects: upstream's admission defaults, machine sets, and validation.

They are pure. `kinds/` assigns them to kinds, and `admission/` applies them to writes.
"""
