"""Callbacks of the trainer: the run's log, the observer, stopping on a signal."""
