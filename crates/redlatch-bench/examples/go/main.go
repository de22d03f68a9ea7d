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
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(out)
	for {
		if err := out.Flush(); err != nil {
			return err
		}
		var request struct{ Run *job }
		switch err := requests.Decode(&request); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case request.Run == nil || request.Run.Names != "own" && request.Run.Names != "one":
			return errors.New("unknown request")
		}
		done, err := run(library, request.Run)
		if err != nil {
			return err
		}
		if err := answers.Encode(done); err != nil {
			return err
		}
	}
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

// job is what is asked for in one round. Durations are numbers of ns.
type job struct {
	Names string
	Key   string
	Tasks int
	// How long each task goes on; if it is 0, each locks so many pairs.
	Time  time.Duration
	Pairs uint64
	Hold  time.Duration
}

func (j *job) name(task int) string {
	if j.Names == "own" {
		return j.Key + ":" + strconv.Itoa(task)
	}
	return j.Key
}
