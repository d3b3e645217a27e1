"""Signals that ask a run to stop."""

import os
import signal

import pytest

from albert_tf.training.stop_signals import StopSignals


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
