"""Where the running reader works: in which generation and epoch, and from where on the source keeps everything.

It outlives the raw topic's contents: a reader that finds the topic empty goes on with the generation that stands here,
and a lane that has no past learns from it whether the topic still holds all that it is owed.
"""

from dataclasses import asdict, dataclass

from tidegate.contracts.branch import Branch, decode_branch
from tidegate.contracts.document import build
from tidegate.contracts.epoch import StreamOptions, decode_options
from tidegate.contracts.fixed_width import decode_fixed_lsn, encode_fixed_lsn
from tidegate.contracts.generation import Generation
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError
from tidegate.lsn import ZERO, Lsn


@dataclass(frozen=True, slots=True)
class Lineage:
    generation: Generation
    epoch: int
    topic_id: str
    kept_from: Lsn
    """confirmed_flush_lsn when the epoch began: a sink that had acked nothing by then is owed all that commits from
    here on."""
    required: tuple[str, ...]
    """The sinks that the gate has counted on since."""
    unacked: tuple[str, ...]
    """Those of them that had acked nothing yet when this was said."""
    options: StreamOptions | None = None
    """What it asked of the server; a lineage that an older reader said lacks it."""
    branch: Branch | None = None
    """On which timeline, likewise."""
    options_since: Lsn = ZERO
    """What commits at or below it may have been asked for with other options."""

    def encode(self) -> bytes:
        branch = {} if self.branch is None else {"branch": self.branch.to_json()}
        since = {"options_since": encode_fixed_lsn(self.options_since)} if self.options_since else {}
        return seal(
            {
                "generation": self.generation.to_json(),
                "epoch": self.epoch,
                "topic_id": self.topic_id,
                "kept_from": encode_fixed_lsn(self.kept_from),
                "required": list(self.required),
                "unacked": list(self.unacked),
                "options": None if self.options is None else asdict(self.options),
                **branch,
                **since,
            }
        )


def decode_lineage(value: bytes) -> Lineage:
    document = unseal(value)
    options = document.get("options")
    try:
        return build(
            Lineage,
            document
            | {
                "generation": _generation(document["generation"]),
                "kept_from": decode_fixed_lsn(document["kept_from"]),
                "required": _names(document["required"]),
                "unacked": _names(document["unacked"]),
                "options": None if options is None else decode_options(options),
                "branch": decode_branch(document.get("branch")),
                "options_since": decode_fixed_lsn(document["options_since"]) if "options_since" in document else ZERO,
            },
        )
    except (KeyError, ValueError):
        raise DecodeError("this lineage lacks what a lineage must say", code="LINEAGE_MALFORMED") from None


def _names(members: object) -> tuple[str, ...]:
    if not isinstance(members, list) or not all(isinstance(name, str) for name in members):
        raise ValueError("not a list of names")
    return tuple(members)


def _generation(members: object) -> Generation:
    if not isinstance(members, dict):
        raise ValueError("not an object")
    system, nonce = members["system_identifier"], members["nonce"]
    if not isinstance(system, str) or not system.isascii() or not system.isdigit() or not isinstance(nonce, str):
        raise ValueError("not a generation")
    generation = build(Generation, members | {"system_identifier": int(system), "nonce": bytes.fromhex(nonce)})
    if generation.id != members["id"]:
        raise ValueError("the id is not of these members")
    return generation
