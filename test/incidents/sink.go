package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// sink is the person's end: what reaches people arrives here, and only that counts as told. It takes what an Apprise API server takes.
type sink struct {
	server *httptest.Server
	mu     sync.Mutex
	got    []Message
}

// Message is what reached a person.
type Message struct {
	At    time.Time `json:"at"`
	Title string    `json:"title"`
	Body  string    `json:"body"`
	Call  bool      `json:"call"` // somebody is asked to do something
}

func openSink() *sink {
	s := &sink{}
	s.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m Message
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &m) != nil {
			return
		}
		m.At = time.Now()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, m)
	}))
	return s
}

// since are the messages since a time. A message asks for something unless news knows its title.
func (s *sink) since(t time.Time, news func(title string) bool) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.got {
		if m.At.After(t) {
			m.Call = !news(m.Title)
			out = append(out, m)
		}
	}
	return out
}
