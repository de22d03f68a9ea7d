package main

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// session is a library that is connected.
type session interface {
	// verbs are the commands that the library itself sends, separated by commas.
	verbs() string
	lock(name string) lock
}

// lock is one task's handle of a name.
type lock interface {
	// acquire tells whether it has the name; it has not if end comes first. A zero end never comes.
	acquire(end time.Time) (bool, error)
	release() error
}

type taskDone struct {
	number    int
	pairs     uint64
	latencies []time.Duration
	holds     []held
	err       error
}

// held is one hold, in ns of CLOCK_MONOTONIC.
type held struct {
	got, left int64
}

// run starts the tasks together and returns when all have ended, or one has failed.
func run(library session, job *job) ([]*taskDone, time.Duration, error) {
	var waiting sync.WaitGroup
	gate := make(chan struct{})
	// Large enough for tasks that end when nobody waits for them any more.
	ended := make(chan *taskDone, job.tasks)
	for number := range job.tasks {
		lock := library.lock(job.name(number))
		waiting.Add(1)
		go func() {
			done := &taskDone{number: number}
			waiting.Done()
			<-gate
			if job.names == "one" {
				done.err = done.together(lock, job)
			} else {
				done.err = done.alone(lock, job)
			}
			ended <- done
		}()
	}
	waiting.Wait()
	began := time.Now()
	close(gate)
	tasks := make([]*taskDone, 0, job.tasks)
	for range job.tasks {
		task := <-ended
		if task.err != nil {
			return nil, 0, task.err
		}
		tasks = append(tasks, task)
	}
	return tasks, time.Since(began), nil
}

// end returns when a task that starts now has to stop: the zero time if that depends on its pairs.
func (j *job) end() time.Time {
	if j.span == 0 {
		return time.Time{}
	}
	return time.Now().Add(j.span)
}

func (t *taskDone) goesOn(job *job, end time.Time) bool {
	if end.IsZero() {
		return t.pairs < job.pairs
	}
	return time.Now().Before(end)
}

func (t *taskDone) alone(lock lock, job *job) error {
	end, before := job.end(), time.Now()
	for t.goesOn(job, end) {
		// Nobody is in the way for long, so the time that is left bounds no single acquisition.
		if _, err := lock.acquire(time.Time{}); err != nil {
			return err
		}
		if err := lock.release(); err != nil {
			return err
		}
		now := time.Now()
		t.latencies = append(t.latencies, now.Sub(before))
		t.pairs++
		before = now
	}
	return nil
}

// together lets a waiter go when the time is up and it still does not have the name.
func (t *taskDone) together(lock lock, job *job) error {
	end := job.end()
	for t.goesOn(job, end) {
		has, err := lock.acquire(end)
		if err != nil {
			return err
		}
		if !has {
			break
		}
		got, err := monotonic()
		if err != nil {
			return err
		}
		rest(job.hold)
		left, err := monotonic()
		if err != nil {
			return err
		}
		if err := lock.release(); err != nil {
			return err
		}
		t.holds = append(t.holds, held{got, left})
		t.pairs++
	}
	return nil
}

// rest waits as a holder does who works. time.Sleep would end up to a ms late, since the runtime waits for its timers in whole ms when it has nothing else to do; a thread's sleep ends within 0.1 ms.
func rest(hold time.Duration) {
	left := unix.NsecToTimespec(hold.Nanoseconds())
	// A signal, which the runtime also sends to itself, ends the call early and says what is left.
	for left.Nano() > 0 && unix.Nanosleep(&left, &left) == unix.EINTR {
	}
}

// monotonic reads the clock that all processes of the machine share; Go's own begins elsewhere in each process.
func monotonic() (int64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano(), err
}
