"""Webhooks: the worker that sends events to the receivers that `Webhook` objects name."""
