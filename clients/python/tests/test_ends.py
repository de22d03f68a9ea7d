"""The ends of holds and waits that nobody plans: interrupts, `close`, forks, and errors of blocks."""

import gc
import linecache
import os
import signal
import sys
import threading
import time

import pytest
from conftest import eventually, in_threads

import redlatch


# Where interrupts come.
HALVES = (redlatch._sync, redlatch._hold, redlatch._limit, redlatch._lines)
CLIENT = [half.__file__ for half in HALVES]


def interrupted_at(number, call):
    """Calls, and raises `KeyboardInterrupt` at a line of the client, counted from 1.

    Returns whether there was such a line, and the result.
    """
    lines, result = 0, None

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename not in CLIENT:
            return None
        # Python keeps a lock whose block an exception hits at its very end.
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
        if event == "line" and not text.lstrip().startswith("with self._lock"):
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
    # A hold that was given back in the background leaves the keeper when the keeper looks again.
    lock._client._keeper.wake()
    eventually(lambda: not lock._client._keeper._holds, 5)
    assert not lock._client._wakes._boxes


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


def test_close_tells_and_frees(either):
    lock = either()
    hold = lock.acquire()
    lock._client.close()
    assert hold.wait_lost(5) and hold.lost_cause == "closed"
    assert either(wait=0).acquire().release() == "free"


def test_close_ends_waits(either, server):
    holder, waiting = either(), either()
    hold = holder.acquire()
    raised = []

    def work():
        try:
            waiting.acquire()
        except redlatch.ClientClosed as error:
            raised.append(error)

    threads = in_threads([work] * 3)
    eventually(lambda: holder.info()["waiters"] >= 1)
    waiting._client.close()
    for thread in threads:
        thread.join(5)
    assert len(raised) == 3
    assert holder.info()["waiters"] == 0
    hold.release()
    assert holder.info() is None


def test_close_releases_behind_the_callbacks(url, server):
    seen = []

    def callback(hold):
        time.sleep(0.1)
        seen.append((hold.lost_cause, server.hget("redlatch:{n}", "o")))

    client = redlatch.Client.from_url(url)
    hold = client.lock("n").acquire()
    hold.on_lost(callback)
    client.close()
    assert seen == [("closed", hold.owner)] and server.hget("redlatch:{n}", "o") is None


def test_close_releases_all_holds_although_a_callback_blocks(url, server):
    client, ends = redlatch.Client.from_url(url, patience=1), threading.Event()
    holds = [client.lock(name).acquire() for name in "ab"]
    holds[0].on_lost(lambda _: ends.wait(20))
    client.close()
    assert not ends.is_set()
    assert [server.hget(f"redlatch:{{{name}}}", "o") for name in "ab"] == [None, None]
    ends.set()


def test_callbacks_are_called_although_no_thread_begins(url, server, monkeypatch):
    client, told = redlatch.Client.from_url(url), []
    hold = client.lock("n").acquire()
    hold.on_lost(told.append)

    def full(name, work):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(client._threads, "spawn", full)
        client.close()
    assert told == [hold] and hold.lost_cause == "closed"


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


def test_block_whose_hold_was_lost_ends_at_once(either, monkeypatch):
    lock = either(lease=0.2, renew=False)

    def silent(call, timeout):
        time.sleep(0.05)
        raise redlatch._wire.NoAnswer("silent", may_have_run=True)

    with pytest.raises(redlatch.LockLost, match="expired"):
        with lock as hold:
            monkeypatch.setattr(lock._client._link, "run", silent)
            assert hold.wait_lost(5)
            began = time.monotonic()
            hold.check()
    assert time.monotonic() - began < 5
    monkeypatch.undo()


def test_hold_may_be_released_inside_of_its_block(either):
    lock = either()
    with lock as hold:
        assert hold.release() == "free"
    assert hold.lost_cause == "released" and lock.info() is None


def test_error_of_a_block_is_not_replaced_by_that_of_the_release(either, monkeypatch):
    lock = either(patience=0.3)

    def silent(call, timeout):
        raise redlatch._wire.NoAnswer("silent", may_have_run=True)

    with pytest.raises(KeyError):
        with lock:
            monkeypatch.setattr(lock._client._link, "run", silent)
            raise KeyError
    monkeypatch.undo()
    with pytest.raises(redlatch.Unavailable):
        with lock:
            monkeypatch.setattr(lock._client._link, "run", silent)
    monkeypatch.undo()


def test_dropped_hold_is_given_back(url, server, kind):
    with redlatch.Client.from_url(url) as client:
        with pytest.warns(ResourceWarning, match="'n' held> was dropped before its release"):
            getattr(client, kind)("n", lease=1).acquire()
            gc.collect()
        eventually(lambda: server.hget("redlatch:{n}", "o") is None)
        eventually(lambda: not client._keeper._holds, 5)
        # A block keeps its hold, also without a name for it.
        with getattr(client, kind)("n", lease=1):
            gc.collect()
            time.sleep(1.5)
            assert client.lock("other").locked() is False and server.hget("redlatch:{n}", "o")


def test_dropped_hold_is_given_back_while_threads_hold_all_locks(url, server):
    with redlatch.Client.from_url(url) as client:
        hold = client.lock("n").acquire()
        with client._keeper._change, client._wakes._lock, client._begin:
            with pytest.warns(ResourceWarning):
                del hold
                gc.collect()
        eventually(lambda: server.hget("redlatch:{n}", "o") is None)


def test_fork_gives_no_hold_back_that_it_drops(url, server):
    with redlatch.Client.from_url(url) as client:
        held = [client.lock("n").acquire()]
        in_fork(lambda: held.clear() is None)
        time.sleep(0.1)
        assert held[0].owned()
        held[0].release()


@pytest.mark.parametrize("thread", ["notices", "renewals", "releases", "wakes"])
def test_client_ends_with_its_threads(url, server, thread, caplog):
    client = redlatch.Client.from_url(url)
    hold = client.lock("n").acquire()
    waiting = []

    def wait():
        with pytest.raises(redlatch.ClientClosed, match="lock 'n': a thread of the client"):
            client.lock("n").acquire()
        waiting.append("told")

    (waiter,) = in_threads([wait])
    eventually(lambda: client.lock("n").info()["waiters"] == 1)
    if thread == "notices":
        hold._tell = None
        hold._lease.lose("taken")
        client._keeper.wake()
    elif thread == "renewals":
        hold._lease.renewal = None
        hold._lease.renew_at = 0.0
        client._keeper.wake()
    elif thread == "releases":
        client._releaser.put(None)
    else:
        client._wakes._receive = None
        server.publish(client._core.settings.channel, "x")
    waiter.join(20)
    assert waiting == ["told"]
    assert hold.lost_cause in ("closed", "taken")
    with pytest.raises(redlatch.ClientClosed):
        client.lock("m").acquire()
    client.close()


def test_message_of_a_stranger_ends_nothing(make, server):
    lock, other = make(), make()
    hold = lock.acquire()
    channel = lock._client._core.settings.channel
    for message in (b"\xff\xfe", "redlatch:{n} ²", "redlatch:{n} " + "9" * 5000, "", "a b", " 1"):
        eventually(lambda: server.publish(channel, message) == 1)
    (waiter,) = in_threads([lambda: lock.acquire().release()])
    eventually(lambda: other.info()["waiters"] == 1)
    began = time.monotonic()
    assert hold.release() == "free"
    waiter.join(20)
    assert time.monotonic() - began < 1.5


def test_stranger_gets_few_answers(url, server):
    with redlatch.Client.from_url(url) as client:
        with client.fair_lock("n"):
            channel = client._core.settings.channel
            eventually(lambda: server.publish(channel, "redlatch:{n} 9") == 1)
            calls = "cmdstat_evalsha"
            before = server.info("commandstats")[calls]["calls"]
            for number in range(3000):
                server.publish(channel, f"redlatch:{{n}} {number}")
                # Messages about holds count, too.
                server.publish(channel, "redlatch:{n} 0")
            time.sleep(0.5)
            assert server.info("commandstats")[calls]["calls"] - before < 1500


def test_wait_for_a_loss_has_a_timer_of_its_own(url, server, monkeypatch):
    with redlatch.Client.from_url(url) as client:
        hold = client.lock("n", lease=0.3, renew=False).acquire()
        monkeypatch.setattr(hold, "_tell", lambda: None)
        assert hold.wait_lost(10) and hold.lost_cause == "expired"
        with client.lock("m") as held:
            assert not held.wait_lost(0.05)
        assert not held.wait_lost(0.05)


def test_block_may_end_in_another_thread(either, server):
    lock = either()
    lock.__enter__()
    (thread,) = in_threads([lambda: lock.__exit__(None, None, None)])
    thread.join(20)
    assert server.hget("redlatch:{n}", "o") is None


def test_burst_of_threads_leaves_few_connections(url, server):
    before = len(server.client_list())
    with redlatch.Client.from_url(url) as client:
        barrier = threading.Barrier(40)

        def work(number):
            barrier.wait()
            with client.lock(f"n{number}"):
                barrier.wait()

        works = [lambda number=number: work(number) for number in range(40)]
        for thread in in_threads(works):
            thread.join(60)
        eventually(lambda: len(server.client_list()) - before <= 12)
    eventually(lambda: len(server.client_list()) <= before)


def test_leases_of_any_length_leave_few_connections(url, server):
    before = len(server.client_list())
    with redlatch.Client.from_url(url) as client:
        for number in range(100):
            hold = client.lock(f"n{number}", lease=1 + number / 1000).acquire()
            hold.extend(1 + number / 900)
            hold.release()
        assert len(server.client_list()) - before <= 12


@pytest.mark.parametrize("waits", [False, True])
def test_interrupt_at_each_line_of_a_pass_takes_nothing(url, server, waits):
    with redlatch.Client.from_url(url) as client, redlatch.Client.from_url(url) as other:
        look = other.rate_limiter("n", rate=1, per=3600, burst=9)
        limiter = client.rate_limiter("n", rate=1, per=3600, burst=9)
        assert limiter.try_acquire()
        number, there, left = 1, True, 8
        while there:
            there, found = interrupted_at(number, limiter.acquire if waits else limiter.try_acquire)
            eventually(lambda: not client._limits._lines, 5)
            left -= 1 if found else 0
            assert look.peek().remaining == left
            number += 1
        assert number > 30 and left == 7


def test_fork_may_not_use_a_limiter(url, server):
    with redlatch.Client.from_url(url) as client:
        limiter = client.rate_limiter("n", rate=9)
        granted = limiter.acquire()
        for call in (limiter.try_acquire, limiter.peek, lambda: granted.settle(0)):
            in_fork(lambda call=call: raises(redlatch.ClientClosed, call))
        assert limiter.try_acquire()
