"""The generated pages: one module each, with `PATH` and `render(root)`."""
