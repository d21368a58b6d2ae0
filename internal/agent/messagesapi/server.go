// Package messagesapi is a scripted Messages API on loopback, so that tests can run the real
// Claude Code without a key, a network or a model. A script decides from the conversation in a
// request what the model "says" next.
package messagesapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

const (
	maxBody     = 64 << 20
	maxRequests = 500 // a script that never lets the agent finish ends here
)

// Script says what the model answers to a request. It is called from several goroutines when
// several agents run at once, and it may block.
type Script func(req Request) Answer

// Server is a Messages API that plays a script.
type Server struct {
	http   *httptest.Server
	script Script
	closed chan struct{} // releases the answers that hang

	mu       sync.Mutex
	requests []Request
	others   []string
}

// New starts a server that is closed when the test ends.
func New(t testing.TB, script Script) *Server {
	t.Helper()
	s := &Server{script: script, closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", s.messages)
	mux.HandleFunc("HEAD /{$}", func(_ http.ResponseWriter, r *http.Request) { s.note(r) })
	mux.HandleFunc("/", s.other)
	s.http = httptest.NewServer(mux)
	t.Cleanup(func() {
		close(s.closed)
		// Closing waits for answers under way, so an agent left behind must not hold one open.
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// URL is the base address for the agent.
func (s *Server) URL() string { return s.http.URL }

// Requests are the calls of the model so far, in the order they came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Others are the requests that were no call of the model, as "METHOD path".
func (s *Server) Others() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.others)
}

func (s *Server) other(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	refuse(w, http.StatusNotFound, "nothing is served at "+r.URL.Path)
}

func (s *Server) note(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.others) < maxRequests {
		s.others = append(s.others, r.Method+" "+r.URL.Path)
	}
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "read body: "+err.Error())
		return
	}
	req := Request{Header: r.Header.Clone(), Body: body}
	if err := json.Unmarshal(body, &req); err != nil {
		refuse(w, http.StatusBadRequest, "read request: "+err.Error())
		return
	}
	if !s.record(&req) {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("the agent made more than %d requests", maxRequests))
		return
	}
	// As the real API does: without it a conversation damaged by a resume would go unnoticed.
	if id := req.unpaired(); id != "" {
		refuse(w, http.StatusBadRequest, "tool_use and tool_result blocks do not match: "+id)
		return
	}
	answer := s.script(req)
	s.play(r.Context(), w, req, answer)
}

// record numbers and keeps a request and reports whether one more is allowed.
func (s *Server) record(req *Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.N = len(s.requests) + 1
	if req.N > maxRequests {
		return false
	}
	s.requests = append(s.requests, *req)
	return true
}

// hang waits until the client goes away or the server closes.
func (s *Server) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.closed:
	}
	drop()
}

// drop closes the connection without another byte.
func drop() { panic(http.ErrAbortHandler) }
