"""One file per model family: its forward pass as transformers runs it, and how a structure is recognised as one."""
