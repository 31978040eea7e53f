"""Where a pod belongs: filter → score → select, over all nodes at once.

`filters/` and `prioritizers/` have one module for each rule; a new rule is a new module there, found without
editing another. `deciding` runs them, `expanding` makes pods of what makes pods.
"""
