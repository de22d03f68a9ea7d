package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A test judges a few records and knows the verdict.
type test struct {
	name    string
	history History
	want    string // "ok", "expected" or a part of the refusal
}

func (one test) run(t *testing.T) {
	t.Helper()
	sum := judge(&one.history, "")
	got := "ok"
	switch {
	case len(sum.undecided) > 0:
		t.Fatalf("undecided: %v", sum.undecided)
	case len(sum.refused) > 0:
		got = strings.Join(sum.refused, "; ")
	case len(sum.expected) > 0:
		got = "expected"
	}
	if got != one.want && (len(sum.refused) == 0 || !strings.Contains(got, one.want)) ||
		one.want == "" {
		t.Errorf("got %q instead of %q", got, one.want)
	}
}

func all(t *testing.T, tests []test) {
	for _, one := range tests {
		t.Run(one.name, one.run)
	}
}

// lock returns a hold of a lock with this token. It was asked for right before.
func lock(token uint64, from, until int64) Hold {
	return Hold{ID: token, Owner: token, Kind: "lock", Name: "a", Units: 1, Limit: 1, Token: token,
		Asked: from - 1, From: from, Until: until}
}

func (hold Hold) asked(at int64) Hold { hold.Asked = at; return hold }

func (hold Hold) owner(owner uint64) Hold { hold.Owner = owner; return hold }

func (hold Hold) durable() Hold { hold.Durable = true; return hold }

func side(kind string, owner, token uint64, from, until int64) Hold {
	hold := lock(token, from, until).owner(owner)
	hold.Kind, hold.Limit = kind, 1000
	return hold
}

func permits(units uint64, from, until int64) Hold {
	hold := lock(0, from, until).owner(uint64(from))
	hold.Kind, hold.Units, hold.Limit = "semaphore", units, 3
	return hold
}

func holds(all ...Hold) History { return History{Holds: all} }

// takeover returns a fault of the name in these microseconds.
func takeover(began, ended int64) Fault {
	return Fault{Kind: "crash", From: began, Until: ended, Names: []string{"a"},
		Takeover: &Takeover{Began: began, Ended: ended}}
}

func (history History) with(fault Fault) History {
	history.Faults = append(history.Faults, fault)
	return history
}

func TestLocks(t *testing.T) {
	late := lock(1, 10, 20)
	late.Deadline = 19
	all(t, []test{
		{"one after the other", holds(lock(1, 10, 20), lock(2, 21, 30)), "ok"},
		{"in the same microsecond", holds(lock(1, 10, 20), lock(2, 20, 30)), "ok"},
		{"two at a time", holds(lock(1, 10, 20), lock(2, 19, 30)), "lock 2"},
		{"two, the later one first", holds(lock(2, 19, 30), lock(1, 10, 20)), "lock 2"},
		{"a waiter", holds(lock(1, 10, 20), lock(2, 21, 30).asked(5)), "ok"},
		{"two names", holds(lock(1, 10, 20), Hold{Kind: "lock", Name: "b", Owner: 2, Units: 1,
			Limit: 1, Token: 1, Asked: 10, From: 11, Until: 20}), "ok"},
		{"the token falls", holds(lock(2, 10, 20), lock(1, 21, 30)), "token 1"},
		{"the token of a waiter falls", holds(lock(2, 10, 20), lock(1, 21, 30).asked(5)), "token 1"},
		{"the token repeats", holds(lock(2, 10, 20), lock(2, 21, 30).owner(9)), "owner 9"},
		{"no token", holds(lock(0, 10, 20), lock(0, 21, 30)), "ok"},
		{"two at a time without token", holds(lock(0, 10, 20).owner(1), lock(0, 12, 30)), "lock 0"},
		{"a hold that was over when its call returned",
			holds(lock(2, 10, 20), lock(1, 30, 30).asked(5)), "ok"},
		{"the same, asked for too late", holds(lock(2, 10, 20), lock(1, 30, 30).asked(21)), "token 1"},
		{"the same beside another", holds(lock(1, 10, 20), lock(2, 15, 15)), "ok"},
		{"relied on after its deadline", holds(late), "after its deadline"},
		{"a call of unknown outcome", History{Holds: []Hold{lock(1, 10, 20), lock(5, 21, 30)},
			Attempts: []Attempt{{Kind: "lock", Names: []string{"a"}, From: 12, Until: 13,
				Outcome: unknown}}}, "ok"},
	})
}

// Holds that were over when their calls returned, all under way at a time.
func TestACrowd(t *testing.T) {
	with := func(others ...Hold) History {
		for i := range int64(60) {
			others = append(others, lock(uint64(2*i+10), 100+i, 100+i).asked(5))
		}
		return holds(others...)
	}
	all(t, []test{
		{"a greater token behind", with(lock(200, 200, 300)), "ok"},
		{"a smaller token behind", with(lock(3, 200, 300)), "token 3"},
		{"a token among them", with(lock(71, 130, 300)), "ok"},
		{"a smaller token among them", with(lock(61, 130, 300)), "token 61"},
		{"a greater token among them", with(lock(75, 130, 300)), "ok"},
		{"one that returned early", with(lock(21, 200, 200).asked(5)), "ok"},
		{"one that came too late", with(lock(21, 200, 200).asked(120)), "token 21"},
		{"a greater token before them", with(lock(201, 50, 200)), "ok"},
		{"a greater token before they were asked for", with(lock(201, 4, 200)), "lock 10"},
		{"the greatest first", with(lock(201, 50, 50), lock(202, 200, 300)), "ok"},
	})
}

func TestGuardsOfOneOwner(t *testing.T) {
	again := func(from, until int64) Hold { return lock(1, from, until) }
	all(t, []test{
		{"within", holds(lock(1, 10, 40), again(15, 20), lock(2, 41, 50)), "ok"},
		{"beyond the first guard", holds(lock(1, 10, 20), again(15, 40), lock(2, 41, 50)), "ok"},
		{"another owner after the first guard", holds(lock(1, 10, 20), again(15, 40),
			lock(2, 21, 30)), "lock 2"},
		{"back at once, while the release is on its way", holds(lock(1, 10, 20), again(21, 30)), "ok"},
		{"an older token of the same owner", holds(lock(1, 10, 20), lock(2, 21, 30),
			again(31, 40)), "token 1"},
	})
}

func TestSides(t *testing.T) {
	all(t, []test{
		{"readers share", holds(side("read", 1, 5, 10, 20), side("read", 2, 5, 15, 25)), "ok"},
		{"a writer follows", holds(side("read", 1, 5, 10, 20), side("write", 2, 6, 21, 25)), "ok"},
		{"a writer beside a reader", holds(side("read", 1, 5, 10, 20), side("write", 2, 6, 19, 25)),
			"write 6"},
		{"a reader beside a writer", holds(side("write", 1, 6, 10, 20), side("read", 2, 6, 19, 25)),
			"read 6"},
		{"two writers", holds(side("write", 1, 6, 10, 20), side("write", 2, 7, 19, 25)), "write 7"},
		{"one owner has both", holds(side("write", 1, 6, 10, 20), side("read", 1, 6, 15, 30),
			side("read", 2, 6, 21, 30)), "ok"},
		{"a writer after the first guard of such an owner", holds(side("write", 1, 6, 10, 20),
			side("read", 1, 6, 15, 30), side("write", 2, 7, 21, 25)), "write 7"},
		{"a read that was over when its call returned, asked for before the write", holds(
			side("write", 1, 5, 100, 200), side("read", 2, 5, 400, 400).asked(90),
			side("write", 3, 6, 300, 350)), "ok"},
		{"a reader has an older token", holds(side("write", 1, 6, 10, 20),
			side("read", 2, 5, 21, 30)), "read 5"},
		{"a write of unknown outcome lies between", holds(side("write", 1, 6, 10, 20),
			side("read", 2, 9, 21, 30)), "ok"},
	})
}

func TestPermits(t *testing.T) {
	all(t, []test{
		{"all", holds(permits(2, 10, 20), permits(1, 11, 20)), "ok"},
		{"one more", holds(permits(2, 10, 20), permits(2, 11, 20)), "2 of 3"},
		{"one more than three", holds(permits(1, 10, 30), permits(1, 11, 30), permits(1, 12, 30),
			permits(1, 13, 30)), "1 of 3"},
		{"after the end of another", holds(permits(2, 10, 20), permits(2, 21, 30).asked(5)), "ok"},
	})
}

func TestTakeovers(t *testing.T) {
	two := holds(lock(1, 10, 20), lock(2, 15, 30))
	three := holds(lock(1, 10, 30), lock(2, 15, 30), lock(3, 16, 30))
	dead := takeover(5, 40)
	dead.Takeover.Died, dead.Takeover.Back = 6, 35
	falls := func(second int64) History { return holds(lock(2, 10, 20), lock(1, second, second+9)) }
	all(t, []test{
		{"two servers, two holders", two.with(takeover(12, 14)), "expected"},
		{"the old one answered before both", two.with(takeover(2, 5)), "lock 2"},
		{"the new one answered after both", two.with(takeover(16, 40)), "lock 2"},
		{"the old one was dead", two.with(dead), "lock 2"},
		{"a takeover of another name", two.with(Fault{Names: []string{"b"},
			Takeover: &Takeover{Began: 12, Ended: 14}}), "lock 2"},
		{"a fault with consent", two.with(Fault{Names: []string{"a"}, From: 12, Until: 14}), "lock 2"},
		{"two servers, three holders", three.with(takeover(12, 14)), "lock 3"},
		{"three in a longer takeover", three.with(takeover(12, 29)), "lock 3"},
		{"confirmed by all replicas", holds(lock(1, 10, 20).durable(),
			lock(2, 15, 30).durable()).with(takeover(12, 14)), "lock 2"},
		{"the token falls", falls(30).with(takeover(22, 24)), "expected"},
		{"the token falls that replicas knew",
			falls(4 * second).with(takeover(3*second, 3*second+1)), "token 1"},
		{"the token falls that all replicas confirmed", holds(lock(2, 10, 20).durable(),
			lock(1, 30, 40).durable()).with(takeover(22, 24)), "token 1"},
		{"the token falls in the first of two takeovers", holds(lock(9, 895*second/100, 9*second-1),
			lock(8, 105*second/10, 10*second+600_000)).with(takeover(10*second, 10*second+1)).with(
			takeover(11*second, 11*second+1)), "expected"},
		{"the token falls in the second, and all knew it", holds(lock(9, 895*second/100, 9*second-1),
			lock(8, 115*second/10, 12*second)).with(takeover(5*second, 5*second+1)).with(
			takeover(11*second, 11*second+1)), "token 8"},
		{"two, long after a takeover", holds(lock(1, 9*second, 10*second),
			lock(2, 9*second+1, 10*second)).with(takeover(12, 14)), "lock 2"},
	})
}

func write(token uint64, at int64, outcome Outcome) Fenced {
	return Fenced{Name: "a", Token: token, From: at, Until: at + 5, Outcome: outcome}
}

func TestFences(t *testing.T) {
	fences := func(all ...Fenced) History { return History{Fences: all} }
	all(t, []test{
		{"rising", fences(write(1, 10, ok), write(2, 20, ok)), "ok"},
		{"a lower one is written", fences(write(2, 10, ok), write(1, 20, ok)), "token 1: ok"},
		{"at the same time", fences(write(2, 10, ok), write(1, 12, ok)), "ok"},
		{"a lower one is refused", fences(write(2, 10, ok), write(1, 20, fail)), "ok"},
		{"a higher one is refused", fences(write(1, 10, ok), write(2, 20, fail)), "token 2: fail"},
		{"refused by one of unknown outcome", fences(write(2, 10, unknown), write(1, 20, fail)), "ok"},
		{"written in spite of it", fences(write(2, 10, unknown), write(1, 20, ok)), "ok"},
		{"refused by one, and then written", fences(write(2, 10, unknown), write(1, 20, fail),
			write(1, 30, ok)), "token 1: ok"},
		{"refused before the other was sent", fences(write(2, 30, unknown), write(1, 20, fail)),
			"token 1: fail"},
		{"forgotten in a takeover", fences(write(2, 10, ok),
			write(1, 30, ok)).with(takeover(20, 25)), "expected"},
		{"before the takeover", fences(write(2, 10, ok),
			write(1, 16, ok)).with(takeover(50, 55)), "token 1: ok"},
	})
}

func TestSets(t *testing.T) {
	one := func(token uint64, at int64) Write {
		return Write{Name: "a", Token: token, Asked: at - 6, Read: at - 5, At: at, Accepted: true,
			Valid: true}
	}
	writes := func(all ...Write) History { return History{Writes: all} }
	refused, lost, open := one(4, 20), one(6, 20), one(0, 20)
	refused.Accepted, refused.Read, lost.Lost, open.Lost = false, 12, 1, 1
	late, atOnce := refused, refused
	late.Valid, atOnce.Read = false, atOnce.At
	all(t, []test{
		{"rising", writes(one(5, 10), one(6, 20)), "ok"},
		{"a lower one is written", writes(one(5, 10), one(4, 20)), "token 4"},
		{"a late one is refused", writes(one(5, 18), late), "ok"},
		{"a valid one is refused", writes(one(5, 18), refused), "token 4"},
		{"a valid one may not read", writes(one(5, 18), atOnce), "token 4"},
		{"the same after a takeover", writes(one(5, 18), refused).with(takeover(12, 14)), "expected"},
		{"an element is lost", writes(one(5, 10), lost), "token 6"},
		{"the same after a takeover", writes(one(5, 10), lost).with(takeover(12, 14)), "token 6"},
		{"lost without tokens", writes(open), "lost: 1"},
		{"the same after a takeover", writes(open).with(takeover(12, 14)), "expected"},
	})
}

func TestPasses(t *testing.T) {
	pass := func(cost uint64, at int64) Pass {
		return Pass{Name: "a", Count: 3, Per: 1000, Burst: 4, Cost: cost, At: at, From: at, Until: at}
	}
	asked := func(pass Pass, from int64, back uint64) Pass {
		pass.From, pass.Until, pass.Back = from, from+2*second, back
		return pass
	}
	passes := func(all ...Pass) History { return History{Passes: all} }
	early, late := asked(pass(4, 1000), 9*second, 0), asked(pass(4, 1001), 20*second, 0)
	change := takeover(15*second, 16*second)
	all(t, []test{
		{"a burst, and the rate", passes(pass(4, 1000), pass(1, 1334), pass(1, 1667), pass(1, 2000)), "ok"},
		{"a microsecond too early", passes(pass(4, 1000), pass(1, 1332)), "1 tokens at 1332"},
		{"out of order", passes(pass(1, 1332), pass(4, 1000)), "1 tokens at 1332"},
		{"a pause saves no more than the burst", passes(pass(4, 1000), pass(4, 99000), pass(1, 99001)),
			"1 tokens at 99001"},
		{"two names", passes(pass(4, 1000), Pass{Name: "b", Count: 3, Per: 1000, Burst: 4, Cost: 4,
			At: 1000}), "ok"},
		{"forgotten in a takeover", passes(early, late).with(change), "ok"},
		{"without a takeover", passes(early, late), "4 tokens at 1001"},
		{"too much of the new one", passes(early, late, late).with(change), "4 tokens at 1001"},
		{"asked for meanwhile", passes(early, asked(pass(4, 1001), 15*second, 0)).with(change), "ok"},
		{"given back to the new one", passes(asked(pass(0, 1), 15*second, 4), late, late).with(change),
			"ok"},
		{"given back to the old one", passes(asked(pass(0, 1), 9*second, 4), early, early).with(change),
			"4 tokens at 1000"},
	})
}

func TestLatches(t *testing.T) {
	step := func(from, until int64, outcome Outcome) Step { return Step{from, until, outcome} }
	latch := func(downs []Step, waits ...Step) Round {
		return Round{Name: "a", From: 1, Set: 5, Until: 90 * second, Count: 2, Downs: downs, Waits: waits}
	}
	rounds := func(all ...Round) History { return History{Rounds: all} }
	both := []Step{step(10, 20, ok), step(30, 40, ok)}
	half := []Step{step(10, 20, ok), step(30, 40, unknown)}
	next := latch([]Step{step(93*second, 94*second, ok), step(97*second, 98*second, ok)},
		step(93*second, 95*second, ok))
	next.From, next.Set = 91*second, 92*second
	lost := latch([]Step{step(90*second-1, 90*second, unknown), step(30, 40, ok)})
	all(t, []test{
		{"passed", rounds(latch(both, step(6, 41, ok))), "ok"},
		{"passed while the last was counted", rounds(latch(both, step(6, 35, ok))), "ok"},
		{"passed before it was set", rounds(latch(both, step(2, 4, ok))), "pass"},
		{"passed too early", rounds(latch(both, step(6, 29, ok))), "pass"},
		{"counted or not, passed", rounds(latch(half, step(6, 41, ok))), "ok"},
		{"counted or not, shut", rounds(latch(half, step(6, 30*second, fail))), "ok"},
		{"counted later", rounds(latch(half, step(6, 41, fail), step(6, 4*second, ok))), "ok"},
		{"open, then shut", rounds(latch(half, step(6, 41, ok), step(20*second, 30*second, fail))),
			"shut"},
		{"waited before an open latch", rounds(latch(both, step(6, 20*second, fail))), "shut"},
		{"the same after a takeover", rounds(latch(both,
			step(6, 20*second, fail))).with(takeover(45, 50)), "expected"},
		{"the round after a takeover", rounds(latch(both, step(6, 41, ok)), latchAt(100*second,
			latch(both, step(6, 20*second, fail)))).with(takeover(45, 50)), "shut"},
		{"a late one counts in the next round", rounds(lost, next), "ok"},
		{"none counts in the next round", rounds(latch(both), next), "pass"},
	})
}

// latchAt returns the round, so much later.
func latchAt(later int64, round Round) Round {
	move := func(steps []Step) (moved []Step) {
		for _, step := range steps {
			moved = append(moved, Step{step.From + later, step.Until + later, step.Outcome})
		}
		return moved
	}
	round.From, round.Set, round.Until = round.From+later, round.Set+later, round.Until+later
	round.Downs, round.Waits = move(round.Downs), move(round.Waits)
	return round
}

// Of many holds, one is wrong. The judge cuts them, and finds it in each part.
func TestCuts(t *testing.T) {
	for _, wrong := range []int{-1, 3, 1500, 3998} {
		var all []Hold
		for i := range int64(4000) {
			hold := lock(uint64(i+1), i*10+5, i*10+9).asked(i*10 - 300)
			if int(i) == wrong {
				hold.Until += 7
			}
			all = append(all, hold)
		}
		history := holds(all...)
		if parts := history.stretches(size); len(parts) < 5 {
			t.Errorf("%d parts", len(parts))
		}
		sum := judge(&history, "")
		if refused := len(sum.refused) == 1; refused != (wrong >= 0) {
			t.Errorf("%d: %v", wrong, sum.refused)
		}
	}
	// The token of an earlier part counts in the next.
	var all []Hold
	for i := range int64(1000) {
		all = append(all, lock(uint64(i+1), i*10+5, i*10+9))
	}
	all[600].Token, all[500].Token = 400, 450
	history := holds(all...)
	if sum := judge(&history, ""); len(sum.refused) == 0 {
		t.Error("a token fell")
	}
}

// The same of a fence, a set and a latch, whose parts overlap where an outcome is unknown.
func TestCutsOfCalls(t *testing.T) {
	for _, wrong := range []int64{-1, 900, 2900} {
		var history History
		for i := range int64(3000) {
			one := write(uint64(2*i+2), i*1000+1, ok)
			if i%100 == 7 {
				one.Outcome = unknown
			}
			history.Fences = append(history.Fences, one)
			history.Writes = append(history.Writes, Write{Name: "a", Token: uint64(i + 2), Read: i * 100,
				At: i*100 + 50, Accepted: true, Valid: true})
			round := Round{Name: "a", From: i * 1000, Set: i*1000 + 5, Count: 1,
				Downs: []Step{{i*1000 + 10, i*1000 + 12, ok}}, Waits: []Step{{i*1000 + 6, i*1000 + 13, ok}}}
			history.Rounds = append(history.Rounds, round)
		}
		if wrong >= 0 {
			history.Fences[wrong].Token -= 3
			history.Writes[wrong].Token = 1
			history.Rounds[wrong].Downs[0].From += 5
			history.Rounds[wrong].Downs[0].Until += 5
		}
		if parts := history.stretches(size); len(parts) < 10 {
			t.Errorf("%d parts", len(parts))
		}
		sum := judge(&history, "")
		if want := map[bool]int{true: 3}[wrong >= 0]; len(sum.refused) != want || len(sum.undecided) > 0 {
			t.Errorf("%d: %v, %v", wrong, sum.refused, sum.undecided)
		}
	}
}

func TestFiles(t *testing.T) {
	for folder, want := range map[string]bool{"accepted": true, "refused": false} {
		files, err := filepath.Glob("testdata/" + folder + "/*.jsonl")
		if err != nil || len(files) == 0 {
			t.Fatal("no files", err)
		}
		for _, file := range files {
			if accepted, err := report(file, t.TempDir()); err != nil || accepted != want {
				t.Errorf("%s: %t, %v", file, accepted, err)
			}
		}
	}
}

func TestMadeHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made.jsonl")
	if err := makeHistory(path, 4000); err != nil {
		t.Fatal(err)
	}
	if accepted, err := report(path, ""); err != nil || !accepted {
		t.Errorf("%t, %v", accepted, err)
	}
}

func TestWrongLines(t *testing.T) {
	attempt := `{"record":"attempt","process":1,"kind":"lock","names":["a"],"from":1,`
	for line, want := range map[string]string{
		`{"record":"hold","id":7,"ki`:                   "line 1",
		`{"record":"hole","id":7}`:                      "unknown record",
		`{"record":"hold","id":7,"to":1}`:               "unknown field",
		`{"record":"hold","id":7}`:                      "no field \"owner\"",
		attempt + `"until":2,"outcome":"no"}`:           "unknown outcome",
		attempt + `"until":2,"Until":2,"outcome":"ok"}`: "twice",
		attempt + `"until":null,"outcome":"ok"}`:        "no field \"until\"",
		attempt + `"until":0,"outcome":"ok"}`:           "out of order",
	} {
		_, err := read(strings.NewReader(line))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := report(os.DevNull, ""); err == nil {
		t.Error("an empty history was accepted")
	}
}
