"""Jobs: rows that stand for work, the workers that steal them, and the janitor that notices silence."""
