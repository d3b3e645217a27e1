"""What asks a run to stop: SIGTERM, Ctrl-C, or the end of its time."""

import contextlib
import logging
import signal
from collections.abc import Iterator
from typing import Any

_LOGGER = logging.getLogger(__name__)

# The last one is that of the clock.
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
_LEAST_SECONDS = 1e-6  # None would stop the clock.


class StopSignals:
    """Notes a signal to stop instead of ending the process.

    Attributes:
        received: Whether a signal has come.
    """

    def __init__(self) -> None:
        self.received = False

    @contextlib.contextmanager
    def heard(self, seconds: float | None = None) -> Iterator[None]:
        """Notes signals until the block ends, and one after some seconds.

        Raises:
            KeyboardInterrupt: At Ctrl-C after another signal.
        """
        previous = {
            number: signal.signal(number, self._note)
            for number in _SIGNALS
            # A shell starts jobs in the background with Ctrl-C ignored.
            if signal.getsignal(number) != signal.SIG_IGN
        }
        try:
            if seconds is not None:
                after = max(seconds, _LEAST_SECONDS)
                signal.setitimer(signal.ITIMER_REAL, after)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _note(self, number: int, _: Any) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = True
        _LOGGER.warning(
            "%s after the current step, with a checkpoint. Ctrl-C ends the "
            "run at once.",
            "Time is over. Stopping"
            if number == signal.SIGALRM
            else "Stopping",
        )
