"""The clients on a real server."""

import os
import signal
import threading
import time

import pytest
from conftest import eventually, in_threads

import redlatch


def test_hold_excludes_and_release_frees(either, server):
    first, second = either(), either(wait=0)
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


def test_waiter_is_called_by_a_message(either):
    first, second = either(lease=60), either(lease=60)
    hold = first.acquire()
    got = []
    (waiter,) = in_threads([lambda: got.append(second.acquire())])
    eventually(lambda: first.info()["waiters"] == 1)
    began = time.monotonic()
    assert hold.release() == "free"
    waiter.join(20)
    # The end of the lease would be a minute away, and a re-check 1.6 s.
    assert time.monotonic() - began < 1.5
    assert got[0].release() == "free"


def test_wait_ends_and_leaves_no_place(either):
    first, second = either(), either(wait=0.2)
    with first:
        assert second.acquire() is None
        eventually(lambda: first.info()["waiters"] == 0)


def test_renewal_keeps_a_hold_beyond_its_lease(either):
    with either(lease=1) as hold:
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
    hold._caller.join()
    hold.on_lost(told.append)
    assert told == [hold, hold]


def test_callback_that_blocks_delays_no_other_notice(url, server):
    with redlatch.Client.from_url(url) as client:
        options, seen, told = {"lease": 1, "renew": False}, threading.Event(), []
        first, second = (client.lock(name, **options).acquire() for name in "ab")
        first.on_lost(lambda _: told.append(seen.wait(20)))
        second.on_lost(lambda _: seen.set())
        assert seen.wait(10) and second.lost_cause == "expired"
        # Those of one hold are called one after the other.
        first._caller.join(10)
        assert told == [True]


def test_holder_is_told_that_the_server_forgot(make, server):
    with pytest.raises(redlatch.LockLost, match="forgotten"):
        with make(lease=1) as hold:
            server.flushall()
            assert hold.wait_lost(5)


def test_later_holder_is_told_of_a_holder_that_died(either, server):
    hold = either(lease=0.2, renew=False).acquire()
    assert hold.wait_lost(5)
    with either() as next_hold:
        assert next_hold.abandoned and next_hold.token > hold.token
    assert hold.release() == "taken_over"


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
    assert [call.args[6] for call in sent] == [sent[0].args[6]] * 2
    assert lock.info()["count"] == 1
    hold.release()
    # The copy whose answer was lost can act no more: the record has its attempt.
    assert str(sent[0].args[6]) in str(server.hget("redlatch:{n}", "v"))


def test_threads_count_without_loss(either, server):
    locks = [either(name="counter"), either(name="counter")]
    server.set("count", 0)

    def work(lock):
        for _ in range(10):
            with lock:
                server.set("count", int(server.get("count")) + 1)

    for thread in in_threads([lambda lock=locks[i % 2]: work(lock) for i in range(16)]):
        thread.join(60)
    assert server.get("count") == "160"


def test_wrong_input_is_told(url, server):
    with redlatch.Client.from_url(url) as client:
        with pytest.raises(redlatch.InvalidName, match="1 to 512 bytes"):
            client.lock("")
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
    assert hold.release() == "forgotten"
    began = time.monotonic()
    lock._client.close()
    hold._client.close()
    assert time.monotonic() - began < 5
    assert server.get("redlatch:{n}") == "mine" and server.type("redlatch:{m}") == "list"


def test_names_of_the_past_take_no_memory(url, server):
    with redlatch.Client.from_url(url) as client:
        for number in range(20):
            with client.lock(f"n{number}"):
                pass
        assert len(client._lines) == 0
        for number in range(10_100):
            client.fair_lock(f"f{number}")
        assert len(client._core.fair_keys) == 10_000


def test_stopped_server_is_told_in_time(make, server):
    lock, other = make(lease=1), make()
    hold = lock.acquire()
    began = time.monotonic()
    pid = server.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert hold.wait_lost(5) and hold.lost_cause == "unreachable"
        assert time.monotonic() - began < 1
        with pytest.raises(redlatch.Unavailable):
            lock.acquire(wait=0.5)
    finally:
        os.kill(pid, signal.SIGCONT)
    # What the requests in the meantime have taken is given back.
    with other as later:
        assert later.token > hold.token
    assert hold.release() in ("expired", "taken_over", "unconfirmed")


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
        threads += in_threads([lambda number=number: work(number)])
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


def test_server_is_asked_who_holds(either, server):
    lock = either()
    assert not lock.locked()
    with lock as hold:
        assert lock.locked() and hold.owned()
        server.delete("redlatch:{n}")
        assert not lock.locked() and not hold.owned() and hold.lost_cause is None
    with lock as later:
        assert later.owned() and not hold.owned()


def test_hold_is_extended_and_never_shortened(either, server):
    hold = either(lease=1, renew=False).acquire()
    hold.extend(60)
    assert 50 < hold.remaining < 60
    hold.extend(5)
    assert 50 < hold.remaining < 60
    assert either().info()["remaining"] > 50
    for seconds in (0.01, float("inf"), "5"):
        with pytest.raises(redlatch.InvalidLease):
            hold.extend(seconds)
    assert hold.release() == "free"
    with pytest.raises(redlatch.LockLost, match="released"):
        hold.extend(5)


def test_extension_does_not_end_the_renewals(either):
    with either(lease=1) as hold:
        hold.extend(1.2)
        time.sleep(2)
        assert hold.state == "held"


@pytest.mark.parametrize("spoil", ["delete", "foreign", "force"])
def test_extension_of_a_lost_hold_is_a_loss(either, server, spoil):
    hold = either().acquire()
    if spoil == "force":
        assert either().force_release()
    else:
        server.delete("redlatch:{n}")
        if spoil == "foreign":
            server.set("redlatch:{n}", "mine")
    cause = "revoked" if spoil == "force" else "forgotten"
    with pytest.raises(redlatch.LockLost, match=cause) as told:
        hold.extend(9)
    assert (told.value.cause, told.value.name) == (cause, "n") == (hold.lost_cause, hold.name)
    assert hold.wait_lost(5) and hold.release() == cause


def test_hold_is_ended_by_force(either):
    lock, other = either(lease=60), either(wait=0)
    assert not lock.force_release()
    hold = lock.acquire()
    assert not other.force_release(hold.token + 1) and hold.owned()
    # Its own client tells at once, long before the next renewal.
    assert lock.force_release() and hold.lost_cause == "revoked" and hold.wait_lost(5)
    with other as later:
        assert later.token > hold.token and later.abandoned
        lock.force_release(hold.token)
        assert later.owned()
    assert hold.release() == "revoked"


def test_holder_of_another_client_is_told_at_once_of_a_forced_end(either):
    hold = either(lease=60).acquire()
    # The client begins to listen with its first acquisition.
    eventually(lambda: hold._client._wakes.subscribed)
    assert either().force_release() and hold.wait_lost(5)
    assert hold.lost_cause == "revoked"


def test_waiter_is_called_by_a_forced_end(either):
    first, second = either(lease=60), either(lease=60)
    hold, got = first.acquire(), []
    (waiter,) = in_threads([lambda: got.append(second.acquire())])
    eventually(lambda: first.info()["waiters"] == 1)
    began = time.monotonic()
    assert second.force_release(hold.token)
    waiter.join(20)
    assert got and time.monotonic() - began < 1.5
