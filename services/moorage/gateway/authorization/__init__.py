"""Who may do what at the gateway."""
