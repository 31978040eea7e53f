"""Authentication: credentials, and the users whom they show."""
