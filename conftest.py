"""Makes the kit's fixtures known to the tests of every member; nothing is started before a test asks for it."""

import pytest

pytest_plugins = ["kit.servers", "kit.postgres_versions"]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        config.pluginmanager.register(_NamedAtOnce(reporter))


class _NamedAtOnce:
    """The suite takes a quarter of an hour: whoever waits for it can look at a failure meanwhile."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._reporter.write_line(f"\n{report.nodeid} failed ({report.when})")
