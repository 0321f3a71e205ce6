"""The window: forms, views, panels and dialogs around one session."""
