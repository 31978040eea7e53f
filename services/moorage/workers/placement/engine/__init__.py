"""What the three placement controllers share: the controller, its work queue, the outbox, and tables of the view.

`controller` defines a controller and drives it. `outbox` writes its decisions. `target_table`, `overlay` and
`evictions` keep what the log says about targets, bindings and evictions. The engine does not know the three
controllers; they are built on it.
"""
