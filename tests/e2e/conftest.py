"""The page of a played pipeline in a real browser, for all tests that ask for it."""

import uuid
from collections.abc import Iterator

import pytest
from kit.admin_process import admin_place
from kit.browser import ARGUMENTS, CHROMIUM, SCREENSHOTS, opened
from kit.letters import make_letter
from kit.playing import Play, playing
from kit.servers import drop_database
from kit.topics import append, make_topic
from playwright.sync_api import Browser, Error, Page, sync_playwright


@pytest.fixture(scope="module")
def play(postgres, kafka, redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    name = "shop" if SCREENSHOTS else f"shop{uuid.uuid4().hex[:4]}"
    dsn, folder = postgres.ensure_database(name), tmp_path_factory.mktemp("page")
    sinks = [{"name": "events", "type": "kafka_topics"}, {"name": "search", "type": "kafka_topics", "required": False}]
    for topic in ("raw", "dlq"):
        make_topic(kafka.bootstrap, f"tidegate.{name}.{topic}")
    try:
        with admin_place(folder, name, dsn=dsn, bootstrap=kafka.bootstrap, redis_url=redis.url, sinks=sinks) as place:
            slot = place.config.source.slot.name
            place.source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
            letters = [
                *(make_letter(number, pipeline=name) for number in (1, 3, 4, 5)),
                make_letter(2, pipeline=name, lane="search", code="TOPIC_REFUSED"),
            ]
            append(place.bootstrap, f"tidegate.{name}.dlq", [letter.encode() for letter in letters])
            with playing(place) as made:
                yield made
    finally:
        drop_database(postgres.dsn(), name)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        except Error as error:
            pytest.skip(f"no Chromium starts on this machine: {error.message.splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture(scope="module")
def token(play: Play) -> str:
    made = play.place.token()
    play.place.client()  # waits until its own token is known, which is younger
    return made


@pytest.fixture
def page(play: Play, browser: Browser, token: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    size, scheme = getattr(request, "param", ("desk", "light"))
    context = opened(browser, play.place, token, size, scheme)
    page = context.new_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    page.goto(play.place.url)
    yield page
    context.close()
    assert [text for text in told if "Failed to load resource" not in text] == []
