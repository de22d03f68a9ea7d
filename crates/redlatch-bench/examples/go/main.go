// A contender of `cargo xtask bench` in Go: the locks of redsync (over go-redis) and of rueidislock (over rueidis), and the rate limiter redis_rate (over go-redis).
//
//	(cd crates/redlatch-bench/examples/go && go build -o ../../../../target/go-contender .)
//	cargo xtask bench W1 W2 W3 W4 --with=redsync="target/go-contender redsync" --with=rueidislock="target/go-contender rueidislock"
//	cargo xtask bench W14 --with=redis_rate="target/go-contender redis_rate"
//
// It is started as `go-contender <library> <url>` and speaks the lines of src/contender/external.rs. Here are the lines; round.go is a round, and redsync.go, rueidislock.go and redisrate.go are what the libraries are asked.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	if err := answer(out); err != nil {
		// Whoever reads takes a line for the whole of it.
		fmt.Fprintf(out, "failed %s\n", strings.Join(strings.Fields(err.Error()), " "))
		out.Flush()
		// Tasks of the round may still be running, so no other round can be had.
		os.Exit(1)
	}
}

// answer returns when standard input ends, or at the first thing that fails.
func answer(out *bufio.Writer) error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: %s <library> <url>", os.Args[0])
	}
	library, err := connect(os.Args[1], os.Args[2])
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ready %s\n", library.verbs())
	if err := out.Flush(); err != nil {
		return err
	}
	requests := bufio.NewScanner(os.Stdin)
	for requests.Scan() {
		job, err := readJob(requests.Text())
		if err != nil {
			return err
		}
		tasks, wall, err := run(library, job)
		if err != nil {
			return err
		}
		for _, task := range tasks {
			task.write(out)
		}
		fmt.Fprintf(out, "done %d\n", wall.Nanoseconds())
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return requests.Err()
}

func connect(library, url string) (session, error) {
	// rueidis takes what is behind a slash for the number of a database, even if nothing is.
	url = strings.TrimSuffix(url, "/")
	switch library {
	case "redsync":
		return connectRedsync(url)
	case "rueidislock":
		return connectRueidislock(url)
	case "redis_rate":
		return connectRate(url)
	}
	return nil, fmt.Errorf("unknown library %q", library)
}

// job is what is asked for in one round.
type job struct {
	names string
	key   string
	tasks int
	// How long each task goes on; if it is 0, each locks so many pairs.
	span  time.Duration
	pairs uint64
	hold  time.Duration
}

func (j *job) name(task int) string {
	if j.names == "own" {
		return j.key + ":" + strconv.Itoa(task)
	}
	return j.key
}

// readJob reads `run <names> <key> <tasks> <ms> <pairs> <hold>`.
func readJob(line string) (*job, error) {
	words := strings.Split(line, " ")
	if len(words) != 7 || words[0] != "run" {
		return nil, fmt.Errorf("unknown request %q", line)
	}
	var numbers [4]uint64
	for i, word := range words[3:] {
		number, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("in the request %q: %w", line, err)
		}
		numbers[i] = number
	}
	switch words[1] {
	case "own", "one":
	default:
		return nil, fmt.Errorf("unknown names in the request %q", line)
	}
	return &job{
		names: words[1],
		key:   words[2],
		tasks: int(numbers[0]),
		span:  time.Duration(numbers[1]) * time.Millisecond,
		pairs: numbers[2],
		hold:  time.Duration(numbers[3]) * time.Microsecond,
	}, nil
}

// write writes the lines of a task; its `task` line is the last.
func (t *taskDone) write(out *bufio.Writer) {
	// There may be a million numbers: each is put into the same memory.
	var text []byte
	for i, latency := range t.latencies {
		text = text[:0]
		if i%100 == 0 {
			if i > 0 {
				text = append(text, '\n')
			}
			text = append(text, "latency"...)
		}
		text = append(text, ' ')
		text = strconv.AppendInt(text, int64(latency), 10)
		out.Write(text)
	}
	if len(t.latencies) > 0 {
		out.WriteByte('\n')
	}
	for _, hold := range t.holds {
		fmt.Fprintf(out, "hold %d %d %d\n", t.number, hold.got, hold.left)
	}
	fmt.Fprintf(out, "task %d\n", t.pairs)
}
