"""Windows that ask or tell one thing."""
