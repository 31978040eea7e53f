"""Who calls the gateway: credentials, and the users whom they show."""
