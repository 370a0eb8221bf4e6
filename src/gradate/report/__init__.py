"""Reports: one self-contained page per run, and the model card."""
