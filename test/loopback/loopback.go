// Package loopback is what the scripted APIs of tests have in common: a server on loopback that records the requests, and
// that ends with the test, also when an answer hangs; and what tests of processes have in common: a free address there, and their output.
package loopback

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
)

const (
	maxBody     = 64 << 20
	maxRequests = 500 // a script that never lets the agent finish ends here
)

// Refusal writes an error as the API does.
type Refusal func(w http.ResponseWriter, status int, message string)

// Server records the calls of a model, which are of the type R.
type Server[R any] struct {
	http   *httptest.Server
	refuse Refusal
	closed chan struct{} // releases the answers that hang

	mu       sync.Mutex
	requests []R
	others   []string
}

// Open starts a server for some routes. What goes elsewhere is noted and not found.
func Open[R any](refuse Refusal, routes func(*http.ServeMux, *Server[R])) *Server[R] {
	s := &Server[R]{refuse: refuse, closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.Note(r)
		refuse(w, http.StatusNotFound, "nothing is served at "+r.URL.Path)
	})
	routes(mux, s)
	s.http = httptest.NewServer(mux)
	return s
}

// Close ends the server and the answers that hang.
func (s *Server[R]) Close() {
	close(s.closed)
	// Closing waits for answers under way, so an agent left behind must not hold one open.
	s.http.CloseClientConnections()
	s.http.Close()
}

// Address is where the server listens, as a URL without a path.
func (s *Server[R]) Address() string { return s.http.URL }

// Requests are the calls of the model so far, in the order they came.
func (s *Server[R]) Requests() []R {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Others are the requests that were not calls of the model, as "METHOD path".
func (s *Server[R]) Others() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.others)
}

// Note records a request that is not a call of the model.
func (s *Server[R]) Note(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.others) < maxRequests {
		s.others = append(s.others, r.Method+" "+r.URL.Path)
	}
}

// Take reads and records a call of the model, which decode makes of its number, from 1, and its body. A call that cannot be
// taken was answered when it returns false.
func (s *Server[R]) Take(w http.ResponseWriter, r *http.Request, decode func(n int, body []byte) (R, error)) (req R, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.refuse(w, http.StatusRequestEntityTooLarge, "read body: "+err.Error())
		return req, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if req, err = decode(len(s.requests)+1, body); err == nil && len(s.requests) >= maxRequests {
		err = fmt.Errorf("the agent made more than %d requests", maxRequests)
	}
	if err != nil {
		s.refuse(w, http.StatusBadRequest, "read request: "+err.Error())
		return req, false
	}
	s.requests = append(s.requests, req)
	return req, true
}

// Hang waits until the client goes away or the test ends.
func (s *Server[R]) Hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.closed:
	}
}
