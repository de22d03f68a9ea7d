package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A memory is the state of a set that workers guard by a lock: the greatest token, and the number
// of takeovers in which two servers may have given the lock lately.
type memory struct {
	last uint64
	torn int
}

// The operations of a set, and the beginning and the end of the effects of a takeover.
type (
	looked struct{ *Write }
	wrote  struct{ *Write }
	tear   struct{}
	heal   struct{}
)

// sets returns the model of a guarded set that has seen this token. It takes no token below the greatest, refuses no holder
// whose guard is valid, and loses nothing. Without tokens it relies on the guard's check.
func sets(last uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return memory{last: last} },
		Step: func(state, input, _ any) (bool, any) {
			return state.(memory).step(input)
		},
		DescribeOperation: func(input, _ any) string { return describe(input) },
	}
}

func (m memory) step(op any) (bool, memory) {
	switch op := op.(type) {
	case looked:
		return m.use(op.Write, op.accepted())
	case wrote:
		if op.Lost > 0 && (op.Token > 0 || m.torn == 0) {
			return false, m
		}
		return m.use(op.Write, op.Accepted)
	case tear:
		m.torn++
		return true, m
	case heal:
		m.torn--
		return true, m
	}
	panic(fmt.Sprintf("%T is not an operation of a set", op))
}

// accepted tells whether the writer might read.
func (one looked) accepted() bool { return one.Accepted || one.At != one.Read }

func (m memory) use(write *Write, accepted bool) (bool, memory) {
	if accepted != (write.Token >= m.last) || write.Valid && !accepted && m.torn == 0 {
		return false, m
	}
	m.last = max(m.last, write.Token)
	return true, m
}

// operations returns the accesses of a writer. One that is refused when it reads does not write.
func (write *Write) operations() []porcupine.Operation {
	ops := []porcupine.Operation{{Input: looked{write}, Call: write.Read, Return: write.Read}}
	if (looked{write}).accepted() {
		ops = append(ops, porcupine.Operation{Input: wrote{write}, Call: write.At, Return: write.At})
	}
	return ops
}
