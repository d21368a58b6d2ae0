package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// ctlName is the name under which this program is the tool with which agents work on the service.
const ctlName = "webctl"

// serviceVar tells the tool where the service is.
const serviceVar = "FAULT_SERVICE"

// action is something that was done to the service.
type action struct {
	verb  string
	cycle string
	key   string // of the session
	late  bool   // the service was healthy already
}

// service is down until it is redeployed; a restart alone does not help.
type service struct {
	server *http.Server
	url    string

	mu      sync.Mutex
	healthy bool
	actions []action
	notices int
}

func startService(ctx context.Context) (*service, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start service: %w", err)
	}
	s := &service{url: "http://" + ln.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if !s.well() {
			http.Error(w, "no upstream", http.StatusBadGateway)
		}
	})
	mux.HandleFunc("POST /do/{verb}", s.do)
	mux.HandleFunc("POST /notify", func(http.ResponseWriter, *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.notices++
	})
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(ln) }() // ends with close
	return s, nil
}

func (s *service) close() { _ = s.server.Close() }

func (s *service) well() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.healthy
}

// set breaks or repairs the service from outside.
func (s *service) set(healthy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.healthy = healthy
}

func (s *service) done() []action {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]action(nil), s.actions...)
}

func (s *service) do(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := action{verb: r.PathValue("verb"), cycle: r.Header.Get("X-Cycle"), key: r.Header.Get("X-Key"), late: s.healthy}
	s.actions = append(s.actions, a)
	if a.verb == "redeploy" {
		s.healthy = true
	}
}

// ctl is the tool: get, restart, redeploy.
func ctl(args []string) int {
	if len(args) == 2 && args[0] == "storm" {
		return storm(args[1])
	}
	if len(args) == 1 && args[0] == "print" {
		fmt.Fprintln(os.Stdout, strings.Repeat("output ", printed/7))
		return 0
	}
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: webctl get|restart|redeploy")
		return 2
	}
	client := &http.Client{Timeout: 10 * time.Second}
	base := os.Getenv(serviceVar)
	method, url := http.MethodPost, base+"/do/"+args[0]
	if args[0] == "get" {
		method, url = http.MethodGet, base+"/health"
	}
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(""))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	req.Header.Set("X-Cycle", os.Getenv("CLAUDEOPS_CYCLE_ID"))
	req.Header.Set("X-Key", os.Getenv("CLAUDEOPS_SESSION_KEY"))
	resp, err := client.Do(req)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		fmt.Fprintln(os.Stderr, resp.Status)
		return 1
	}
	return 0
}
