"""Authorization at the gateway: the authorizer, the default roles, and guards of what is written."""
