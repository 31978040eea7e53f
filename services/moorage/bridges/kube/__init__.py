"""Talks to a kube-apiserver: requests with limits, lists and watches, and the election of one process."""
