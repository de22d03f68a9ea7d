package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A memory is the state of a set that workers guard by a lock: the greatest token, and whether two
// servers may have given the lock lately.
type memory struct {
	last uint64
	torn bool
}

// The operations of a set, and the beginning and the end of the effects of a takeover.
type (
	looked struct{ *Write }
	wrote  struct{ *Write }
	tear   struct{}
	heal   struct{}
)

// sets returns the model of a guarded set. It takes no token below the greatest, refuses no holder
// whose guard is valid, and loses nothing. Without tokens it relies on the guard's check.
func sets() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return memory{} },
		Step: func(state, input, _ any) (bool, any) {
			return state.(memory).step(input)
		},
		DescribeOperation: func(input, _ any) string { return describe(input) },
	}
}

func (m memory) step(op any) (bool, memory) {
	switch op := op.(type) {
	case looked:
		return m.use(op.Write, op.Accepted || op.At != op.Read)
	case wrote:
		if op.Lost > 0 && (op.Token > 0 || !m.torn) {
			return false, m
		}
		return m.use(op.Write, op.Accepted)
	case tear:
		m.torn = true
		return true, m
	case heal:
		m.torn = false
		return true, m
	}
	panic(fmt.Sprintf("%T is not an operation of a set", op))
}

func (m memory) use(write *Write, accepted bool) (bool, memory) {
	if accepted != (write.Token >= m.last) || write.Valid && !accepted && !m.torn {
		return false, m
	}
	m.last = max(m.last, write.Token)
	return true, m
}

// operations returns the accesses of a writer. One that is refused when it reads does not write.
func (write *Write) operations() []porcupine.Operation {
	ops := []porcupine.Operation{{Input: looked{write}, Call: write.Read, Return: write.Read}}
	if write.Accepted || write.At != write.Read {
		ops = append(ops, porcupine.Operation{Input: wrote{write}, Call: write.At, Return: write.At})
	}
	return ops
}
