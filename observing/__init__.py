"""What can be seen of a running farm from outside: what log lines are about, numbers, traces. Knows no other app."""
