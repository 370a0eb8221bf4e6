"""What other people's procedures do, written afresh."""
