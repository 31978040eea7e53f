"""Rules of the Kubernetes API that decisions need: names, quantities, integers, selectors, CEL, field errors.

All other rooms of the decisions may import this one. It imports no other room.
"""
