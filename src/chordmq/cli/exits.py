"""How `chordmq` ends: its exit statuses."""

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_CANNOT_CONNECT = 3
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130
