"""Webhooks: the worker that sends events to the receivers of `Webhook` objects."""
