"""Charts as plain data (`spec`, `build`), their layout as pure functions, and one painter for pictures (`paint`)."""
