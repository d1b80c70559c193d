"""A deterministic simulator of the whole pipeline: production code between models of every server around it.

One seed is one exact run: no wall clock, no thread, no real IO, no randomness but the seed's. See README.md.
"""
