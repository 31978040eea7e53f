"""Where a resource goes among Karmada's clusters: claim → filter → score → spread → divide (docs/domain.md, "Karmada").

`filters/` and `prioritizers/` have one module for each rule, found without editing another. `claiming` says which
policy places a resource, `spreading` to how many clusters it goes, `dividing` how many replicas each of them gets, and
`deciding` does all of it.
"""
