#!/usr/bin/env bash
# Tries redlatch run, flock, etcdctl lock and etcdctl elect in the same way, prints the results, and
# prints how long a call takes. It needs redlatch, redis-server, redis-cli, flock, etcd, etcdctl and
# python3 in the PATH, and starts servers of its own on free ports of loopback. It takes about four
# minutes.
#
# Processes are ended by their numbers.
set -u
folder=$(mktemp -d)
cd "$folder" || exit 1
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
redis_port=$(port)
redis-server --port "$redis_port" --save '' --appendonly no >redis.log 2>&1 &
redis=$!
etcd_url=http://127.0.0.1:$(port)
peer_url=http://127.0.0.1:$(port)
etcd --data-dir data --listen-client-urls "$etcd_url" --advertise-client-urls "$etcd_url" \
  --listen-peer-urls "$peer_url" --initial-advertise-peer-urls "$peer_url" \
  --initial-cluster "default=$peer_url" >etcd.log 2>&1 &
etcd=$!
started=()
finish() {
  kill -CONT "$redis" "$etcd" "${started[@]}"
  kill -KILL "${started[@]}" "$redis" "$etcd"
  wait
  rm -rf "$folder"
} 2>/dev/null
trap finish EXIT
export REDLATCH_URL=redis://127.0.0.1:$redis_port ETCDCTL_API=3 ETCDCTL_ENDPOINTS=$etcd_url
until redis-cli -p "$redis_port" ping >answers 2>&1 && etcdctl endpoint health >answers 2>&1; do
  sleep 0.1
done
redlatch --version
redis-server --version
flock --version
etcdctl version

# A process that has ended and was not reaped is dead: its parent may be stopped.
alive() {
  case $(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) in
    '' | Z | X) echo dead ;;
    *) echo alive ;;
  esac
}
export -f alive

# Runs a command under the lock of this name.
under() {
  local way=$1 name=$2
  shift 2
  case $way in
    redlatch) exec redlatch run --lease 5s --kill-after 1s "$name" -- "$@" ;;
    flock) exec flock "$name" "$@" ;;
    etcdctl) exec etcdctl lock --ttl 5 "$name" -- "$@" ;;
  esac
}

# What the next holder does: it looks whether the first command is alive.
next='alive "$(cat pid)" > next.part; mv next.part next'

# Prints what the next holder has seen, if there is one within 12 s.
told() {
  local way=$1 what=$2 begun=$3 n
  for n in $(seq 120); do
    [ -s next ] && break
    sleep 0.1
  done
  if [ -s next ]; then
    local after=$(($(stat -c %Y next) - begun))
    echo "$way, $what: the next holder has the lock about $after s later; the command is $(cat next)"
  else
    echo "$way, $what: nobody else has the lock within 12 s; the command is $(alive "$(cat pid)")"
  fi
}

# Ends what is left of one trial.
clear() {
  kill -CONT "$redis" "$etcd" "${started[@]}"
  kill -KILL "$(cat pid)" "${started[@]}"
  wait "${started[@]}"
  started=()
  rm -f pid next
} 2>/dev/null

try() {
  local way=$1 fault=$2 name=$1-$2
  # The command writes its number, and lives until it is told to end.
  (under "$way" "$name" bash -c 'echo $$ > part; mv part pid; exec sleep 1000') 2>>messages &
  local wrapper=$!
  started+=("$wrapper")
  until [ -s pid ]; do sleep 0.1; done
  (under "$way" "$name" bash -c "$next") >>messages 2>&1 &
  started+=($!)
  sleep 1
  local begun
  begun=$(date +%s)
  if [ "$fault" = silence ]; then
    [ "$way" = redlatch ] && kill -STOP "$redis"
    [ "$way" = etcdctl ] && kill -STOP "$etcd"
    sleep 6
    echo "$way, $fault for 6 s: the command is $(alive "$(cat pid)")"
    kill -CONT "$redis" "$etcd"
  else
    kill "-$fault" "$wrapper"
  fi
  told "$way" "$fault" "$begun"
  clear
}

for way in redlatch flock etcdctl; do
  for fault in KILL TERM STOP silence; do
    [ "$way-$fault" = flock-silence ] || try "$way" "$fault"
  done

  # A command that ends and leaves a child behind.
  (under "$way" "$way-left" bash -c 'sleep 1000 & echo $! > part; mv part pid') 2>>messages &
  started+=($!)
  until [ -s pid ]; do sleep 0.1; done
  begun=$(date +%s)
  (under "$way" "$way-left" bash -c "$next") >>messages 2>&1 &
  started+=($!)
  told "$way" 'a child that is left behind' "$begun"
  clear

  for end in 'exit 7' 'kill -9 $$'; do
    (under "$way" "$way-code" bash -c "$end") >>messages 2>&1
    echo "$way, $end: exit code $?"
  done
  echo "$way, names and tokens in the environment:" \
    $(under "$way" "$way-env" env 2>>messages | grep -E '^(REDLATCH_(NAME|TOKEN)|ETCD_LOCK)')
done

# Waits for a line of a leader, and prints after how many seconds it came.
led() {
  local what=$1 file=$2 begun=$3 n
  for n in $(seq 900); do
    [ -s "$file" ] && break
    sleep 0.1
  done
  [ -s "$file" ] || { echo "$what: nobody else leads within 90 s" && return; }
  echo "$what: the next one leads about $(($(stat -c %Y "$file") - begun)) s later"
}

for fault in KILL TERM silence; do
  etcdctl elect "boss-$fault" one >one 2>>messages &
  leader=$!
  started+=("$leader")
  until [ -s one ]; do sleep 0.1; done
  etcdctl elect "boss-$fault" other >other 2>>messages &
  started+=($!)
  sleep 1
  begun=$(date +%s)
  if [ "$fault" = silence ]; then
    kill -STOP "$etcd"
    sleep 70
    echo "etcdctl elect, silence for 70 s: the leader is $(alive "$leader")"
    kill -CONT "$etcd"
  else
    kill "-$fault" "$leader"
  fi
  led "etcdctl elect, $fault" other "$begun"
  echo "etcdctl elect, $fault: the first leader is $(alive "$leader") by then"
  clear
  rm -f one other
done

# The middle of 101 calls, from start to end.
middle() {
  python3 -c '
import subprocess, sys, time
def call():
    begun = time.perf_counter()
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun
spans = sorted(call() for _ in range(101))
print(f"{spans[50] * 1000:.1f} ms (90 of 100 within {spans[90] * 1000:.1f} ms): " + " ".join(sys.argv[1:]))
' "$@"
}
middle true
middle flock lock true
middle redis-cli -p "$redis_port" ping
middle redlatch run -n x -- true
middle etcdctl lock x true
