"""The page: rendered here, refreshed by a few lines of script, nothing from elsewhere."""
