"""The paper's tables: what stands in them, run, kept, judged and shown."""
