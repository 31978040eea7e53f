"""Rules of the API's objects: upstream's admission defaults, machine sets, and validation.

They are pure. `kinds/` says which rules apply to which kind, and `admission/` applies them to what is written.
"""
