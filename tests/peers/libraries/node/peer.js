// Takes locks of node-redlock by commands on the standard input; see the README beside it.
"use strict";

const readline = require("node:readline");
const Redis = require("ioredis");
const { default: Redlock, ResourceLockedError, ExecutionError } = require("redlock");

const client = new Redis({ host: process.argv[2], port: Number(process.argv[3]) });
const DELAY = 200;

const say = (...words) => console.log(words.join(" "));

// The library's defaults, but for the number of tries.
const waiting = (wait) => {
  const retryCount = Math.ceil(wait / DELAY);
  return new Redlock([client], { retryDelay: DELAY, retryJitter: 100, retryCount });
};
const eager = new Redlock([client], { retryDelay: 2, retryJitter: 1, retryCount: 200 });

let held;
let ended = false;

async function take(redlock, name, lease) {
  try {
    return await redlock.acquire([name], lease);
  } catch (error) {
    if (error instanceof ResourceLockedError || error instanceof ExecutionError) {
      const attempts = await Promise.all(error.attempts ?? []);
      const votes = attempts.flatMap((stats) => [...stats.votesAgainst.values()]);
      if (votes.every((vote) => vote instanceof ResourceLockedError)) return undefined;
      throw votes.find((vote) => !(vote instanceof ResourceLockedError));
    }
    throw error;
  }
}

async function work(name, witness, lease) {
  while (!ended) {
    const taken = await take(eager, name, lease);
    if (!taken) continue;
    if ((await client.incr(witness)) !== 1) {
      say("error two holders");
      process.exit(1);
    }
    await client.incr(`${witness}:rounds`);
    await client.decr(witness);
    await taken.release();
  }
  say("done");
  process.exit(0);
}

async function run(line) {
  const [command, ...args] = line.trim().split(/\s+/);
  if (command === "lock") {
    held = await take(waiting(Number(args[2])), args[0], Number(args[1]));
    say(held ? "held" : "busy");
  } else if (command === "extend") {
    held = await held.extend(Number(args[0]));
    say("extended");
  } else if (command === "unlock") {
    await held.release();
    say("freed");
  } else if (command === "work") {
    await work(args[0], args[1], Number(args[2]));
  } else {
    say("error unknown command", command);
  }
}

let queue = Promise.resolve();
const lines = readline.createInterface({ input: process.stdin });
lines.on("line", (line) => {
  queue = queue.then(() => run(line)).catch((error) => say("error", error.name, error.message));
});
lines.on("close", () => {
  ended = true;
  queue.then(() => process.exit(0));
});
