"""Rows that were there before: read by COPY beside the stream, into `snapshot` frames of the same log."""
