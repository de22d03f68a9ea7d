"""Uses the synchronous client in green threads. Arguments: `gevent` or `eventlet`, and the URL."""

import sys

kind, url = sys.argv[1:]
if kind == "gevent":
    import gevent
    import gevent.monkey

    gevent.monkey.patch_all()
    spawn = gevent.spawn
else:
    import eventlet

    eventlet.monkey_patch()
    spawn = eventlet.spawn

import gc
import time

import redlatch

count = 0


def work(client):
    global count
    for _ in range(3):
        with client.lock("counter", wait=20, lease=1):
            seen = count
            time.sleep(0.001)
            count = seen + 1


def all_of(threads):
    for thread in threads:
        thread.get() if kind == "gevent" else thread.wait()


one, two = redlatch.Client.from_url(url), redlatch.Client.from_url(url)
all_of([spawn(work, client) for client in (one, two) * 5])
assert count == 30, count
hold = one.fair_lock("renewed", lease=1).acquire()
time.sleep(1.5)
assert hold.state == "held"
waiter = spawn(lambda: two.fair_lock("renewed").acquire().release())
time.sleep(0.1)
hold.release()
all_of([waiter])
one.lock("dropped").acquire()
gc.collect()
two.lock("dropped").acquire(wait=20).release()
one.close()
two.close()
