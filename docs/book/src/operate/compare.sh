#!/usr/bin/env bash
# Tries redlatch run, flock and etcdctl lock in the same way, and prints what happens and how long a
# call takes. It needs redlatch, redis-server, redis-cli, flock, etcd and etcdctl in the PATH, and
# starts servers of its own on free ports of loopback.
#
# All processes are ended by their numbers.
set -u
folder=$(mktemp -d)
cd "$folder" || exit 1
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
redis_port=$(port)
redis-server --port "$redis_port" --save '' --appendonly no >redis.log 2>&1 &
redis=$!
etcd_url=http://127.0.0.1:$(port)
etcd --data-dir data --listen-client-urls "$etcd_url" --advertise-client-urls "$etcd_url" \
  --listen-peer-urls "http://127.0.0.1:$(port)" >etcd.log 2>&1 &
etcd=$!
trap 'kill "$redis" "$etcd"; wait 2>/dev/null; rm -rf "$folder"' EXIT
export REDLATCH_URL=redis://127.0.0.1:$redis_port ETCDCTL_API=3 ETCDCTL_ENDPOINTS=$etcd_url
sleep 3

# Each way to run a command under the lock of this name, and to find out whether it is free.
redlatch_run() { redlatch run --lease 5s "$@"; }
flock_run() { local name=$1; shift 2; flock "$name" "$@"; }
etcd_run() { local name=$1; shift 2; etcdctl lock --ttl 5 "$name" -- "$@"; }

# The command writes its number, and lives until it is told to end.
command='echo $$ > pid; exec sleep 1000'
alive() { kill -0 "$1" 2>/dev/null && echo alive || echo dead; }

try() {
  local way=$1 fault=$2 name=$1-$2
  rm -f pid
  case $way in
    redlatch) redlatch run --lease 5s "$name" -- sh -c "$command" & ;;
    flock) flock "$name" sh -c "$command" & ;;
    etcdctl) etcdctl lock --ttl 5 "$name" -- sh -c "$command" & ;;
  esac
  local wrapper=$!
  until [ -s pid ]; do sleep 0.1; done
  local child
  child=$(cat pid)
  case $fault in
    silence)
      [ "$way" = redlatch ] && kill -STOP "$redis"
      [ "$way" = etcdctl ] && kill -STOP "$etcd"
      sleep 8
      ;;
    *)
      kill "-$fault" "$wrapper"
      sleep 8
      ;;
  esac
  echo "$way, $fault, after 8 s with a lease of 5 s: the command is $(alive "$child")"
  kill -CONT "$redis" "$etcd"
  kill -KILL "$child" 2>/dev/null
  kill -KILL "$wrapper" 2>/dev/null
  wait "$wrapper" 2>/dev/null
}

for way in redlatch flock etcdctl; do
  for fault in KILL TERM STOP silence; do
    [ "$way-$fault" = flock-silence ] || try "$way" "$fault"
  done
  for end in 'exit 7' 'kill -9 $$'; do
    case $way in
      redlatch) redlatch_run code -- sh -c "$end" ;;
      flock) flock_run code -- sh -c "$end" ;;
      etcdctl) etcd_run code -- sh -c "$end" ;;
    esac 2>/dev/null
    echo "$way, $end: exit code $?"
  done
done

# The middle of 101 calls, from start to end.
middle() {
  local what=$1
  shift
  for _ in $(seq 101); do
    local begun
    begun=$(date +%s%N)
    "$@" >/dev/null
    echo $((($(date +%s%N) - begun) / 1000))
  done | sort -n | sed -n 51p | xargs printf '%s: %s µs\n' "$what"
}
middle 'true' /bin/true
middle 'flock lock true' flock lock true
middle 'redis-cli ping' redis-cli -p "$redis_port" ping
middle 'redlatch run -n x -- true' redlatch run -n x -- true
middle 'etcdctl lock x true' etcdctl lock x true
