package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislockSession is rueidislock as its documentation has it for one server. Its client side caching is on: a waiter asks again when the server says that the key has changed.
type rueidislockSession struct {
	locker rueidislock.Locker
}

func connectRueidislock(url string) (session, error) {
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: options,
		KeyMajority:  1,
		KeyValidity:  30 * time.Second,
		// Its documentation advises this for servers from 7.0.5 on.
		NoLoopTracking: true,
		// The time for an answer before it asks for the next of several keys, 20 ms if not set. Of one key there is no next; an answer that comes later, as it may with many tasks on few cores, is taken for a key that somebody has, and with NoLoopTracking nothing wakes the task again that released it itself: it then waits for ever.
		TryNextAfter: 30 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return rueidislockSession{locker}, nil
}

// All that it does with a lock is in scripts; the SET, GET, DEL and PEXPIREAT in them are not sent. The rest is what rueidis says on a new connection, where the server knows it, and each second.
func (rueidislockSession) verbs() string {
	return "evalsha,eval,ping,hello,client|tracking,client|setinfo,cluster|slots"
}

func (s rueidislockSession) lock(name string) lock {
	return &rueidislockLock{locker: s.locker, name: name}
}

type rueidislockLock struct {
	locker rueidislock.Locker
	name   string
	// Of the present hold: the context ends if the lock is lost.
	held   context.Context
	cancel context.CancelFunc
}

func (l *rueidislockLock) acquire(end time.Time) (bool, error) {
	wait := context.Background()
	inTime := func() bool { return true }
	if !end.IsZero() {
		// A deadline of the context would be the lock's own too: it would be lost when the waiting has to end. A context that is cancelled then would end the lock as well, so the timer is stopped as soon as the lock is there.
		var stop context.CancelFunc
		wait, stop = context.WithCancel(wait)
		inTime = time.AfterFunc(time.Until(end), stop).Stop
	}
	held, cancel, err := l.locker.WithContext(wait, l.name)
	if !inTime() {
		if err == nil {
			cancel()
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("locking %s: %w", l.name, err)
	}
	l.held, l.cancel = held, cancel
	return true, nil
}

// The library says nothing of a release that fails; it does say that the lock was lost before.
func (l *rueidislockLock) release() error {
	lost := l.held.Err()
	l.cancel()
	if lost != nil {
		return fmt.Errorf("the lock of %s was lost: %w", l.name, lost)
	}
	return nil
}
