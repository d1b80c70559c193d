"""Events as lines of JSON on the processor's standard output: to look at, and to pipe into something."""
