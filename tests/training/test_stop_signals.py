"""What asks a run to stop."""

import os
import signal
import time

import pytest

from albert_tf.training.stop_signals import StopSignals


@pytest.fixture(autouse=True)
def in_the_foreground():
    """Ctrl-C is heard, also where these tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted_only_within_the_block(number):
    before = signal.getsignal(number)
    signals = StopSignals()

    with signals.heard():
        assert not signals.received
        send(number)
        assert signals.received
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("seconds", [0.01, 0, -5])
def test_the_end_of_the_time_is_noted(seconds, caplog):
    signals = StopSignals()

    with signals.heard(seconds):
        time.sleep(0.05)
        assert signals.received

    assert "Time is over. Stopping after the current step" in caplog.text


def test_the_clock_stops_with_the_block():
    signals = StopSignals()

    with signals.heard(0.05):
        pass
    time.sleep(0.1)  # An alarm that nobody hears would end the program.

    assert not signals.received


def test_a_second_ctrl_c_ends_the_program():
    signals = StopSignals()

    with pytest.raises(KeyboardInterrupt), signals.heard():
        send(signal.SIGTERM)
        send(signal.SIGTERM)
        send(signal.SIGINT)


def test_a_program_in_the_background_stays_deaf_to_ctrl_c(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        signals = StopSignals()
        with signals.heard():
            send(signal.SIGINT)
        assert not signals.received
    finally:
        signal.signal(signal.SIGINT, before)
