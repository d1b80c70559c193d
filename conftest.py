"""Makes the kit's fixtures known to the tests of every member; nothing is started before a test asks for it."""

pytest_plugins = ["kit.servers", "kit.postgres_versions"]
