"""The estimation engine: terms, ledgers, phases and verdicts. No Qt, no I/O, no state."""
