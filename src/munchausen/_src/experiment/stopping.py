"""SIGINT and SIGTERM: asked once, whatever runs ends well; asked twice, at once."""

import signal
from typing import Any


class Interrupted(Exception):
    """A signal asked for the end, and it came where nothing is lost by it."""

    def __init__(self, number: int, where: str):
        super().__init__(f"stopped by {signal.Signals(number).name} {where}")
        self.number = number


class StopSignals:
    """Within it the first signal is kept in `asked`, to be looked at where stopping is safe."""

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
