"""Takes locks of redis-py by commands on the standard input; see the README beside it."""

import sys
import threading

import redis
from redis.lock import Lock

client = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]))


def say(*words):
    print(*words, flush=True)


def lock(name, lease, wait):
    seconds = float(wait) / 1000
    taken = Lock(client, name, timeout=float(lease) / 1000, blocking_timeout=seconds)
    return taken if taken.acquire() else None


def work(name, witness, lease):
    ended = threading.Event()

    def listen():
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    while not ended.is_set():
        taken = Lock(client, name, timeout=float(lease) / 1000, sleep=0.002, blocking_timeout=0.5)
        if not taken.acquire():
            continue
        if client.incr(witness) != 1:
            say("error two holders")
            return
        client.incr(witness + ":rounds")
        client.decr(witness)
        taken.release()
    say("done")


def main():
    held = None
    while line := sys.stdin.readline():
        command, *args = line.split()
        try:
            if command == "lock":
                held = lock(*args)
                say("held" if held else "busy")
            elif command == "extend":
                held.extend(float(args[0]) / 1000, replace_ttl=True)
                say("extended")
            elif command == "unlock":
                held.release()
                say("freed")
            elif command == "work":
                return work(*args)
            else:
                say("error unknown command", command)
        except Exception as error:
            say("error", type(error).__name__, error)


main()
