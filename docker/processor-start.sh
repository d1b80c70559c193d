#!/bin/sh
# The kernels were compiled when the image was built. Numba takes a cache only where it can write, and the image's root
# is read-only where it runs: so each start puts the cache (a few MB) where it can.
cp -r /app/kernels "$NUMBA_CACHE_DIR" 2>/dev/null || true
exec "$@"
