package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncSession is redsync as its documentation has it, of one server and with a go-redis client that has nothing set but the URL.
type redsyncSession struct {
	redsync *redsync.Redsync
}

func connectRedsync(url string) (session, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	// It would connect at the first lock only, and then try for ever if there is no server.
	if err := client.Ping(context.Background()).Err(); err != nil {
		return nil, err
	}
	return redsyncSession{redsync.New(goredis.NewPool(client))}, nil
}

// It acquires with SET. A script releases, also after each try that has failed; the GET and DEL in it are not sent. The rest is what go-redis says on a new connection, of which a round may open some, where the server knows it.
func (redsyncSession) verbs() string {
	return "set,evalsha,eval,hello,client|setinfo,client|maint_notifications"
}

func (s redsyncSession) lock(name string) lock {
	return redsyncLock{s.redsync.NewMutex(name,
		redsync.WithExpiry(30*time.Second),
		// It has no way to say that there is no limit.
		redsync.WithTries(math.MaxInt),
		// Its own delay is random, from 50 to 250 ms. The other contenders that ask again do so every 10 ms, so this is as long on average, and random as its own.
		redsync.WithRetryDelayFunc(func(int) time.Duration {
			return 5*time.Millisecond + rand.N(10*time.Millisecond)
		}),
	)}
}

type redsyncLock struct {
	mutex *redsync.Mutex
}

// An error of the server is no end of the tries, which have none: it looks like a name that somebody has.
func (l redsyncLock) acquire(end time.Time) (bool, error) {
	if end.IsZero() {
		return true, l.mutex.Lock()
	}
	wait, stop := context.WithDeadline(context.Background(), end)
	defer stop()
	err := l.mutex.LockContext(wait)
	if err != nil && wait.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

func (l redsyncLock) release() error {
	switch has, err := l.mutex.Unlock(); {
	case err != nil:
		return fmt.Errorf("unlocking %s: %w", l.mutex.Name(), err)
	case !has:
		return errors.New("unlocking " + l.mutex.Name() + ": it had another holder")
	}
	return nil
}
