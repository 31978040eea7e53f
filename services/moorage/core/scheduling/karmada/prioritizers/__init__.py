"""One module for each rule that makes a cluster more or less liked."""
