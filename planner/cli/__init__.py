"""The commands. None of them needs a screen, and each imports what it needs only when it runs."""
