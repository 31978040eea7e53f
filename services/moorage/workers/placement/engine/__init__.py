"""What the three placement controllers share: the controller, its work queue, the outbox, tables of the view.

`controller` says what a controller is and drives it; `outbox` writes what it decides; `target_table`, `overlay` and
`evictions` keep what the log says of targets, bindings and evictions. It knows none of the three; they rest on it.
"""
