"""The demo: a shop that writes by itself, the whole fleet on one machine, and the proof that nothing was lost."""
