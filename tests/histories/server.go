package main

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// The model of a name: the servers that answer for it, each with what it has granted. There is one,
// except during a takeover. Each server keeps the promises by itself.
//
// The operations are the grants (from the call to its return), the ends of holds (when the holder
// last relied on them), the writes through a fence, and the events of a takeover.
type world []server

// A server is what one server knows of a name.
type server struct {
	takeover int // the one that brought it
	holds    []*Hold
	// The greatest token, and its owner.
	last, owner uint64
	// The greatest token that a replica certainly knows: it is old, or all replicas confirmed it.
	safe, sure uint64
	// The tokens of writes that may still act, in order.
	pending []uint64
	dead    bool
}

type (
	grant struct{ *Hold }
	end   struct{ *Hold }
	fence struct{ *Fenced }
	// The time in which a call of unknown outcome may act: a write with this token, or a count-down
	// until then.
	maybe struct{ token uint64 }
	over  struct{ token uint64 }
	// The events of a takeover: replicas know what came before, a replica is a master, the old
	// server died, came back, and answers no longer.
	mark   struct{}
	fork   struct{ takeover int }
	die    struct{ takeover int }
	back   struct{ takeover int }
	retire struct{ takeover int }
)

// step returns the states after an operation; none if it cannot happen in this state.
func (w world) step(op any) []any {
	switch op := op.(type) {
	case grant:
		return w.on(func(s server) (server, bool) { return s.grant(op.Hold) })
	case end:
		return w.end(op.Hold)
	case fence:
		return w.on(func(s server) (server, bool) { return s.write(op.Token, op.Outcome) })
	case maybe:
		next := slices.Clone(w)
		for i, s := range w {
			next[i].pending = append(slices.Clone(s.pending), op.token)
			slices.Sort(next[i].pending)
		}
		return []any{next}
	case over:
		return w.over(op.token)
	case mark:
		next := slices.Clone(w)
		for i := range next {
			next[i].safe = next[i].last
		}
		return []any{next}
	case fork:
		return []any{append(slices.Clone(w), w[len(w)-1].successor(op.takeover))}
	case die, back:
		return w.killed(op)
	case retire:
		at := w.of(op.takeover)
		if at == len(w) {
			return nil
		}
		return []any{slices.Clone(w[at:])}
	}
	panic(fmt.Sprintf("%T is not an operation", op))
}

// on lets each server act that can, one at a time.
func (w world) on(act func(server) (server, bool)) (after []any) {
	for i, s := range w {
		if acted, can := act(s); can && !s.dead {
			next := slices.Clone(w)
			next[i] = acted
			after = append(after, next)
		}
	}
	return after
}

// end removes a hold. The new server may not know of it.
func (w world) end(hold *Hold) []any {
	next := slices.Clone(w)
	for i := range next {
		if at := slices.Index(next[i].holds, hold); at >= 0 {
			next[i].holds = slices.Delete(slices.Clone(next[i].holds), at, at+1)
		}
	}
	return []any{next}
}

// over ends the time of a write that may have acted or not.
func (w world) over(token uint64) []any {
	next := slices.Clone(w)
	for i, s := range w {
		if at := slices.Index(s.pending, token); at >= 0 {
			next[i].pending = slices.Delete(slices.Clone(s.pending), at, at+1)
		}
	}
	acted := next.on(func(s server) (server, bool) { return s.write(token, ok) })
	return append(acted, next)
}

func (w world) killed(op any) []any {
	next := slices.Clone(w)
	switch op := op.(type) {
	case die:
		next[next.of(op.takeover)-1].dead = true
	case back:
		if at := next.of(op.takeover); at > 0 {
			next[at-1].dead = false
		}
	}
	return []any{next}
}

// of returns the place of the server that a takeover brought or will bring.
func (w world) of(takeover int) int {
	at := slices.IndexFunc(w, func(s server) bool { return s.takeover == takeover })
	if at < 0 {
		return len(w)
	}
	return at
}

// grant gives a hold, if the server may.
func (s server) grant(hold *Hold) (server, bool) {
	if hold.Token > 0 {
		again := hold.Token == s.last && (hold.Owner == s.owner || hold.reads())
		if hold.Token <= s.last && !again {
			return s, false
		}
		if hold.Token > s.last {
			s.last, s.owner = hold.Token, hold.Owner
		}
		if hold.Durable {
			s.sure = max(s.sure, hold.Token)
		}
	}
	if hold.instant() {
		return s, true
	}
	if !hold.fits(s.holds) {
		return s, false
	}
	s.holds = append(slices.Clone(s.holds), hold)
	slices.SortFunc(s.holds, func(a, b *Hold) int { return int(a.From - b.From) })
	return s, true
}

// write compares the token with the greatest that has written. What may act has acted only if a
// refusal shows it, and then the least that explains it.
func (s server) write(token uint64, outcome Outcome) (server, bool) {
	if outcome == fail && token >= s.last {
		at := slices.IndexFunc(s.pending, func(other uint64) bool { return other > token })
		if at < 0 {
			return s, false
		}
		s.last = s.pending[at]
		s.pending = slices.Delete(slices.Clone(s.pending), at, at+1)
		return s, true
	}
	if refused := token < s.last; refused != (outcome == fail) {
		return s, false
	}
	s.last = max(s.last, token)
	return s, true
}

// successor returns a new master. It may have missed what not all replicas confirmed.
func (s server) successor(takeover int) server {
	unconfirmed := func(hold *Hold) bool { return !hold.Durable }
	last := max(s.safe, s.sure)
	return server{
		takeover: takeover,
		holds:    slices.DeleteFunc(slices.Clone(s.holds), unconfirmed),
		last:     last, safe: last, sure: s.sure, pending: s.pending,
	}
}

func (s server) equal(t server) bool {
	return slices.Equal(s.holds, t.holds) && slices.Equal(s.pending, t.pending) && s.last == t.last && s.owner == t.owner &&
		s.safe == t.safe && s.sure == t.sure && s.dead == t.dead && s.takeover == t.takeover
}

// reads tells whether the hold shares the name with other readers.
func (hold *Hold) reads() bool { return hold.Kind == "read" }

func (hold *Hold) writes() bool { return hold.Kind == "write" }

// instant tells whether nobody ever relied on the hold. Only its token counts.
func (hold *Hold) instant() bool { return hold.Until <= hold.From }

// fits tells whether a server may give the hold beside these.
func (hold *Hold) fits(others []*Hold) bool {
	units, limit := hold.Units, hold.Limit
	for _, other := range others {
		units, limit = units+other.Units, max(limit, other.Limit)
		mine := other.Owner == hold.Owner
		switch {
		case hold.reads() || hold.writes():
			if !mine && (hold.writes() || other.writes()) {
				return false
			}
		case hold.Limit == 1 && !mine:
			return false
		}
	}
	shares := hold.Limit == 1 || hold.reads() || hold.writes()
	return shares || units <= limit
}

// names returns the model of a name. It begins with the greatest token of one of these holds.
func names(seen ...*Hold) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() (first []any) {
			for _, one := range seen {
				first = append(first, world{{last: one.Token, owner: one.Owner, safe: one.Token}})
			}
			return first
		},
		Step: func(state, input, _ any) []any { return state.(world).step(input) },
		Equal: func(a, b any) bool {
			return slices.EqualFunc(a.(world), b.(world), server.equal)
		},
		Hash:              func(state any) uint64 { return state.(world).hash() },
		DescribeOperation: func(input, _ any) string { return describe(input) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
	return model.ToModel()
}

func (w world) hash() (sum uint64) {
	for _, s := range w {
		sum = sum*31 + s.last
		for _, hold := range s.holds {
			sum = sum*31 + hold.ID
		}
	}
	return sum
}
