"""What goes together and what does not: one small file for each subject."""
