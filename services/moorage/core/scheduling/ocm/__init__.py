"""OCM placements: which managed clusters are candidates, which pass, how they score, and the decisions' pages."""
