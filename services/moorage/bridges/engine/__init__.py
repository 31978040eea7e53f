"""What the bridges to all kinds of clusters share: the loop that mirrors, reports and acts."""
