"""What it means when Redis does not answer a request that needs it."""

from tidegate.errors import TransientError


def store_unavailable(error: BaseException) -> TransientError:
    return TransientError(
        f"Redis did not answer: {type(error).__name__}",
        code="STORE_UNAVAILABLE",
        remedy="Check that Redis is up, reachable and not full; then ask again.",
    )
