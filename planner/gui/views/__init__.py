"""Pictures and tables of a plan."""
