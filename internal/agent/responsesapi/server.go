// Package responsesapi is a scripted Responses API on loopback, so that tests can run the real Codex without a key, a
// network or a model. A script decides from the conversation in a request what the model "says" next.
package responsesapi

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

// Script says what the model answers to a request. It is called from several goroutines when several agents run at once,
// and it may block.
type Script func(req Request) Answer

// Server is a Responses API that plays a script.
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
	mux.HandleFunc("POST /v1/responses", s.responses)
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

// URL is the base address for the agent, with the version of the API.
func (s *Server) URL() string { return s.http.URL + "/v1" }

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
	s.mu.Lock()
	if len(s.others) < maxRequests {
		s.others = append(s.others, r.Method+" "+r.URL.Path)
	}
	s.mu.Unlock()
	refuse(w, http.StatusNotFound, "nothing is served at "+r.URL.Path)
}

func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
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
	if !req.Stream {
		refuse(w, http.StatusBadRequest, "only streamed answers are served")
		return
	}
	if !s.record(&req) {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("the agent made more than %d requests", maxRequests))
		return
	}
	// As the real API does: without it a conversation damaged by a resume would go unnoticed.
	if id := req.unanswered(); id != "" {
		refuse(w, http.StatusBadRequest, "No tool output found for function call "+id+".")
		return
	}
	s.play(r.Context(), w, req, s.script(req))
}

// record numbers and keeps a request and reports whether one more is allowed.
func (s *Server) record(req *Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) >= maxRequests {
		return false
	}
	req.N = len(s.requests) + 1
	s.requests = append(s.requests, *req)
	return true
}

// hang waits until the client or the test gives up.
func (s *Server) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.closed:
	}
}
