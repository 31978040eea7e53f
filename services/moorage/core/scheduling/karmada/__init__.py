"""Resources on Karmada clusters: which policy places one, which clusters fit, how replicas are spread and divided."""
