"""The console: pages for people, before the API in the same process. It shows and does what its user may."""
