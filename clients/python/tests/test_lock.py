"""The synchronous client on a real server."""

import os
import signal
import sys
import threading
import time

import pytest
from conftest import eventually

import redlatch


@pytest.fixture(params=["lock", "fair_lock"])
def make(request, url):
    clients = []

    def make(name="n", **options):
        client = redlatch.Client.from_url(url)
        clients.append(client)
        return getattr(client, request.param)(name, **options)

    yield make
    for client in clients:
        client.close()


def test_hold_excludes_and_release_frees(make, server):
    first, second = make(), make(wait=0)
    with first as hold:
        assert second.acquire() is None
        assert hold.state == "held" and 29 < hold.remaining < 30
        assert first.info()["owner"] == hold.owner
        with pytest.raises(redlatch.LockBusy), second:
            pass
    assert first.info() is None
    with second as later:
        assert later.token > hold.token
    assert hold.lost_cause == "released"


def test_waiter_is_called_by_a_message(make):
    first, second = make(lease=60), make(lease=60)
    hold = first.acquire()
    got = []
    waiter = threading.Thread(target=lambda: got.append(second.acquire()))
    waiter.start()
    eventually(lambda: first.info()["waiters"] == 1)
    began = time.monotonic()
    assert hold.release() == "free"
    waiter.join(20)
    # The end of the lease would be a minute away, and a re-check 1.6 s.
    assert time.monotonic() - began < 1.5
    assert got[0].release() == "free"


def test_wait_ends_and_leaves_no_place(make):
    first, second = make(), make(wait=0.2)
    with first:
        assert second.acquire() is None
        eventually(lambda: first.info()["waiters"] == 0)


def test_renewal_keeps_a_hold_beyond_its_lease(make):
    with make(lease=1) as hold:
        time.sleep(2)
        assert hold.state == "held"
        hold.check()


def test_holder_stops_before_the_server_does(make, server):
    with make(lease=60, renew=False) as hold:
        left = hold.remaining * 1000
        # The margin of such a lease is 1,204 ms.
        assert int(server.hget("redlatch:{n}", "u")) - server_ms(server) > left


def test_holder_is_told_of_the_end_of_a_fixed_lease(make):
    hold = make(lease=0.4, renew=False).acquire()
    told = []
    hold.on_lost(lambda hold: told.append(hold.lost_cause))
    assert hold.wait_lost(5)
    assert hold.state == "lost" and hold.lost_cause == "expired"
    eventually(lambda: told == ["expired"])
    with pytest.raises(redlatch.LockLost):
        hold.check()
    assert hold.release() in ("expired", "free")


def server_ms(server):
    seconds, micros = server.time()
    return seconds * 1000 + micros // 1000


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


def test_callback_that_comes_with_the_loss_is_called_once(make):
    hold = make().acquire()
    told = []

    class Callbacks(list):
        def append(self, callback):
            super().append(callback)
            notice.start()
            notice.join(0.2)

    notice = threading.Thread(target=hold._tell)
    hold._callbacks = Callbacks()
    hold.on_lost(told.append)
    notice.join()
    hold.on_lost(told.append)
    assert told == [hold, hold]


def test_holder_is_told_that_the_server_forgot(make, server):
    with pytest.raises(redlatch.LockLost, match="forgotten"):
        with make(lease=1) as hold:
            server.flushall()
            assert hold.wait_lost(5)


def test_later_holder_is_told_of_a_holder_that_died(make, server):
    hold = make(lease=0.2, renew=False).acquire()
    assert hold.wait_lost(5)
    with make() as next_hold:
        assert next_hold.abandoned and next_hold.token > hold.token
    assert hold.release() == "taken_over"


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
            assert number < 5
            hold.release()
        eventually(lambda: server.hget("redlatch:{n}", "o") is None, 5)
        number += 1
    assert not lock._client._keeper._holds


def test_lost_reply_is_asked_for_again_with_the_same_attempt(make, server, monkeypatch):
    lock = make()
    lock._client._start()
    link, run = lock._client._link, lock._client._link.run
    sent = []

    def losing(call, timeout):
        reply = run(call, timeout)
        sent.append(call)
        if len(sent) == 1:
            raise redlatch._link.NoAnswer("lost", may_have_run=True)
        return reply

    monkeypatch.setattr(link, "run", losing)
    hold = lock.acquire()
    assert [call.args[2] for call in sent] == [sent[0].args[2]] * 2
    assert lock.info()["count"] == 1
    hold.release()
    # The copy whose answer was lost can act no more: its attempt is void.
    assert server.hexists("redlatch:{n}", f"v:{sent[0].args[2]}")


def test_threads_count_without_loss(make, server):
    locks = [make(name="counter"), make(name="counter")]
    server.set("count", 0)

    def work(lock):
        for _ in range(10):
            with lock:
                server.set("count", int(server.get("count")) + 1)

    threads = [threading.Thread(target=work, args=(locks[i % 2],)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert server.get("count") == "160"


def test_wrong_input_is_told(url, server):
    with redlatch.Client.from_url(url) as client:
        with pytest.raises(redlatch.InvalidName, match="1 to 512 bytes"):
            client.lock("")
        with pytest.raises(redlatch.InvalidLease, match="365 days"):
            client.lock("n", lease=0.9)
        client.lock("n", lease=0.9, renew=False)
        with pytest.raises(redlatch.InvalidName, match="prefix"):
            redlatch.Client.from_url(url, prefix="a b")
        with client.lock("n"):
            with pytest.raises(redlatch.WrongKind, match="lock:1"):
                client.fair_lock("n").acquire()
    with pytest.raises(redlatch.ClientClosed):
        client.lock("n").acquire()


def test_value_of_another_program_is_told_and_stays(make, server):
    server.set("redlatch:{n}", "mine")
    lock = make()
    for call in (lock.acquire, lambda: lock.acquire(wait=0), lock.info):
        with pytest.raises(redlatch.WrongKind, match="WRONGTYPE"):
            call()
    hold = make(name="m", lease=3).acquire()
    server.delete("redlatch:{m}")
    server.rpush("redlatch:{m}", "mine")
    began = time.monotonic()
    assert hold.wait_lost(5) and hold.lost_cause == "forgotten"
    assert time.monotonic() - began < 2.5
    with pytest.raises(redlatch.WrongKind):
        hold.release()
    began = time.monotonic()
    lock._client.close()
    hold._client.close()
    assert time.monotonic() - began < 5
    assert server.get("redlatch:{n}") == "mine" and server.type("redlatch:{m}") == "list"


def test_close_tells_and_frees(url, server):
    client = redlatch.Client.from_url(url)
    hold = client.lock("n").acquire()
    client.close()
    assert hold.lost_cause == "closed"
    with redlatch.Client.from_url(url) as other:
        assert other.lock("n", wait=0).acquire() is not None


def test_names_of_the_past_take_no_memory(url, server):
    with redlatch.Client.from_url(url) as client:
        for number in range(20):
            with client.lock(f"n{number}"):
                pass
        assert len(client._lines) == 0
        for number in range(10_100):
            client.fair_lock(f"f{number}")
        assert len(client._core.fair_keys) == 10_000


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


def test_server_that_is_away_is_told():
    with pytest.raises(redlatch.Unavailable) as told:
        redlatch.Client.from_url("redis://127.0.0.1:1")
    assert not told.value.may_have_run


def test_fair_lock_keeps_the_order(url, server):
    clients = [redlatch.Client.from_url(url) for _ in range(4)]
    hold = clients[0].fair_lock("n").acquire()
    order = []

    def work(number):
        with clients[number].fair_lock("n"):
            order.append(number)

    threads = []
    for number in (1, 2, 3):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        threads.append(thread)
        eventually(lambda: clients[0].fair_lock("n").info()["waiters"] == number)
    hold.release()
    for thread in threads:
        thread.join(30)
    assert order == [1, 2, 3]
    for client in clients:
        client.close()


def test_place_of_an_unknown_waiter_is_withdrawn(url, server):
    with redlatch.Client.from_url(url) as client, redlatch.Client.from_url(url) as other:
        hold = client.fair_lock("n").acquire()
        other.fair_lock("n")
        other._start()
        assert other._wakes.settle(5)
        ghost = f"PUBLISH redlatch:w:{other.id} 99 98"
        now = server_ms(server)
        server.zadd("redlatch:{n}:q", {ghost: now * 1000})
        server.zadd("redlatch:{n}:l", {f"redlatch:w:{other.id}": now + 5000})
        server.hset("redlatch:{n}", "n", str(now + 5000))
        hold.release()
        eventually(lambda: server.zcard("redlatch:{n}:q") == 0, 4)
