"""What kinds of mistakes the answers are: `taxtune diagnose` (paper 2, and the placements)."""
