"""Which correction of a screen to use: candidates, the rule that chooses among them, and the recommendation."""
