"""Form rows and editors, built from the field declarations of the scenario."""
