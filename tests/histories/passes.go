package main

import (
	"fmt"
	"sort"
)

// An era of a limiter is the time between two takeovers, in which one server counts.
type era struct {
	name     string
	takeover int
}

// crowded returns a pass of each era with which some window has more than the burst and what the
// rate allows. A new server may know nothing of the passes before, and calls during a takeover may
// have been counted by either. Tokens that such a call gives back may be those of the new era.
func (history *History) crowded() (refused []string) {
	eras, back := map[era][]*Pass{}, map[era]int64{}
	takeovers := history.takeoversByName()
	for i := range history.Passes {
		pass := &history.Passes[i]
		over, during := pass.among(takeovers[pass.Name])
		if during == 0 {
			one := era{pass.Name, over}
			eras[one] = append(eras[one], pass)
			if first := eras[one][0]; pass.rate() != first.rate() {
				refused = append(refused, fmt.Sprintf("%s: passes of two rates", pass.Name))
			}
		} else {
			back[era{pass.Name, over + during}] += int64(pass.Back)
		}
	}
	for one, passes := range eras {
		sort.SliceStable(passes, func(i, j int) bool { return passes[i].At < passes[j].At })
		if pass := excess(passes, back[one]); pass != nil {
			refused = append(refused, fmt.Sprintf("%s: too much with the pass of %d tokens at %d, "+
				"asked for from %d to %d", one.name, pass.Cost, pass.At, pass.From, pass.Until))
		}
	}
	return refused
}

// among counts the takeovers of its name that were over before a pass, and those during it.
func (pass *Pass) among(takeovers []*Fault) (over, during int) {
	for _, fault := range takeovers {
		if pass.From > fault.Takeover.Ended {
			over++
		} else if pass.Until >= fault.Takeover.Began-behind {
			during++
		}
	}
	return over, during
}

func (pass *Pass) rate() [3]uint64 { return [3]uint64{pass.Count, pass.Per, pass.Burst} }

// excess returns the first pass that is one too many, if there is one. What is owed is in parts of a
// token, of which there are Per. The server counts whole microseconds.
func excess(passes []*Pass, back int64) *Pass {
	var owed int64
	at := passes[0].At
	for _, pass := range passes {
		count, per := int64(pass.Count), int64(pass.Per)
		if paid := pass.At - at; paid > owed/count {
			owed = 0
		} else {
			owed -= paid * count
		}
		owed += int64(pass.Cost) * per
		at = pass.At
		if owed > (int64(pass.Burst)+back)*per+count {
			return pass
		}
	}
	return nil
}
