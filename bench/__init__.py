"""Figures that anyone can measure again. Timings never decide a test."""
