"""The fleet under fire: real servers and services, a proxy on every link, faults on purpose, and oracles that judge.

The README beside this file says how a trial goes.
"""
