"""Side-by-side measurements against peers, and the tables made of finished runs."""
