"""How objects are shown: what is declared, with what the services have decided.

`records.py` has what the kinds read: the latest records of the topics. `index.py` has the base of the indexes, which
keep what kinds count of them. The other modules build the objects of kinds whose status is long, and have the indexes
that need models. Kinds import them inside their methods, since the command line does without them.
"""
