// Takes locks of redsync or of bsm/redislock by commands on the standard input; see the README
// beside it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// A hold of either library.
type hold interface {
	extend(ctx context.Context, lease time.Duration) error
	release(ctx context.Context) error
}

// Takes a name within a wait. Returns nil if somebody else has it.
type taker func(ctx context.Context, name string, lease, wait, delay time.Duration) (hold, error)

type syncHold struct {
	pool *redsync.Redsync
	mu   *redsync.Mutex
}

func (h syncHold) extend(ctx context.Context, _ time.Duration) error {
	// redsync extends by the expiry of the mutex.
	if ok, err := h.mu.ExtendContext(ctx); !ok {
		return errors.Join(errors.New("not extended"), err)
	}
	return nil
}

func (h syncHold) release(ctx context.Context) error {
	if ok, err := h.mu.UnlockContext(ctx); !ok {
		return errors.Join(errors.New("not released"), err)
	}
	return nil
}

func ofRedsync(client *redis.Client) taker {
	pool := redsync.New(goredis.NewPool(client))
	return func(ctx context.Context, name string, lease, wait, delay time.Duration) (hold, error) {
		options := []redsync.Option{redsync.WithExpiry(lease), redsync.WithTries(1 << 20)}
		if delay > 0 {
			options = append(options, redsync.WithRetryDelay(delay))
		}
		mu := pool.NewMutex(name, options...)
		if wait == 0 {
			err := mu.TryLockContext(ctx)
			return syncHold{pool, mu}, taken(err)
		}
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		return syncHold{pool, mu}, taken(mu.LockContext(ctx))
	}
}

var errBusy = errors.New("busy")

func taken(err error) error {
	var byOther *redsync.ErrTaken
	if errors.As(err, &byOther) || errors.Is(err, redsync.ErrFailed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redislock.ErrNotObtained) {
		return errBusy
	}
	return err
}

type lockHold struct{ lock *redislock.Lock }

func (h lockHold) extend(ctx context.Context, lease time.Duration) error {
	return h.lock.Refresh(ctx, lease, nil)
}

func (h lockHold) release(ctx context.Context) error { return h.lock.Release(ctx) }

func ofRedislock(client *redis.Client) taker {
	locks := redislock.New(client)
	return func(ctx context.Context, name string, lease, wait, delay time.Duration) (hold, error) {
		options := &redislock.Options{}
		if wait > 0 {
			if delay == 0 {
				delay = 100 * time.Millisecond
			}
			tries := int(wait / delay)
			options.RetryStrategy = redislock.LimitRetry(redislock.LinearBackoff(delay), tries)
		}
		lock, err := locks.Obtain(ctx, name, lease, options)
		return lockHold{lock}, taken(err)
	}
}

func ms(text string) time.Duration {
	number, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return time.Duration(number) * time.Millisecond
}

func work(ctx context.Context, client *redis.Client, take taker, args []string) error {
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	for !ended.Load() {
		held, err := take(ctx, args[0], ms(args[2]), 500*time.Millisecond, 2*time.Millisecond)
		if errors.Is(err, errBusy) {
			continue
		} else if err != nil {
			return err
		}
		if holders, err := client.Incr(ctx, args[1]).Result(); err != nil || holders != 1 {
			return errors.Join(errors.New("two holders"), err)
		}
		if err := client.Incr(ctx, args[1]+":rounds").Err(); err != nil {
			return err
		}
		if err := client.Decr(ctx, args[1]).Err(); err != nil {
			return err
		}
		if err := held.release(ctx); err != nil {
			return err
		}
	}
	fmt.Println("done")
	return nil
}

func run(ctx context.Context, client *redis.Client, take taker, held *hold, line string) error {
	words := strings.Fields(line)
	switch command, args := words[0], words[1:]; command {
	case "lock":
		taken, err := take(ctx, args[0], ms(args[1]), ms(args[2]), 0)
		if errors.Is(err, errBusy) {
			fmt.Println("busy")
			return nil
		} else if err != nil {
			return err
		}
		*held = taken
		fmt.Println("held")
	case "extend":
		if err := (*held).extend(ctx, ms(args[0])); err != nil {
			return err
		}
		fmt.Println("extended")
	case "unlock":
		if err := (*held).release(ctx); err != nil {
			return err
		}
		fmt.Println("freed")
	case "work":
		return work(ctx, client, take, args)
	default:
		return fmt.Errorf("unknown command %s", command)
	}
	return nil
}

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: os.Args[1] + ":" + os.Args[2]})
	take := ofRedsync(client)
	if os.Args[3] == "redislock" {
		take = ofRedislock(client)
	}
	var held hold
	// The reader reads byte by byte, so that `work` finds the end of the input.
	lines := bufio.NewReaderSize(os.Stdin, 16)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if err := run(ctx, client, take, &held, line); err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		}
		if strings.HasPrefix(line, "work") {
			return
		}
	}
}
