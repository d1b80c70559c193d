"""What has to be right before a pipeline starts: asked at source, raw topic and Redis, judged, told all at once.

The reader looks here before its first byte and `tidegate doctor` shows the same. Nothing is created or changed.
"""
