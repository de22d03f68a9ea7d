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
import java.util.Arrays;
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
        for (String line : List.of("run own " + key + " 1 1000 0 0", "run own " + key + " 64 2000 0 0", "run one " + key + " 16 1000 0 0")) {
            contender.run(Job.read(line), Writer.nullWriter());
        }
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
            int task = number;
            RLock lock = locks.apply(job.nameOf(task));
            tasks.submit(() -> {
                ready.countDown();
                gate.await();
                return job.one ? together(lock, task, job) : alone(lock, job);
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
        for (Done task : done) {
            task.write(out);
        }
        out.write("done " + wall + "\n");
    }

    private static Done alone(RLock lock, Job job) {
        var done = new Done(-1);
        End end = job.end();
        long before = System.nanoTime();
        while (!end.hasCome(done.pairs)) {
            lock.lock();
            lock.unlock();
            long now = System.nanoTime();
            done.push(now - before);
            done.pairs++;
            before = now;
        }
        return done;
    }

    /** A waiter that does not get the name any more goes when the time is up. */
    private static Done together(RLock lock, int task, Job job) throws InterruptedException {
        var done = new Done(task);
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
            done.push(got);
            done.push(left);
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
    private record Job(boolean own, boolean one, String key, int tasks, long nanos, long pairs, long hold) {
        static Job read(String line) {
            String[] words = line.split(" ");
            if (words.length != 7 || !words[0].equals("run") || !List.of("own", "one").contains(words[1])) {
                throw new IllegalArgumentException("unknown request " + line);
            }
            return new Job(
                    words[1].equals("own"),
                    words[1].equals("one"),
                    words[2],
                    Integer.parseInt(words[3]),
                    TimeUnit.MILLISECONDS.toNanos(Long.parseLong(words[4])),
                    Long.parseLong(words[5]),
                    TimeUnit.MICROSECONDS.toNanos(Long.parseLong(words[6])));
        }

        String nameOf(int task) {
            return own ? key + ":" + task : key;
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

    /** What a task has done; of one that holds, each hold is two numbers, and else each pair one. */
    private static final class Done {
        private final int holder;
        private long pairs;
        private long[] numbers = new long[64];
        private int length;

        Done(int holder) {
            this.holder = holder;
        }

        void push(long number) {
            if (length == numbers.length) {
                numbers = Arrays.copyOf(numbers, 2 * length);
            }
            numbers[length++] = number;
        }

        void write(Writer out) throws IOException {
            if (holder >= 0) {
                for (int i = 0; i < length; i += 2) {
                    out.write("hold " + holder + " " + numbers[i] + " " + numbers[i + 1] + "\n");
                }
            } else {
                for (int i = 0; i < length; i++) {
                    // A hundred in a line.
                    out.write((i % 100 == 0 ? (i == 0 ? "latency " : "\nlatency ") : " ") + numbers[i]);
                }
                out.write(length > 0 ? "\n" : "");
            }
            out.write("task " + pairs + "\n");
        }
    }
}
