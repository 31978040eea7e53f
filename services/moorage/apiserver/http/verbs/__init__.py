"""The verbs of the Kubernetes API: get, list, watch, create, update, patch, delete and apply."""
