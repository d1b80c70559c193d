from tidegate.backoff import Backoff


def test_the_delay_doubles_up_to_a_limit_and_is_forgotten_after_a_healthy_life() -> None:
    """What crashes at once does not spin, what lived is back quickly."""
    backoff = Backoff(0.2, longest_seconds=10, healthy_seconds=30)
    delays = [backoff.after(0.1) for _ in range(9)]
    assert delays[:4] == [0.2, 0.4, 0.8, 1.6]
    assert delays[-1] == 10
    assert backoff.after(30) == 0.2


def test_a_person_who_starts_it_again_starts_it_at_once() -> None:
    backoff = Backoff(0.5, longest_seconds=30, healthy_seconds=60)
    assert [backoff.after(1) for _ in range(3)] == [0.5, 1, 2]
    backoff.forget()
    assert backoff.after(1) == 0.5
