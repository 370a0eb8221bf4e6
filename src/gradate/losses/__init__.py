"""Losses: a formula each, tensors in, number out."""
