"""The bridge to a Kubernetes cluster: its nodes, pods and controllers."""
