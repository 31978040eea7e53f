"""Resources on Karmada clusters: matching policies, filters, spread constraints and division of replicas."""
