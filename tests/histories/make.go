package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

// makeHistory writes a history that keeps all promises, to measure the judge: at 40
// names. A hold is two operations.
func makeHistory(path string, operations int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	maker := maker{out: out, random: rand.New(rand.NewPCG(1, 2))}
	for name := range 40 {
		maker.name(name, operations/2/40)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

type maker struct {
	out    io.Writer
	random *rand.Rand
	id     uint64
}

// name writes holds of a lock, a read-write lock or a semaphore. Each call waits for up to 60 ms, so
// that several wait at a time, and each tenth call is given up.
func (m *maker) name(number, holds int) {
	kinds := []string{"lock", "fair", "sides", "semaphore", "fence"}
	kind := kinds[number%len(kinds)]
	name := fmt.Sprintf("%s-%d", kind, number)
	if kind == "fence" {
		m.fence(name, 2*holds)
		return
	}
	var held []*Hold
	now, token := int64(second), uint64(0)
	for range holds {
		hold := &Hold{Kind: kind, Name: name, Units: 1, Limit: 1}
		switch kind {
		case "semaphore":
			hold.Units, hold.Limit = 1+m.random.Uint64N(3), 3
		case "sides":
			hold.Kind = "write"
			if m.random.IntN(4) > 0 {
				hold.Kind = "read"
			}
			hold.Units, hold.Limit = 1, 1000
		}
		if kind != "semaphore" && hold.Kind != "read" {
			token += 1 + m.random.Uint64N(3)
		}
		if kind != "semaphore" {
			hold.Token = token
		}
		for !hold.fits(held) {
			now = max(now, held[0].Until)
			held = held[1:]
		}
		m.id++
		now += m.random.Int64N(2_000) + 1
		hold.ID, hold.Owner, hold.Process = m.id, m.id, m.random.Uint64N(14)
		hold.From, hold.Until = now, now+m.random.Int64N(25_000)+1
		hold.Asked = now - m.random.Int64N(60_000)
		held = append(held, hold)
		m.write(hold)
	}
}

// fence writes through a fence, several at a time. Some have an older token and are refused, and the
// outcome of some is unknown.
func (m *maker) fence(name string, writes int) {
	now, token := int64(second), uint64(0)
	for range writes {
		now += m.random.Int64N(2_000) + 1
		mine, outcome := token, fail
		if m.random.IntN(10) > 0 || token == 0 {
			token += 2
			mine, outcome = token, ok
		} else {
			mine--
		}
		if m.random.IntN(50) == 0 {
			outcome = unknown
		}
		fmt.Fprintf(m.out, `{"record":"fenced","process":1,"name":%q,"token":%d,"from":%d,`+
			`"until":%d,"outcome":%q}`+"\n", name, mine, now-m.random.Int64N(5_000),
			now+m.random.Int64N(5_000), outcome)
	}
}

func (m *maker) write(hold *Hold) {
	fmt.Fprintf(m.out, `{"record":"hold","id":%d,"owner":%d,"process":%d,"kind":%q,"name":%q,`+
		`"units":%d,"limit":%d,"token":%d,"asked":%d,"from":%d,"until":%d,"deadline":0,"lost":0,"gone":%d,`+
		`"durable":false}`+"\n", hold.ID, hold.Owner, hold.Process, hold.Kind, hold.Name, hold.Units,
		hold.Limit, hold.Token, hold.Asked, hold.From, hold.Until, hold.Until+100)
	if m.random.IntN(10) == 0 {
		fmt.Fprintf(m.out, `{"record":"attempt","process":1,"kind":%q,"names":[%q],"from":%d,`+
			`"until":%d,"outcome":"info"}`+"\n", hold.Kind, hold.Name, hold.Asked, hold.From)
	}
}
