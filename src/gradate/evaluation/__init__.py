"""Evaluation: metrics, their uncertainty, and the protocols that compute them."""
