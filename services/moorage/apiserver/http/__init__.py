"""The gateway's routes: the Kubernetes API's verbs, discovery, and the intake of condition reports.

Everything that only HTTP needs is here. `resources` finds the verb of a request (`verbs/`, or `subresources/`), which
reads and answers `messages/`; `discovery/` lists what is served. It uses all other packages of the gateway.
"""
