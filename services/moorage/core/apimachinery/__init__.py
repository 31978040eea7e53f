"""Rules of the Kubernetes API that apply to every kind: names, quantities, integers, selectors, field errors.

All other rooms of the core may import this one. It imports no other room.
"""
