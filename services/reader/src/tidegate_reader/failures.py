"""What of all that failed at once is told, and where it came from."""

from tidegate.errors import TidegateError, TransientError, classify


def most_severe(error: BaseException) -> TidegateError:
    """Of several that failed at once, the one that forbids the most: lost before configuration before try again."""
    if not isinstance(error, BaseExceptionGroup):
        return classify(error)
    failures = [most_severe(each) for each in error.exceptions]
    return max(failures, key=lambda each: (each.exit_code, not isinstance(each, TransientError)))


def cause_of(error: BaseException) -> str:
    """Type and place of what was foreign; its text may quote values."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else "?"
    return f"{type(error).__name__} at {place}"
