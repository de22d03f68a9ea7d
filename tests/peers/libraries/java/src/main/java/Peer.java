import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.redisson.Redisson;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Takes locks of Redisson by commands on the standard input; see the README beside it. */
public final class Peer {
    /** The renewed lease. The library renews every third of it. */
    private static final long WATCHDOG = 3000;

    private final RedissonClient client;
    private final BufferedReader lines;
    private RLock held;

    private Peer(RedissonClient client, BufferedReader lines) {
        this.client = client;
        this.lines = lines;
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.setLockWatchdogTimeout(WATCHDOG);
        config.setThreads(2);
        config.setNettyThreads(2);
        config.useSingleServer()
                .setAddress("redis://" + args[0] + ":" + args[1])
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(4)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(2);
        RedissonClient client = Redisson.create(config);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        new Peer(client, lines).run();
        client.shutdown(0, 1, TimeUnit.SECONDS);
    }

    private static void say(Object text) {
        System.out.println(text);
        System.out.flush();
    }

    private void run() throws Exception {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.trim().split("\\s+");
            try {
                execute(words);
            } catch (Exception error) {
                String text = error.getClass().getSimpleName() + " " + error.getMessage();
                say("error " + text.replace('\n', ' '));
            }
            if (words[0].equals("work")) {
                return;
            }
        }
    }

    private void execute(String[] words) throws Exception {
        switch (words[0]) {
            case "lock" -> {
                RLock lock = client.getLock(words[1]);
                long lease = Long.parseLong(words[2]);
                long wait = Long.parseLong(words[3]);
                if (lock.tryLock(wait, lease == 0 ? -1 : lease, TimeUnit.MILLISECONDS)) {
                    held = lock;
                    say("held");
                } else {
                    say("busy");
                }
            }
            case "unlock" -> {
                held.unlock();
                say("freed");
            }
            case "count" -> say(client.getLock(words[1]).getHoldCount());
            case "locked" -> say(client.getLock(words[1]).isLocked());
            case "force" -> say(client.getLock(words[1]).forceUnlock());
            case "work" -> work(words[1], words[2], Long.parseLong(words[3]));
            default -> say("error unknown command " + words[0]);
        }
    }

    private void work(String name, String witness, long lease) throws Exception {
        AtomicBoolean ended = new AtomicBoolean();
        Thread listener = new Thread(() -> {
            try {
                while (lines.readLine() != null) {
                    continue;
                }
            } catch (Exception error) {
                say("error " + error);
            }
            ended.set(true);
        });
        listener.setDaemon(true);
        listener.start();
        RLock lock = client.getLock(name);
        RAtomicLong holders = client.getAtomicLong(witness);
        RAtomicLong rounds = client.getAtomicLong(witness + ":rounds");
        while (!ended.get()) {
            if (!lock.tryLock(500, lease, TimeUnit.MILLISECONDS)) {
                continue;
            }
            if (holders.incrementAndGet() != 1) {
                say("error two holders");
                return;
            }
            rounds.incrementAndGet();
            holders.decrementAndGet();
            lock.unlock();
        }
        say("done");
    }
}
