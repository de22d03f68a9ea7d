package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// A verdict on a history.
type verdict struct {
	operations, names int
	refused           []string // in words
	expected          []string // what two servers explain, and one does not
	undecided         []string
}

// size is the least number of holds in a stretch, and patience the time for its search.
const (
	size     = 500
	patience = 2 * time.Minute
)

// judge searches for an order of the operations of each name that its model allows. A picture of
// each refused stretch goes into the folder, if there is one.
func judge(history *History, folder string) verdict {
	var sum verdict
	sum.refused = append(history.late(), history.crowded()...)
	parts := history.stretches(size)
	known := map[string]bool{}
	for _, part := range parts {
		known[part.name] = true
		sum.operations += len(part.ops)
	}
	for _, pass := range history.Passes {
		known[pass.Name] = true
	}
	sum.operations += len(history.Passes)
	sum.names = len(known)
	var lock sync.Mutex
	var all sync.WaitGroup
	next := make(chan stretch)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for part := range next {
				one := part.judge(folder)
				lock.Lock()
				sum.refused = append(sum.refused, one.refused...)
				sum.undecided = append(sum.undecided, one.undecided...)
				sum.expected = append(sum.expected, one.expected...)
				lock.Unlock()
			}
		})
	}
	for _, part := range parts {
		next <- part
	}
	close(next)
	all.Wait()
	sort.Strings(sum.refused)
	sort.Strings(sum.expected)
	return sum
}

// late returns the holds on which somebody relied after their deadline (P4).
func (history *History) late() (refused []string) {
	for i := range history.Holds {
		hold := &history.Holds[i]
		if hold.Deadline > 0 && hold.Until > hold.Deadline {
			refused = append(refused, fmt.Sprintf("%s: %s was relied on after its deadline %d",
				hold.Name, describe(grant{hold}), hold.Deadline))
		}
	}
	return refused
}

func (part stretch) judge(folder string) (sum verdict) {
	ops := part.ops
	result := porcupine.CheckOperationsTimeout(part.strict, ops, patience)
	if result == porcupine.Illegal && (part.lenient || len(part.takeovers) > 0) {
		with := slices.Concat(ops, part.takeovers)
		if !part.lenient {
			result = porcupine.CheckOperationsTimeout(part.strict, with, patience)
		}
		if part.lenient || result == porcupine.Ok {
			sum.expected = append(sum.expected, part.name+": "+part.blame(ops))
			return sum
		}
		ops = with
	}
	switch result {
	case porcupine.Illegal:
		sum.refused = append(sum.refused, part.name+": "+part.blame(ops))
		part.draw(ops, folder)
	case porcupine.Unknown:
		sum.undecided = append(sum.undecided, part.name)
	}
	return sum
}

// blame names the first operation that has no place, and what was held beside it.
func (part stretch) blame(ops []porcupine.Operation) string {
	returns := make([]int64, len(ops))
	for i, op := range ops {
		returns[i] = op.Return
	}
	slices.Sort(returns)
	returns = slices.Compact(returns)
	at := sort.Search(len(returns), func(at int) bool {
		early := upTo(ops, returns[at])
		return porcupine.CheckOperationsTimeout(part.strict, early, patience) == porcupine.Illegal
	})
	if at == len(returns) {
		return "no order explains it"
	}
	var ended, beside []string
	for _, op := range ops {
		switch {
		case op.Return == returns[at]:
			ended = append(ended, describe(op.Input))
		case overlaps(op, returns[at]):
			beside = append(beside, describe(op.Input))
		}
	}
	return fmt.Sprintf("no place for %s, beside %s",
		strings.Join(ended, ", "), strings.Join(beside, ", "))
}

// upTo returns the operations that ended by then, and the takeovers.
func upTo(ops []porcupine.Operation, then int64) (early []porcupine.Operation) {
	for _, op := range ops {
		switch op.Input.(type) {
		case mark, fork, die, back, retire, tear, heal:
			early = append(early, op)
		default:
			if op.Return <= then {
				early = append(early, op)
			}
		}
	}
	return early
}

func overlaps(op porcupine.Operation, then int64) bool {
	if one, is := op.Input.(grant); is {
		return one.From < then && then <= one.Until
	}
	return op.Call < then && then <= op.Return
}

func (part stretch) draw(ops []porcupine.Operation, folder string) {
	if folder == "" {
		return
	}
	_, info := porcupine.CheckOperationsVerbose(part.strict, ops, patience)
	file := strings.Map(func(char rune) rune {
		if strings.ContainsRune("/ ()", char) {
			return '_'
		}
		return char
	}, fmt.Sprintf("%s-%d", part.name, ops[0].Call))
	path := filepath.Join(folder, file+".html")
	if err := porcupine.VisualizePath(part.strict, info, path); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// describe returns an operation in words.
func describe(op any) string {
	switch op := op.(type) {
	case grant:
		return fmt.Sprintf("%s %d (owner %d, %d of %d, token %d, asked %d, held %d to %d)", op.Kind,
			op.ID, op.Owner, op.Units, op.Limit, op.Token, op.Asked, op.From, op.Until)
	case end:
		return fmt.Sprintf("end of %d", op.ID)
	case fence:
		return fmt.Sprintf("fenced write with token %d: %s (%d to %d)",
			op.Token, op.Outcome, op.From, op.Until)
	case looked:
		return fmt.Sprintf("read with token %d at %d", op.Token, op.Read)
	case wrote:
		return fmt.Sprintf("write with token %d at %d (accepted: %t, valid: %t, lost: %d)",
			op.Token, op.At, op.Accepted, op.Valid, op.Lost)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T%+v", op, op), "main.")
}
