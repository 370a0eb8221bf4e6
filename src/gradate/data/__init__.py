"""Data: files and named sources of graded pairs, their audit and split, and the benchmarks."""
