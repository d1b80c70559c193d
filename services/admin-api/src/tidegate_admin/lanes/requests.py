"""What lanes cannot be asked yet: only a lane moves its cursor or delivers again (tidegate.contracts.request)."""

from http import HTTPStatus

from tidegate_admin.errors import ApiError


def not_served(asked: str) -> ApiError:
    """Nothing is written: a request that nobody takes would be done at some later time, by surprise."""
    return ApiError(
        HTTPStatus.NOT_IMPLEMENTED,
        f"no lane of this version serves {asked}",
        code="LANE_REQUEST_NOT_SERVED",
        remedy="Stop and start the processor to pause and resume. To rewind or replay, wait for a processor that can.",
    )
