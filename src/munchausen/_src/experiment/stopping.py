"""SIGINT and SIGTERM: the first one stops at a safe point, the second one immediately."""

import signal
from typing import Any


class Interrupted(Exception):
    """The program stopped on a signal, at a point where nothing is lost."""

    def __init__(self, number: int, where: str):
        super().__init__(f"stopped by {signal.Signals(number).name} {where}")
        self.number = number


class StopSignals:
    """Inside this context the first signal is stored in `asked`, to be checked at safe points."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        self.asked, self._before = None, {}
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._keep)
        except ValueError:  # not the main thread: signals are somebody else's
            self._before = {}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _keep(self, number: int, _frame: Any) -> None:
        if self.asked is not None:
            raise KeyboardInterrupt
        self.asked = number
