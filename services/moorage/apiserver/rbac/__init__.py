"""RBAC: users, requests and their attributes, roles and bindings. All of it is pure."""
