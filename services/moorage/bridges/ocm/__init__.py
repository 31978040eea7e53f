"""The bridge to a hub of Open Cluster Management."""
