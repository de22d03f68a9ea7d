package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
)

// A Hold is an acquisition that gave a hold. Times are microseconds of one clock.
type Hold struct {
	ID      uint64
	Owner   uint64 // guards of one owner share a hold
	Process uint64
	Kind    string
	Name    string
	Units   uint64 // a lock takes 1 of 1
	Limit   uint64
	Token   uint64 // 0 for none
	Asked   int64  // the call was invoked
	From    int64  // it returned
	Until   int64  // the guard passed its check for the last time
	// The end that the guard knew at that time; 0 if unknown.
	Deadline int64
	Lost     int64 // the guard failed its check for the first time; 0 if it never did
	Gone     int64 // the release was answered; 0 if its outcome is unknown
	Durable  bool  // all replicas had to confirm
}

// An Attempt is an acquisition that gave no hold. It fails if it was refused, and otherwise its
// outcome is unknown.
type Attempt struct {
	Process uint64
	Kind    string
	Names   []string
	From    int64
	Until   int64
	Outcome Outcome
}

// A Fault happened to the servers of some names.
type Fault struct {
	Kind     string
	From     int64
	Until    int64
	Names    []string
	Takeover *Takeover // without consent of the old server
}

// A Takeover is a time in which two servers may have answered.
type Takeover struct {
	Began int64 // only the old server answered until then
	Died  int64 // the old server was dead between these two, if they differ
	Back  int64
	Ended int64 // only the new server answers from then on
}

// A Write of a set in memory, guarded by a lock.
type Write struct {
	Name     string
	Token    uint64 // 0 if the set compares none
	Asked    int64
	Read     int64
	At       int64
	Accepted bool
	Valid    bool // the guard passed its check right before
	Lost     uint64
}

// A Fenced write went through a fence on the server.
type Fenced struct {
	Process uint64
	Name    string
	Token   uint64
	From    int64
	Until   int64
	Outcome Outcome
}

// A Round is one life of a latch: set, counted down, waited for.
type Round struct {
	Name  string
	From  int64
	Set   int64 // the call that set it was answered
	Until int64
	Count int
	Downs []Step
	Waits []Step // a wait fails if it ended before the latch was open
}

// A Step is one call of a round.
type Step struct {
	From    int64
	Until   int64
	Outcome Outcome
}

// A Pass of a rate limiter that lets Count tokens through in Per microseconds, after a burst.
type Pass struct {
	Process uint64
	Name    string
	Count   uint64
	Per     uint64
	Burst   uint64
	Cost    uint64 // the tokens that it took and did not give back
	Back    uint64 // those that it gave back
	At      int64  // it counts then, by the server's clock
	From    int64
	Until   int64 // both calls were answered, if there were two
}

// An Outcome of a call. Late is an unknown outcome, after the longest wait of a worker.
type Outcome string

const (
	ok      Outcome = "ok"
	fail    Outcome = "fail"
	unknown Outcome = "info"
	late    Outcome = "late"
)

// A History is all records of a run.
type History struct {
	Holds    []Hold
	Attempts []Attempt
	Faults   []Fault
	Writes   []Write
	Fences   []Fenced
	Rounds   []Round
	Passes   []Pass
}

// read returns the records of a file, one per line.
func read(from io.Reader) (*History, error) {
	history := &History{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<24)
	for number := 1; lines.Scan(); number++ {
		if err := history.add(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return history, lines.Err()
}

func (history *History) add(line []byte) error {
	var tag struct{ Record string }
	if err := json.Unmarshal(line, &tag); err != nil {
		return err
	}
	switch tag.Record {
	case "hold":
		return parse(line, &history.Holds)
	case "attempt":
		return parse(line, &history.Attempts)
	case "fault":
		return parse(line, &history.Faults)
	case "write":
		return parse(line, &history.Writes)
	case "fenced":
		return parse(line, &history.Fences)
	case "round":
		return parse(line, &history.Rounds)
	case "pass":
		return parse(line, &history.Passes)
	}
	return fmt.Errorf("unknown record %q", tag.Record)
}

// parse adds the record of a line. A field that these types lack is an error, since a judge must
// not overlook what it does not know. So is a missing one, which would count as 0.
func parse[T record](line []byte, all *[]T) error {
	var one T
	body := untagged(line)
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&one); err != nil {
		return err
	}
	var fields any
	if err := json.Unmarshal(body, &fields); err != nil {
		return err
	}
	if err := complete(reflect.TypeOf(one), fields); err != nil {
		return err
	}
	if !one.plausible() {
		return fmt.Errorf("times out of order, or a number out of bounds: %s", line)
	}
	*all = append(*all, one)
	return nil
}

// complete checks that each field of a type is there, once.
func complete(of reflect.Type, value any) error {
	switch of.Kind() {
	case reflect.Pointer:
		if value != nil {
			return complete(of.Elem(), value)
		}
	case reflect.Slice:
		list, _ := value.([]any)
		for _, one := range list {
			if err := complete(of.Elem(), one); err != nil {
				return err
			}
		}
	case reflect.Struct:
		fields, _ := value.(map[string]any)
		for i := range of.NumField() {
			field := of.Field(i)
			name := strings.ToLower(field.Name)
			one, found := fields[name]
			if !found || one == nil && field.Type.Kind() != reflect.Pointer {
				return fmt.Errorf("no field %q", name)
			}
			if err := complete(field.Type, one); err != nil {
				return err
			}
		}
		if len(fields) != of.NumField() {
			return fmt.Errorf("a field stands there twice")
		}
	}
	return nil
}

type record interface{ plausible() bool }

func (hold Hold) plausible() bool {
	return hold.Asked <= hold.From && hold.From <= hold.Until && hold.Units <= hold.Limit
}

func (one Attempt) plausible() bool { return one.From <= one.Until }

func (fault Fault) plausible() bool { return fault.From <= fault.Until }

func (write Write) plausible() bool { return write.Asked <= write.Read && write.Read <= write.At }

func (write Fenced) plausible() bool { return write.From <= write.Until }

func (round Round) plausible() bool { return round.From <= round.Set && round.Set <= round.Until }

// plausible tells also whether all that is owed can be counted in 64 bits.
func (pass Pass) plausible() bool {
	burst, per := pass.Burst, pass.Per
	return pass.From <= pass.Until && pass.At > 0 && 0 < pass.Count && pass.Count <= math.MaxInt32 &&
		0 < burst && burst <= math.MaxInt32 && 0 < per && per <= math.MaxInt32*1024 &&
		burst*per < math.MaxInt64/1024 && pass.Cost <= burst && pass.Back <= burst-pass.Cost
}

// UnmarshalJSON refuses other words.
func (outcome *Outcome) UnmarshalJSON(text []byte) error {
	*outcome = Outcome(strings.Trim(string(text), `"`))
	if !slices.Contains([]Outcome{ok, fail, unknown, late}, *outcome) {
		return fmt.Errorf("unknown outcome %s", text)
	}
	return nil
}

// untagged removes the tag, which is the first field.
func untagged(line []byte) []byte {
	_, rest, found := bytes.Cut(line, []byte(","))
	if !found {
		return line
	}
	return append([]byte("{"), rest...)
}
