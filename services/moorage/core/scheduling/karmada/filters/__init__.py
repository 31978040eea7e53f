"""One module for each rule that keeps a resource from a cluster."""
