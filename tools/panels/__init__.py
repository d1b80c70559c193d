"""Grafana dashboards as code: a dashboard is rows of panels, a panel a question with its queries and its unit.

Invariant: every panel has a title, a description, a unit and the data source variable; what a linter would ask for
cannot be left out.
"""
