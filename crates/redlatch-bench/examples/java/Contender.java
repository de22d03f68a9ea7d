// A contender of `cargo xtask bench` in Java 17: the locks of Redisson. From the project's root:
//
//     mvn -q -f crates/redlatch-bench/examples/java package
//     cargo xtask bench W1 W2 W3 W4 --with=redisson="java -Xss256k -jar target/java-contender/contender.jar redisson"
//
// `redisson` is RLock, `redisson-fair` the fair lock; both as they are got by default, kept by the watchdog. It speaks
// the lines of `src/contender/external.rs`, and its rounds are those of `src/contender/drive.rs`. The small stacks are for
// rounds of a thousand tasks, each of which is a thread. With so many waiters the fair lock is slow, also in the round
// that follows; it subscribes once for each waiter, and Redisson has at most 250 subscriptions by default.

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionService;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Contender {
    /**
     * What Redisson itself sends for these locks. It locks and unlocks by `evalsha`, and then deletes the key in which
     * the script left its outcome for a caller that might ask again: three commands a pair. INFO commandstats also counts
     * the `del` in the script of each unlock and cannot tell them apart, so the benchmark's number is one a pair too high.
     */
    private static final String VERBS = "del,eval,evalsha,ping,script|load,subscribe,unsubscribe";

    /** Redisson's locks belong to threads, so a task is a thread. Threads are kept, so that rounds do not pay for them. */
    private final ExecutorService threads = Executors.newCachedThreadPool();

    private final Function<String, RLock> locks;

    private Contender(Function<String, RLock> locks) {
        this.locks = locks;
    }

    public static void main(String[] arguments) throws IOException {
        if (arguments.length != 2) {
            System.err.println("usage: Contender redisson|redisson-fair <url>");
            System.exit(2);
        }
        Writer out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.US_ASCII), 1 << 16);
        RedissonClient client = null;
        try {
            Config config = new Config();
            config.useSingleServer().setAddress(arguments[1]);
            client = Redisson.create(config);
            serve(new Contender(locksOf(arguments[0], client)), out);
        } catch (Exception why) {
            fail(out, why);
        }
        if (client != null) {
            client.shutdown();
        }
        // Tasks of a round that failed may wait for ever.
        System.exit(0);
    }

    private static Function<String, RLock> locksOf(String library, RedissonClient client) {
        return switch (library) {
            case "redisson" -> client::getLock;
            case "redisson-fair" -> client::getFairLock;
            default -> throw new IllegalArgumentException("unknown library " + library);
        };
    }

    /** Answers line by line, until there are no more. */
    private static void serve(Contender contender, Writer out) throws Exception {
        warmUp(contender);
        out.write("ready " + VERBS + "\n");
        out.flush();
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                contender.run(Job.read(line), out);
            } catch (ExecutionException why) {
                fail(out, why.getCause());
            } catch (Throwable why) {
                // Of errors, too few threads is one that many tasks may well meet.
                fail(out, why);
            }
            out.flush();
        }
    }

    /** The JVM compiles what runs often, which takes it seconds, and rounds are short. Nobody looks yet. */
    private static void warmUp(Contender contender) throws Exception {
        String key = "warm-up-of-" + ProcessHandle.current().pid();
        long second = TimeUnit.SECONDS.toNanos(1);
        contender.run(new Job("own", key, 1, second, 0, 0), Writer.nullWriter());
        contender.run(new Job("own", key, 64, 2 * second, 0, 0), Writer.nullWriter());
        contender.run(new Job("one", key, 16, second, 0, 0), Writer.nullWriter());
    }

    private static void fail(Writer out, Throwable why) throws IOException {
        // An answer is one line; some of Redisson's messages are several.
        out.write("failed " + why.toString().replaceAll("\\s+", " ") + "\n");
        out.flush();
    }

    private void run(Job job, Writer out) throws Exception {
        var ready = new CountDownLatch(job.tasks);
        var gate = new CountDownLatch(1);
        CompletionService<Done> tasks = new ExecutorCompletionService<>(threads);
        for (int number = 0; number < job.tasks; number++) {
            RLock lock = locks.apply(job.nameOf(number));
            tasks.submit(() -> {
                ready.countDown();
                gate.await();
                return job.names.equals("one") ? together(lock, job) : alone(lock, job);
            });
        }
        ready.await();
        long began = System.nanoTime();
        gate.countDown();
        List<Done> done = new ArrayList<>(job.tasks);
        for (int ended = 0; ended < job.tasks; ended++) {
            // The first one that failed fails the round, while others may still wait.
            done.add(tasks.take().get());
        }
        long wall = System.nanoTime() - began;
        // A list is written as one of JSON.
        out.write("{\"wall\":" + wall + ",\"tasks\":" + done + "}\n");
    }

    private static Done alone(RLock lock, Job job) {
        var done = new Done("latencies");
        End end = job.end();
        long before = System.nanoTime();
        while (!end.hasCome(done.pairs)) {
            lock.lock();
            lock.unlock();
            long now = System.nanoTime();
            done.numbers.add(now - before);
            done.pairs++;
            before = now;
        }
        return done;
    }

    /** A waiter that does not get the name any more goes when the time is up. */
    private static Done together(RLock lock, Job job) throws InterruptedException {
        var done = new Done("holds");
        End end = job.end();
        while (!end.hasCome(done.pairs)) {
            if (!job.isTimed()) {
                lock.lock();
            } else if (!lock.tryLock(end.millisLeft(), TimeUnit.MILLISECONDS)) {
                break;
            }
            // On Linux, nanoTime is CLOCK_MONOTONIC, which all processes of the machine share.
            long got = System.nanoTime();
            rest(job.hold);
            long left = System.nanoTime();
            lock.unlock();
            done.numbers.add(List.of(got, left));
            done.pairs++;
        }
        return done;
    }

    /** Waits as a holder does who works. Thread.sleep would end up to a whole ms late. */
    private static void rest(long nanos) {
        long end = System.nanoTime() + nanos;
        // Parking may end early, for no reason or for a permit that waiting for the lock has left.
        for (long left = nanos; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    /** What a line asks for; of ns and pairs, one is 0. */
    private record Job(String names, String key, int tasks, long nanos, long pairs, long hold) {
        static Job read(String line) {
            var job = new Job(
                    field(line, "names"),
                    field(line, "key"),
                    Integer.parseInt(field(line, "tasks")),
                    Long.parseLong(field(line, "time")),
                    Long.parseLong(field(line, "pairs")),
                    Long.parseLong(field(line, "hold")));
            if (!line.startsWith("{\"run\":") || !List.of("own", "one").contains(job.names)) {
                throw new IllegalArgumentException("unknown request " + line);
            }
            return job;
        }

        /** Words in these lines have no quotation marks. */
        private static String field(String line, String name) {
            Matcher field = Pattern.compile("\"" + name + "\":\"?([^\",}]+)").matcher(line);
            return field.find() ? field.group(1) : "";
        }

        String nameOf(int task) {
            return names.equals("own") ? key + ":" + task : key;
        }

        boolean isTimed() {
            return nanos > 0;
        }

        /** Its time begins now. */
        End end() {
            return new End(isTimed(), System.nanoTime() + nanos, pairs);
        }
    }

    /** When a task that has started ends. */
    private record End(boolean isTimed, long at, long pairs) {
        boolean hasCome(long done) {
            return isTimed ? System.nanoTime() - at >= 0 : done >= pairs;
        }

        /** Rounded up: of 0, Redisson would not wait at all. */
        long millisLeft() {
            return Math.max(1, (at - System.nanoTime() + 999_999) / 1_000_000);
        }
    }

    /** What a task has done: the ns of each pair, or the two times of each hold. */
    private static final class Done {
        private final String what;
        private final List<Object> numbers = new ArrayList<>();
        private long pairs;

        Done(String what) {
            this.what = what;
        }

        @Override
        public String toString() {
            return "{\"pairs\":" + pairs + ",\"" + what + "\":" + numbers + "}";
        }
    }
}
