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

type done struct {
	Wall  time.Duration `json:"wall"`
	Tasks []*taskDone   `json:"tasks"`
}

type taskDone struct {
	Pairs     uint64          `json:"pairs"`
	Latencies []time.Duration `json:"latencies,omitempty"`
	// Each hold is two times of CLOCK_MONOTONIC: when the lock was got, and when it was left.
	Holds [][2]int64 `json:"holds,omitempty"`
	err   error
}

// run starts the tasks together and returns when all have ended, or one has failed.
func run(library session, job *job) (*done, error) {
	var waiting sync.WaitGroup
	gate := make(chan struct{})
	// Large enough for tasks that end when nobody waits for them any more.
	ended := make(chan *taskDone, job.Tasks)
	for number := range job.Tasks {
		lock := library.lock(job.name(number))
		waiting.Add(1)
		go func() {
			task := &taskDone{}
			waiting.Done()
			<-gate
			if job.Names == "one" {
				task.err = task.together(lock, job)
			} else {
				task.err = task.alone(lock, job)
			}
			ended <- task
		}()
	}
	waiting.Wait()
	began := time.Now()
	close(gate)
	all := &done{}
	for range job.Tasks {
		task := <-ended
		if task.err != nil {
			return nil, task.err
		}
		all.Tasks = append(all.Tasks, task)
	}
	all.Wall = time.Since(began)
	return all, nil
}

// end returns when a task that starts now has to stop: the zero time if that depends on its pairs.
func (j *job) end() time.Time {
	if j.Time == 0 {
		return time.Time{}
	}
	return time.Now().Add(j.Time)
}

func (t *taskDone) goesOn(job *job, end time.Time) bool {
	if end.IsZero() {
		return t.Pairs < job.Pairs
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
		t.Latencies = append(t.Latencies, now.Sub(before))
		t.Pairs++
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
		got := monotonic()
		rest(job.Hold)
		left := monotonic()
		if err := lock.release(); err != nil {
			return err
		}
		t.Holds = append(t.Holds, [2]int64{got, left})
		t.Pairs++
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
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}
