"""Who may do what: users, what they ask to do, and the rules of RBAC."""
