"""The gateway's routes: the Kubernetes API's verbs, discovery, and the intake of condition reports.

Everything that only HTTP needs is here: paths, bodies, selectors, watches. It uses all other packages of the gateway.
"""
