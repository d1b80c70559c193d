"""Any bytes give a result or one DecodeError, quickly and in little memory: targets for coverage-guided fuzzing.

`make fuzz` lets atheris run each for a minute; `test_targets.py` runs each over its corpus, without atheris.
"""
