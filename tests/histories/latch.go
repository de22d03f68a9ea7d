package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// A count is the state of a latch: the number that is left, and the ends of the times in which
// count-downs of unknown outcome may act.
type count struct {
	left    int
	pending []uint64
}

// The operations of a latch: it is set, counted down, passed, or found shut.
type (
	set  struct{ count int }
	down struct{}
	pass struct{}
	shut struct{}
)

// latches returns the model of a latch.
func latches() porcupine.Model {
	model := porcupine.NondeterministicModel{
		// Nothing passes a latch that is not set.
		Init:              func() []any { return []any{count{left: math.MaxInt}} },
		Equal:             equalCounts,
		Step:              func(state, input, _ any) []any { return state.(count).step(input) },
		DescribeOperation: func(input, _ any) string { return describe(input) },
	}
	return model.ToModel()
}

func equalCounts(a, b any) bool {
	return a.(count).left == b.(count).left && slices.Equal(a.(count).pending, b.(count).pending)
}

// step returns the states after an operation. What may act has acted only if a waiter that passes
// shows it, and then that whose time ends first.
func (c count) step(op any) []any {
	switch op := op.(type) {
	case set:
		return []any{count{op.count, c.pending}}
	case down:
		return []any{count{max(c.left-1, 0), c.pending}}
	case pass:
		if c.left > len(c.pending) {
			return nil
		}
		return []any{count{0, c.pending[c.left:]}}
	case shut:
		if c.left == 0 {
			return nil
		}
		return []any{c}
	case maybe:
		pending := append(slices.Clone(c.pending), op.token)
		slices.Sort(pending)
		return []any{count{c.left, pending}}
	case over:
		at := slices.Index(c.pending, op.token)
		if at < 0 {
			return []any{c}
		}
		pending := slices.Delete(slices.Clone(c.pending), at, at+1)
		return []any{count{c.left, pending}, count{max(c.left-1, 0), pending}}
	}
	panic(fmt.Sprintf("%T is not an operation of a latch", op))
}

// operations returns the calls of a round. A wait that ends without success has found the latch shut
// at the end, since a waiter looks again every few seconds.
func (round *Round) operations() []porcupine.Operation {
	ops := []porcupine.Operation{
		{Input: set{round.Count}, Call: round.From, Return: round.Set},
	}
	for _, step := range round.Downs {
		if step.Outcome == ok {
			ops = append(ops, porcupine.Operation{
				Input: down{}, Call: step.From, Return: step.Until,
			})
			continue
		}
		ends := step.Until + acts
		ops = append(ops,
			porcupine.Operation{Input: maybe{uint64(ends)}, Call: step.From, Return: step.From},
			porcupine.Operation{Input: over{uint64(ends)}, Call: ends, Return: ends})
	}
	for _, step := range round.Waits {
		op := porcupine.Operation{Input: pass{}, Call: step.From, Return: step.Until}
		switch step.Outcome {
		case fail:
			op.Input, op.Call = shut{}, max(step.From, step.Until-looks)
		case ok:
		default:
			continue
		}
		ops = append(ops, op)
	}
	return ops
}
