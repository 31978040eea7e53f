"""The gateway's routes: the Kubernetes API's verbs, discovery, and the intake of condition reports.

Here live what is of HTTP alone: paths, bodies, selectors, watches. It uses every other room of the gateway.
"""
