"""Compiles every kernel into the user's cache, in the project's environment, and prints where that is."""

from tidegate.columns import warm
from tidegate.columns.compiled import cache_base

if __name__ == "__main__":
    warm()
    print(cache_base())
