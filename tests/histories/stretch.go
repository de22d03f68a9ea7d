package main

import (
	"math"
	"slices"
	"sort"

	"github.com/anishathalye/porcupine"
)

// A stretch is a part of what happened to a name, short enough for a search. It begins and ends at
// times at which nobody relied on the name.
type stretch struct {
	name   string
	strict porcupine.Model
	ops    []porcupine.Operation
	// The events of takeovers, with which two servers may explain the operations.
	takeovers []porcupine.Operation
	// Whether a takeover excuses any result, because the model has no second server.
	lenient bool
}

// A span in µs.
const (
	second = 1_000_000
	behind = 2 * second // the greatest lag of a replica
	acts   = 5 * second // after a call of unknown outcome, its last request acts in this time or never
	looks  = 5 * second // a waiter has looked in this time
	lasts  = 5 * second // the effects of a takeover on holders
)

// stretches returns all parts of a history.
func (history *History) stretches(size int) (all []stretch) {
	faults := history.takeoversByName()
	for name, holds := range by(history.Holds, func(hold *Hold) string { return hold.Name }) {
		all = append(all, ofHolds(name, holds, faults[name], size)...)
	}
	for name, writes := range by(history.Fences, func(one *Fenced) string { return one.Name }) {
		all = append(all, ofFence(name, writes, faults[name], size)...)
	}
	for name, writes := range by(history.Writes, func(one *Write) string { return one.Name }) {
		all = append(all, ofSet(name, writes, faults[name], size)...)
	}
	for name, rounds := range by(history.Rounds, func(one *Round) string { return one.Name }) {
		all = append(all, ofLatch(name, rounds, faults[name], size)...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].name < all[j].name })
	return all
}

func (history *History) takeoversByName() map[string][]*Fault {
	faults := map[string][]*Fault{}
	for i := range history.Faults {
		fault := &history.Faults[i]
		for _, name := range fault.Names {
			if fault.Takeover != nil {
				faults[name] = append(faults[name], fault)
			}
		}
	}
	return faults
}

func by[T any](all []T, name func(*T) string) map[string][]*T {
	groups := map[string][]*T{}
	for i := range all {
		groups[name(&all[i])] = append(groups[name(&all[i])], &all[i])
	}
	return groups
}

// ofHolds cuts the holds of a name.
func ofHolds(name string, holds []*Hold, faults []*Fault, size int) (all []stretch) {
	sort.SliceStable(holds, func(i, j int) bool { return holds[i].From < holds[j].From })
	known := &Hold{}
	var since, until int64
	first := 0
	for i := 0; i <= len(holds); i++ {
		if i < len(holds) {
			full := i-first >= size && holds[i].From > until && !inside(faults, until, holds[i].From)
			if !full {
				until = max(until, holds[i].Until, holds[i].From)
				continue
			}
		}
		hit := slices.DeleteFunc(slices.Clone(faults), func(fault *Fault) bool {
			return fault.Takeover.Ended+lasts < since || fault.From-behind > until
		})
		part := stretch{name: name, strict: names(known), takeovers: events(hit)}
		for _, hold := range holds[first:i] {
			part.ops = append(part.ops, hold.operations(since, part.takeovers)...)
		}
		if len(hit) == 0 {
			part.ops = settle(part.ops)
		}
		all = append(all, part)
		known = greatest(known, holds[first:i], hit)
		first, since = i, until
		if i < len(holds) {
			until = max(until, holds[i].Until, holds[i].From)
		}
	}
	return all
}

// settle gives each instant hold of one server one place: the last that its token allows. A server
// gives tokens in order, and nothing else of such a hold counts, so if the hold has any place, this
// is one. Instant holds that fall on one place are one operation. Otherwise the search tries all
// sets of the instant holds that are under way.
func settle(ops []porcupine.Operation) (settled []porcupine.Operation) {
	var grants []porcupine.Operation
	for _, op := range ops {
		if _, is := op.Input.(grant); is {
			grants = append(grants, op)
		} else {
			settled = append(settled, op)
		}
	}
	token := func(op porcupine.Operation) uint64 { return op.Input.(grant).Token }
	sort.SliceStable(grants, func(i, j int) bool {
		a, b := grants[i], grants[j]
		return token(a) > token(b) || token(a) == token(b) && a.Return > b.Return
	})
	last, shared := int64(math.MaxInt64), false
	for _, op := range grants {
		instant := op.Input.(grant).instant()
		place := op.Return
		if token(op) > 0 && op.Call <= last {
			place = min(place, last)
			if instant && shared && place == last {
				continue
			}
			last, shared = place, instant
		}
		op.Call, op.Return = place, place
		settled = append(settled, op)
	}
	return settled
}

// inside tells whether a takeover has effects in this time.
func inside(faults []*Fault, from, until int64) bool {
	return slices.ContainsFunc(faults, func(fault *Fault) bool {
		return fault.From-behind <= until && fault.Takeover.Ended+lasts >= from
	})
}

// greatest returns the hold whose token the servers certainly know after these, which come behind
// the hold `known`.
func greatest(known *Hold, holds []*Hold, faults []*Fault) *Hold {
	before := known
	if len(faults) > 0 {
		before = &Hold{}
	}
	for _, hold := range holds {
		for _, fault := range faults {
			if hold.Asked < fault.Takeover.Ended {
				goto next
			}
		}
		if hold.Token > before.Token || hold.Token == before.Token && !hold.reads() {
			before = hold
		}
	next:
	}
	return before
}

// operations returns the grant of a hold, and the last time at which its holder relied on it.
//
// A grant has a place between call and return. The promises are about holders that rely on their
// holds, which none does before the return. If there is any place, there is one right before the
// return, so the search begins there, or at the first event of a takeover that the call overlaps.
func (hold *Hold) operations(since int64, takeovers []porcupine.Operation) []porcupine.Operation {
	client := int(hold.Process % 64)
	op := porcupine.Operation{
		ClientId: client, Input: grant{hold}, Call: hold.From, Return: hold.From,
	}
	if hold.instant() {
		if hold.Asked < since {
			return nil
		}
		op.Call = hold.Asked
		return []porcupine.Operation{op}
	}
	for _, event := range takeovers {
		if event.Call <= hold.From && event.Return >= hold.Asked {
			op.Call = min(op.Call, max(hold.Asked, event.Call))
		}
	}
	return []porcupine.Operation{op, {
		ClientId: client, Input: end{hold}, Call: hold.Until, Return: hold.Until,
	}}
}

// events returns what happened in takeovers.
func events(faults []*Fault) (ops []porcupine.Operation) {
	add := func(input any, from, until int64) {
		ops = append(ops, porcupine.Operation{
			ClientId: 64, Input: input, Call: from, Return: max(from, until),
		})
	}
	var last int64
	for i, fault := range faults {
		number, over := i+1, fault.Takeover
		// A replica may have missed what the server before the last takeover knew.
		known := max(fault.From-behind, last)
		last = over.Ended
		add(mark{}, known, known)
		add(fork{number}, over.Began, over.Ended)
		if over.Died != over.Back {
			add(die{number}, over.Died, over.Died)
			add(back{number}, over.Back, over.Back)
		}
		add(retire{number}, over.Ended, over.Ended)
	}
	return ops
}

// ofFence cuts the writes through a fence, unless a takeover leaves open what the fence has seen.
func ofFence(name string, writes []*Fenced, faults []*Fault, size int) (all []stretch) {
	sort.SliceStable(writes, func(i, j int) bool { return writes[i].From < writes[j].From })
	var ops []porcupine.Operation
	for _, write := range writes {
		ops = append(ops, write.operations()...)
	}
	name += " (fence)"
	if len(faults) > 0 {
		return []stretch{{name: name, strict: names(&Hold{}), ops: ops, takeovers: events(faults)}}
	}
	var mark uint64
	certain := func(part []porcupine.Operation) bool {
		_, certain := after(mark, part)
		return certain
	}
	for _, part := range cut(ops, size, certain) {
		all = append(all, stretch{name: name, strict: names(&Hold{Token: mark}), ops: part})
		mark, _ = after(mark, part)
	}
	return all
}

// operations returns the write, or the time in which it may act.
func (write *Fenced) operations() []porcupine.Operation {
	client := int(write.Process % 64)
	if write.Outcome == ok || write.Outcome == fail {
		return []porcupine.Operation{
			{ClientId: client, Input: fence{write}, Call: write.From, Return: write.Until},
		}
	}
	ends := write.Until + acts
	return []porcupine.Operation{
		{ClientId: client, Input: maybe{write.Token}, Call: write.From, Return: write.From},
		{ClientId: client, Input: over{write.Token}, Call: ends, Return: ends},
	}
}

// after returns the greatest token that a fence has seen after these writes, and whether no write of
// unknown outcome had a greater one.
func after(mark uint64, writes []porcupine.Operation) (seen uint64, certain bool) {
	seen, most := mark, mark
	for _, write := range writes {
		switch one := write.Input.(type) {
		case fence:
			if one.Outcome == ok {
				seen = max(seen, one.Token)
			}
		case maybe:
			most = max(most, one.token)
		}
	}
	return seen, seen >= most
}

// cut parts operations where none is under way and the state is certain. What may act belongs to
// both parts.
func cut(
	ops []porcupine.Operation, size int, certain func([]porcupine.Operation) bool,
) (parts [][]porcupine.Operation) {
	sort.SliceStable(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	var part, pending []porcupine.Operation
	var until int64
	for _, op := range ops {
		if len(part) >= size && op.Call > until && begins(op.Input) && certain(part) {
			parts = append(parts, part)
			part = slices.Clone(pending)
		}
		part = append(part, op)
		until = max(until, op.Return)
		switch one := op.Input.(type) {
		case maybe:
			pending = append(pending, op)
		case over:
			at := slices.IndexFunc(pending, func(op porcupine.Operation) bool {
				return op.Input.(maybe).token == one.token
			})
			pending = slices.Delete(pending, at, at+1)
		}
	}
	return append(parts, part)
}

func always([]porcupine.Operation) bool { return true }

// mayAct tells whether the operation belongs to a call of unknown outcome.
func mayAct(op any) bool {
	switch op.(type) {
	case maybe, over:
		return true
	}
	return false
}

// begins tells whether the operation does not depend on a part before it.
func begins(op any) bool {
	switch op.(type) {
	case set, fence, looked, wrote:
		return true
	}
	return false
}

// ofSet cuts the accesses to a set.
func ofSet(name string, writes []*Write, faults []*Fault, size int) (all []stretch) {
	var ops, takeovers []porcupine.Operation
	for _, write := range writes {
		ops = append(ops, write.operations()...)
	}
	for _, fault := range faults {
		began, ended := fault.Takeover.Began, fault.Takeover.Ended+lasts
		takeovers = append(takeovers,
			porcupine.Operation{ClientId: 64, Input: tear{}, Call: began, Return: began},
			porcupine.Operation{ClientId: 64, Input: heal{}, Call: ended, Return: ended})
	}
	var last uint64
	for _, part := range cut(ops, size, always) {
		all = append(all, stretch{
			name: name + " (set)", strict: sets(last), ops: part, takeovers: takeovers,
		})
		for _, op := range part {
			if one, is := op.Input.(wrote); is && one.Accepted {
				last = max(last, one.Token)
			}
			if one, is := op.Input.(looked); is && one.accepted() {
				last = max(last, one.Token)
			}
		}
	}
	return all
}

// ofLatch cuts the rounds of a latch. A round in a takeover is judged by itself. In the others, its
// count-downs of unknown outcome may act.
func ofLatch(name string, rounds []*Round, faults []*Fault, size int) (all []stretch) {
	var ops []porcupine.Operation
	name += " (latch)"
	for _, round := range rounds {
		own := round.operations()
		if inside(faults, round.From, round.Until) {
			all = append(all, stretch{name: name, strict: latches(), ops: own, lenient: true})
			own = slices.DeleteFunc(slices.Clone(own), func(op porcupine.Operation) bool {
				return !mayAct(op.Input)
			})
		}
		ops = append(ops, own...)
	}
	for _, part := range cut(ops, size, always) {
		all = append(all, stretch{name: name, strict: latches(), ops: part})
	}
	return all
}
