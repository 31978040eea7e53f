"""OCM placements: the candidates among the managed clusters, filters, scores, and the pages of a decision."""
