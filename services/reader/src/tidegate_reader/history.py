"""Whether the server tells the history that the raw topic tells: put back from a disk snapshot it looks like a crash.

| the server sends                                                    | if the stream's options are | verdict         |
| ------------------------------------------------------------------- | --------------------------- | --------------- |
| at the raw topic's last commit LSN another xid or commit time       | any                         | another history |
| nothing at that LSN, though it starts at or before it               | the same, or not known      | another history |
| behind it one that begins below what the raw topic covers, or       | the same, or not known      | another history |
| before it, where it is not complete, one beyond what is covered     |                             |                 |
| any that begins at or beyond what the raw topic covers              | any                         | nothing to say  |

Other options pick other changes, so that something may be missing or new without another history. Options that nobody
knows any more count as the same: with those of before the same server is believed, and a false alarm costs a start.

Where retention took all of the raw topic, the transaction that counts as its last is the furthest that sinks have.

Invariant: judged before anything of the transaction is framed or confirmed, also what sinks have acked long before:
a slot that is moved beyond it sends it to nobody again, and the next start could judge nothing. A re-feed frames what
lies before the last transaction too, and so does who goes on where a re-feed was cut short; so that one is asked for
first (`probe`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.contracts.ack import Ack
from tidegate.contracts.branch import Branch
from tidegate.contracts.epoch import StreamOptions
from tidegate.contracts.gap import Gap
from tidegate.contracts.lineage import Lineage
from tidegate.errors import StreamError
from tidegate.lsn import MAX_LSN, ZERO, Lsn, format_lsn
from tidegate.position import MAX_ORDINAL, Position


@dataclass(frozen=True, slots=True)
class Told:
    """What the end of the raw topic says of the server's history, by the valid frame that reaches furthest: a re-feed
    that has not come as far may stand behind it. Or what sinks say."""

    commit_lsn: Lsn
    """Of the last transaction of which the raw topic has anything."""
    safe_lsn: Lsn
    """Every transaction that ends at or below it is there."""
    transaction: tuple[int, int] | None
    """The last one's xid and commit time, if they could be found."""
    options: StreamOptions | None
    """With which that frame's epoch was read, if its epoch frame is left."""
    options_since: Lsn = ZERO
    """What commits at or below it may have been asked for with others."""
    branch: Branch | None = None
    """By the newest epoch frame, on which timeline."""
    gap: Gap | None = None
    """By the same, the last one that was announced."""
    reached: Lsn = ZERO
    """Nothing that is valid in the end of the raw topic lies beyond."""
    epoch: int | None = None
    """Of that frame; None: only a later epoch frame still says how far the raw topic had come."""
    ordinal: int = 0
    """How much of the last transaction is there."""

    @property
    def has_last(self) -> bool:
        """Otherwise `commit_lsn` only says where the raw topic begins; no transaction was there."""
        return self.ordinal < MAX_ORDINAL

    @property
    def position(self) -> Position:
        return Position(self.commit_lsn, self.ordinal)


def told_by_sinks(acks: Iterable[Ack], options: StreamOptions | None, since: Lsn = ZERO) -> Told | None:
    """Where nothing valid is left of the raw topic."""
    furthest = max(acks, key=lambda ack: ack.position, default=None)
    if furthest is None:
        return None
    (commit_lsn, ordinal), safe_lsn = furthest.position, furthest.safe_lsn
    reached = max(Lsn(commit_lsn + 1), safe_lsn)
    return Told(commit_lsn, safe_lsn, None, options, since, reached=reached, ordinal=ordinal)


def options_since(options: StreamOptions, told: Told | None, past: Lineage | None, reached: Iterable[Position]) -> Lsn:
    """From where on all was asked for with these options; if they have changed, behind all that anybody has."""
    known = [(each.options, each.options_since) for each in (told, past) if each is not None]
    if all(each in (None, options) for each, _ in known):
        return max((since for _, since in known), default=ZERO)
    ends = [position.commit_lsn for position in reached]
    return max([told.commit_lsn, *ends] if told else ends)


class HistoryCheck:
    def __init__(self, told: Told, start: Lsn, options: StreamOptions) -> None:
        """`start`: where the server starts."""
        self.told = told
        self._judges_what_comes = told.options in (None, options)
        comes_again = start <= told.commit_lsn and told.options_since < told.commit_lsn
        self.awaits_last = self._judges_what_comes and told.has_last and comes_again
        self._covered, self._heard = max(told.safe_lsn, told.commit_lsn), start

    @property
    def ceiling(self) -> Lsn:
        """Of what may be confirmed by now: nothing that the raw topic covers and the server has yet to send."""
        if self.awaits_last:
            return self.told.commit_lsn
        is_over = not self._judges_what_comes or self._heard >= self._covered
        return MAX_LSN if is_over else max(self.told.commit_lsn, self._heard)

    def begins(self, commit_lsn: Lsn, xid: int, commit_time: int) -> bool:
        """Whether there may still be something to say about the next one."""
        told = self.told
        if commit_lsn == told.commit_lsn:
            self.awaits_last = False
            if told.transaction not in (None, (xid, commit_time)):
                raise _went_back(f"at {format_lsn(commit_lsn)} the server has another transaction than the raw topic")
        elif commit_lsn > told.commit_lsn and self.awaits_last:
            raise self._has_no_last()
        elif self._judges_what_comes and self._is_unknown(commit_lsn):
            raise _went_back(f"the server has a transaction at {format_lsn(commit_lsn)}, the raw topic has none")
        self._heard = max(self._heard, commit_lsn)
        return commit_lsn < self._covered

    def is_settled_by(self, judged: "HistoryCheck | None") -> bool:
        """Whether nothing of the last transaction is awaited any more, here or where it was asked for before."""
        if not self.awaits_last:
            return True
        return judged is not None and not judged.awaits_last and judged.told.commit_lsn == self.told.commit_lsn

    def is_ahead_of(self, skip_to: Position) -> bool:
        """Whether who frames all behind that place frames something before the last transaction shows."""
        return skip_to.commit_lsn < self.told.commit_lsn

    def passes(self, lsn: Lsn) -> None:
        """Between transactions: the server has sent all that ends at or below it."""
        if self.awaits_last and lsn > self.told.commit_lsn:
            raise self._has_no_last()
        self._heard = max(self._heard, lsn)

    def ends(self, wal_end: Lsn) -> None:
        """The server has no more WAL: what it has not written it will not send, and nobody has to wait for it."""
        if self.awaits_last and wal_end <= self.told.commit_lsn:
            raise self._has_no_last()

    def _has_no_last(self) -> StreamError:
        last = format_lsn(self.told.commit_lsn)
        return _went_back(f"the server has no transaction at {last}, where the raw topic has its last one")

    def _is_unknown(self, commit_lsn: Lsn) -> bool:
        """Between the last transaction and what is covered; or, where that one is not complete, the other way round."""
        low, high = sorted((self.told.commit_lsn, self.told.safe_lsn))
        return low <= commit_lsn < high and self.told.options_since < commit_lsn


def _went_back(what: str) -> StreamError:
    return StreamError(
        what,
        code="SOURCE_WENT_BACK",
        remedy="The server was restored from a backup or a disk snapshot, and written since. What the sinks have "
        "beyond that point is not its history. Decide which one is right; for the server's, begin anew: drop the slot, "
        "`tidegate pipelines forget`, and take a new snapshot for the sinks. If it was not restored, "
        "but source.publication was changed and Redis emptied: start once with that of before, then change it.",
    )
