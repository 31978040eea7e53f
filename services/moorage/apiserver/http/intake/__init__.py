"""Routes under `/v1`, and dead letters: reports in, decisions and explanations out."""
