"""The rules of the Kubernetes API that know no kind: names, quantities, durations, integers, selectors, field errors.

Everything else in the core may use them. They use nothing of the core.
"""
