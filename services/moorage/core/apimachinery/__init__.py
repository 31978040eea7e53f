"""Rules of the Kubernetes API that apply to every kind: names, quantities, integers, selectors, field errors.

Every other room of the core may import this one. It imports no other room.
"""
