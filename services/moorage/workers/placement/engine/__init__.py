"""The common base of the three placement controllers: controller, work queue, outbox, and tables of the view.

`placement_controller` defines a controller and drives it. `outbox` writes its decisions. `view_tables` keeps the
targets, bindings and evictions of the log. The engine does not depend on the three controllers; they are built on it.
"""
