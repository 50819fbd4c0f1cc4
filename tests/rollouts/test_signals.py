"""Signals in processes of their own: what they do is end processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from rollouts.signals import Interrupted, Signals

BUSY = """
import signal, sys, time
from rollouts.signals import Signals
def say(number): print(f"resume {{number}}", flush=True)
with Signals(before_exit=say, grace_s={grace_s}) as signals:
    print("ready", flush=True)
    {body}
print("left", signals.received, flush=True)
"""
POLITE = "exec('while signals.received is None: time.sleep(0.01)')"
DEAF = "exec('while True: time.sleep(0.01)')"
STUCK_IN_C = "__import__('hashlib').pbkdf2_hmac('sha256', b'', b'', 10**9)"


def start(body: str, grace_s: float = 60.0) -> subprocess.Popen[str]:
    code = BUSY.format(body=body, grace_s=grace_s)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        out, _ = process.communicate(timeout=5)
    finally:
        process.kill()
    return process.returncode, out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_only_asks(number: signal.Signals) -> None:
    process = start(POLITE)
    process.send_signal(number)
    assert end(process) == (0, f"left {number.value}\n")


@pytest.mark.parametrize("body", [DEAF, STUCK_IN_C])
def test_the_second_signal_stops_at_once_wherever_the_main_thread_is(body: str) -> None:
    process = start(body)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "resume 2\n")


@pytest.mark.slow
def test_a_hard_stop_takes_the_children_along() -> None:
    process = start("__import__('subprocess').run(['sleep', '60'])", grace_s=0.1)
    time.sleep(0.2)
    (child,) = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGTERM)
    assert end(process)[0] == 143
    assert psutil.wait_procs([child], timeout=5)[1] == []


@pytest.mark.slow
def test_a_hard_stop_takes_along_whom_a_child_is_just_starting() -> None:
    mark = f"61.{os.getpid()}"
    keeps_starting = f"import subprocess as s\nwhile True: s.Popen(['sleep', '{mark}'])"
    process = start(
        f"__import__('subprocess').run([__import__('sys').executable, '-c', {keeps_starting!r}])", grace_s=0.1
    )
    while not sleepers(mark):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert end(process)[0] == 143
    time.sleep(0.2)
    assert sleepers(mark) == []


def sleepers(mark: str) -> list[int]:
    return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", mark]]


def test_who_does_not_obey_in_time_is_stopped() -> None:
    process = start(DEAF, grace_s=0.3)
    process.send_signal(signal.SIGTERM)
    assert end(process) == (143, "resume 15\n")


@pytest.mark.parametrize("early", [False, True])
def test_while_nothing_is_under_way_the_first_signal_stops_at_once(early: bool) -> None:
    at_once = f"with signals.obeyed_at_once(): {DEAF}"
    process = start(f"exec('{POLITE[6:-2]}'); exec({at_once!r})" if early else f"exec({at_once!r})")
    process.send_signal(signal.SIGTERM)
    assert end(process) == (143, "resume 15\n")


def test_inside_interruptible_the_first_signal_raises_and_no_policy_can_swallow_it() -> None:
    def policy() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except Exception:  # noqa: BLE001
            pytest.fail("a policy's error handling caught a signal")

    with Signals() as signals:
        with pytest.raises(Interrupted), signals.interruptible():
            policy()
        assert signals.received == signal.SIGINT
        with pytest.raises(Interrupted), signals.interruptible():
            pytest.fail("it has come already")


def test_outside_it_nothing_is_raised_and_the_old_handlers_come_back() -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with Signals() as signals:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signals.install()
        signal.raise_signal(signal.SIGTERM)
        assert signals.received == signal.SIGTERM
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before
