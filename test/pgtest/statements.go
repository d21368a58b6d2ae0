package pgtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Traffic is what clients asked the server through a proxy.
type Traffic struct {
	Statements map[string]int // by their text
	Trips      int            // how often a client waited for an answer; a batch is one
}

// Sum is the number of statements.
func (t Traffic) Sum() (n int) {
	for _, count := range t.Statements {
		n += count
	}
	return n
}

// String is the statements by their number, each from its beginning.
func (t Traffic) String() string {
	var lines []string
	for text, n := range t.Statements {
		lines = append(lines, fmt.Sprintf("%5d %.160s\n", n, strings.Join(strings.Fields(text), " ")))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	return fmt.Sprintf("%d statements, %d waits\n%s", t.Sum(), t.Trips, strings.Join(lines, ""))
}

// Since is what came after an earlier moment.
func (t Traffic) Since(before Traffic) Traffic {
	out := Traffic{Statements: map[string]int{}, Trips: t.Trips - before.Trips}
	for text, n := range t.Statements {
		if n -= before.Statements[text]; n > 0 {
			out.Statements[text] = n
		}
	}
	return out
}

// traffic counts for all connections of a proxy.
type traffic struct {
	mu  sync.Mutex
	all Traffic
}

// Traffic is what was asked until now.
func (p *Proxy) Traffic() Traffic {
	p.traffic.mu.Lock()
	defer p.traffic.mu.Unlock()
	return Traffic{Statements: maps.Clone(p.traffic.all.Statements), Trips: p.traffic.all.Trips}
}

// reader follows what one client says. Its connection is not encrypted.
type reader struct {
	to       *traffic
	rest     []byte
	begun    bool              // the first message has no type
	prepared map[string]string // texts by name
	bound    string            // what an execution means; programs use one portal after the other
	asked    bool              // something was executed since the client last waited
}

func (r *reader) read(data []byte) {
	r.rest = append(r.rest, data...)
	for {
		head := 1
		if !r.begun {
			head = 0
		}
		if len(r.rest) < head+4 {
			return
		}
		size := head + int(binary.BigEndian.Uint32(r.rest[head:]))
		if len(r.rest) < size {
			return
		}
		if r.begun {
			r.message(r.rest[0], r.rest[5:size])
		}
		r.begun = true
		r.rest = r.rest[size:]
	}
}

func (r *reader) message(kind byte, body []byte) {
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	first, after, _ := bytes.Cut(body, []byte{0})
	second, _, _ := bytes.Cut(after, []byte{0})
	switch kind {
	case 'P': // parse: name, text
		r.prepared[string(first)] = string(second)
	case 'B': // bind: portal, name
		r.bound = r.prepared[string(second)]
	case 'E': // execute
		r.to.all.Statements[r.bound]++
		r.asked = true
	case 'Q': // query: text
		r.to.all.Statements[string(first)]++
		r.to.all.Trips++
	case 'S': // sync; without an execution it is the preparation of a statement, once for each connection
		if r.asked {
			r.to.all.Trips++
		}
		r.asked = false
	}
}
