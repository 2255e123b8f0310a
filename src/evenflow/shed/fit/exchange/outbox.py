"""Notices that wait for their receipts: of each kind and neighbour, the newest alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.shed.fit.exchange.messages import KINDS, Notice, Receipt, Send

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class Outbox:
    """What has to be sent again until it is answered.

    A notice replaces an earlier one of its kind to the same neighbour: neighbours need what holds
    now, not how it came to be.
    """

    def __init__(self, retry_after: float) -> None:
        self._retry_after = retry_after
        self._waiting: dict[tuple[str, str], Notice] = {}
        self.deadline: float | None = None
        """Set if and only if something waits."""

    def put(self, notice: Notice, now: float) -> Send:
        """Send a notice, and keep it."""
        self._waiting[notice.receiver, KINDS[type(notice)]] = notice
        self.deadline = now + self._retry_after
        return Send(message=notice)

    def waiting(self, receiver: str, kind: str) -> Notice | None:
        """Return the notice that has no receipt yet."""
        return self._waiting.get((receiver, kind))

    def settle(self, receipt: Receipt) -> bool:
        """Take a receipt; return whether it answers what waits. A late one does not."""
        key = (receipt.sender, receipt.kind)
        notice = self._waiting.get(key)
        if notice is None or notice.version != receipt.version:
            return False
        del self._waiting[key]
        if not self._waiting:
            self.deadline = None
        return True

    def keep_only(self, wanted: Collection[tuple[str | None, str]]) -> None:
        """Forget what waits for others than some receivers and kinds: it says nothing any more."""
        self._waiting = {key: each for key, each in self._waiting.items() if key in wanted}
        if not self._waiting:
            self.deadline = None

    def repeat(self, now: float) -> list[Send]:
        """Return everything that waits, if the deadline has passed."""
        if self.deadline is None or now < self.deadline:
            return []
        self.deadline = now + self._retry_after
        return [Send(message=notice) for _, notice in self.items()]

    def items(self) -> Iterator[tuple[tuple[str, str], Notice]]:
        """Return what waits, in a fixed order."""
        yield from sorted(self._waiting.items(), key=lambda item: item[0])
