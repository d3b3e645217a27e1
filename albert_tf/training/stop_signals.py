"""Signals that ask a run to stop: SIGTERM and Ctrl-C.

Floor: training.
"""

import contextlib
import logging
import signal
from collections.abc import Iterator
from typing import Any

_LOGGER = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Notes a signal to stop instead of ending the process.

    Attributes:
        received: Whether a signal has come.
    """

    def __init__(self) -> None:
        self.received = False

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Notes signals until the block ends.

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
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _note(self, number: int, _: Any) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = True
        _LOGGER.warning(
            "Stopping after the current step, with a checkpoint. Ctrl-C ends "
            "the run at once."
        )
