"""How objects are shown: what is declared, with what the services have decided.

`records.py` has what the kinds read: the latest records of the topics. The other modules build the objects of kinds
whose status is long. Kinds import them inside their methods, since the command line does without them.
"""
