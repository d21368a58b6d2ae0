package network

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const answerTTL = 60 // seconds

// resolve answers questions for names. No question leaves the supervisor: a permitted name has an address of the session's own, and
// is looked up when somebody connects to it.
func (g *Gateway) resolve(s *stream) {
	for {
		_ = s.SetDeadline(time.Now().Add(helloTime))
		var size [2]byte
		if _, err := io.ReadFull(s.r, size[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(s.r, question); err != nil {
			return
		}
		answer, err := g.answer(question)
		if err != nil {
			return
		}
		length := uint16(len(answer)) //nolint:gosec // one short answer
		if _, err := s.Write(append(binary.BigEndian.AppendUint16(nil, length), answer...)); err != nil {
			return
		}
	}
}

func (g *Gateway) answer(question []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(question)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	name := plain(q.Name.String())
	reply := dnsmessage.Message{Header: dnsmessage.Header{
		ID: header.ID, Response: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
	}, Questions: []dnsmessage.Question{q}}
	listed := slices.ContainsFunc(g.o.Permits, func(p Permit) bool { return p.matches(name, p.Port) })
	g.mu.Lock()
	addr, room := g.names.byName[name], true
	if listed {
		addr, room = g.names.give(name)
	}
	g.mu.Unlock()
	switch {
	case !listed || !room:
		reply.RCode = dnsmessage.RCodeNameError
		if !strings.HasSuffix(name, ".arpa") {
			g.refuse("the name "+name, "the name is not listed")
		}
	case q.Type == dnsmessage.TypeA:
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: answerTTL},
			Body:   &dnsmessage.AResource{A: addr.As4()},
		}}
	}
	return reply.Pack()
}
