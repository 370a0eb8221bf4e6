"""What every system's process needs; imported once, before the processes are forked."""

from __future__ import annotations

import sentence_transformers
import torch

import gradate.models.graded
import gradate.training.fit

__all__ = ["gradate", "sentence_transformers", "torch"]
