"""The ends of holds and waits that nobody plans: interrupts, `close`, forks, and errors of blocks."""

import os
import signal
import sys
import threading
import time

import pytest
from conftest import eventually

import redlatch


def interrupted_at(number, call):
    """Calls, and raises `KeyboardInterrupt` at a line of the client, counted from 1.

    Returns whether there was such a line, and the result.
    """
    lines, result = 0, None

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename != redlatch._sync.__file__:
            return None
        if event == "line":
            lines += 1
            if lines == number:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return lines >= number, result


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("enters", [False, True])
def test_interrupt_at_each_line_of_an_acquisition_leaves_nothing(make, server, waits, enters):
    other, lock = make(), make(wait=5)
    lock.acquire().release()
    number, there = 1, True
    while there:
        held = other.acquire() if waits else None
        timer = threading.Timer(0.02, held.release) if held else threading.Timer(0, int)
        timer.start()
        there, hold = interrupted_at(number, lock.__enter__ if enters else lock.acquire)
        timer.join()
        if hold:
            hold.release()
        eventually(lambda: server.hget("redlatch:{n}", "o") is None, 5)
        number += 1
    assert number > 30
    assert not lock._client._keeper._holds and not lock._client._wakes._boxes


def test_interrupt_at_each_line_of_a_release_releases(make, server):
    lock = make()
    number, there = 1, True
    while there:
        hold = lock.acquire()
        there, _ = interrupted_at(number, hold.release)
        if hold.state != "lost":
            # It was interrupted before it began.
            assert number < 7
            hold.release()
        eventually(lambda: server.hget("redlatch:{n}", "o") is None, 5)
        number += 1
    assert not lock._client._keeper._holds


def test_exception_while_waiting_leaves_nothing(make, server, monkeypatch):
    first, second = make(), make()
    hold = first.acquire()
    second._client._start()

    def interrupted(self, seconds=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        second.acquire()
    monkeypatch.undo()
    eventually(lambda: first.info()["waiters"] == 0)
    hold.release()


def test_close_tells_and_frees(url, server):
    client = redlatch.Client.from_url(url)
    hold = client.lock("n").acquire()
    client.close()
    assert hold.lost_cause == "closed"
    with redlatch.Client.from_url(url) as other:
        assert other.lock("n", wait=0).acquire() is not None


def test_close_ends_waits(make, server):
    holder, waiting = make(), make()
    hold = holder.acquire()
    raised = []

    def work():
        try:
            waiting.acquire()
        except redlatch.ClientClosed as error:
            raised.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    eventually(lambda: holder.info()["waiters"] >= 1)
    waiting._client.close()
    for thread in threads:
        thread.join(5)
    assert len(raised) == 3
    assert holder.info()["waiters"] == 0
    hold.release()
    assert holder.info() is None


def test_close_ends_the_threads(url, server):
    before = set(threading.enumerate())
    client = redlatch.Client.from_url(url)
    client.lock("n").acquire()
    own = set(threading.enumerate()) - before
    assert len(own) == 4
    client.close()
    eventually(lambda: not any(thread.is_alive() for thread in own))
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 5


def in_fork(work):
    """Runs `work` in a fork. It fails if `work` is false or is not done within 5 s."""
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def raises(error, call):
    with pytest.raises(error):
        call()
    return True


def test_fork_may_not_use_a_hold(url, server):
    with redlatch.Client.from_url(url) as client, client.lock("n") as hold:
        in_fork(lambda: hold.lost_cause == "forked")
        in_fork(lambda: raises(redlatch.LockLost, hold.check))
        in_fork(lambda: raises(redlatch.ClientClosed, client.lock("other").acquire))
        in_fork(lambda: raises(redlatch.ClientClosed, client.lock("n").info))
        hold.check()


def test_fork_ends_no_hold_of_its_parent(url, server):
    with redlatch.Client.from_url(url) as client:
        lock = client.lock("n", lease=1)
        with lock as hold:
            in_fork(lambda: raises(redlatch.ClientClosed, hold.release))
            in_fork(lambda: raises(redlatch.LockLost, lambda: lock.__exit__(None, None, None)))
            in_fork(lambda: client.close() is None)
            assert server.hget("redlatch:{n}", "o") == hold.owner
            # The connections still belong to the parent.
            time.sleep(1.5)
            hold.check()
        assert hold.lost_cause == "released"


def test_block_whose_hold_was_lost_ends_at_once(make, monkeypatch):
    lock = make(lease=0.2, renew=False)

    def silent(call, timeout):
        time.sleep(0.05)
        raise redlatch._link.NoAnswer("silent", may_have_run=True)

    with pytest.raises(redlatch.LockLost, match="expired"):
        with lock as hold:
            monkeypatch.setattr(lock._client._link, "run", silent)
            assert hold.wait_lost(5)
            began = time.monotonic()
            hold.check()
    assert time.monotonic() - began < 5
    monkeypatch.undo()


def test_hold_may_be_released_inside_of_its_block(make):
    lock = make()
    with lock as hold:
        assert hold.release() == "free"
    assert hold.lost_cause == "released" and lock.info() is None


def test_error_of_a_block_is_not_replaced_by_that_of_the_release(url, monkeypatch):
    with redlatch.Client.from_url(url, patience=0.3) as client:

        def silent(call, timeout):
            raise redlatch._link.NoAnswer("silent", may_have_run=True)

        with pytest.raises(KeyError):
            with client.lock("n"):
                monkeypatch.setattr(client._link, "run", silent)
                raise KeyError
        monkeypatch.undo()
        with pytest.raises(redlatch.Unavailable):
            with client.lock("n"):
                monkeypatch.setattr(client._link, "run", silent)
        monkeypatch.undo()
