package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// The operations of a latch: it is set, counted down, passed, or found shut.
type (
	set  struct{ count int }
	down struct{ Outcome }
	pass struct{}
	shut struct{}
)

// latches returns the model of a latch, whose state is the number that is left.
func latches() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{0} },
		Step: func(state, input, _ any) []any {
			return latchStep(state.(int), input)
		},
		DescribeOperation: func(input, _ any) string { return describe(input) },
	}
	return model.ToModel()
}

func latchStep(left int, op any) []any {
	switch op := op.(type) {
	case set:
		return []any{op.count}
	case down:
		after := []any{max(left-1, 0)}
		if op.Outcome != ok {
			after = append(after, left)
		}
		return after
	case pass:
		if left > 0 {
			return nil
		}
		return []any{left}
	case shut:
		if left == 0 {
			return nil
		}
		return []any{left}
	}
	panic(fmt.Sprintf("%T is not an operation of a latch", op))
}

// operations returns the calls of a round. A count-down whose outcome is unknown acts within 5 s of
// its call or never. A wait that ends without success has found the latch shut at the end, since
// a waiter looks again every few seconds.
func (round *Round) operations() []porcupine.Operation {
	ops := []porcupine.Operation{
		{Input: set{round.Count}, Call: round.From, Return: round.Set},
	}
	for _, step := range round.Downs {
		until := step.Until
		if step.Outcome != ok {
			until = max(until, step.From+acts)
		}
		ops = append(ops, porcupine.Operation{
			Input: down{step.Outcome}, Call: step.From, Return: until,
		})
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
