"""Lets `python -m chordmq` do what the command `chordmq` does."""

from chordmq.cli.main import main

if __name__ == "__main__":
    main()
