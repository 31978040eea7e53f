"""The common base of the three placement controllers: the controller, its work queue, the outbox, tables of the view.

`controller` defines a controller and drives it. `outbox` writes its decisions. `target_table`, `overlay` and
`evictions` keep the targets, bindings and evictions of the log. The engine does not depend on the three controllers;
they are built on it.
"""
