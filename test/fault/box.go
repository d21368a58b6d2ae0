package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/loopback"
	"claudeops/test/testtoken"
)

// box is a place where the program runs.
type box struct {
	dir      string // short, because sockets lie in it
	state    string
	program  string // the program under trial
	service  *service
	database database
	env      []string // of every start
	more     string   // of the configuration
	scenario string
	ladder   bool // recovery is on
	actions  bool // the service has actions
	refusals bool // the fault makes the gates refuse calls
}

// setup is how a box differs from the usual one.
type setup struct {
	program  string
	ladder   bool   // recovery is on
	actions  bool   // the service has actions
	scenario string // empty: the chain
	more     string // added to the configuration
	state    string // where the state folder is; empty: in the box
	database database
	env      []string
}

func newBox(ctx context.Context, s setup) (b *box, err error) {
	dir, err := os.MkdirTemp("", "fault-")
	if err != nil {
		return nil, fmt.Errorf("make box: %w", err)
	}
	b = &box{dir: dir, program: s.program, more: s.more, scenario: s.scenario, ladder: s.ladder, actions: s.actions}
	defer func() {
		if err != nil {
			b.close(false)
		}
	}()
	if b.scenario == "" {
		b.scenario = chain
	}
	if b.service, err = startService(ctx); err != nil {
		return b, err
	}
	b.state = s.state
	if b.state == "" {
		b.state = b.file("state")
	}
	if b.database = s.database; b.database == nil {
		b.database = sqliteFile{state: b.state}
	}
	self, err := os.Executable()
	if err != nil {
		return b, fmt.Errorf("find myself: %w", err)
	}
	bin := b.file("bin")
	err = errors.Join( // open to everybody, like what people keep: agents see no closed files
		os.Mkdir(bin, 0o755), putProgram(self, filepath.Join(bin, ctlName)), //nolint:gosec // programs
		os.WriteFile(b.file("scenario.yaml"), []byte(b.scenario), 0o644), //nolint:gosec // no secret
		os.WriteFile(b.file("rules.yaml"), []byte(rules+stormRule), 0o600),
		os.WriteFile(b.file("claudeops.yaml"), []byte(settings(b)), 0o600),
	)
	if err != nil {
		return b, fmt.Errorf("fill box: %w", err)
	}
	recovery := "off"
	if s.ladder {
		recovery = "on"
	}
	b.env = append([]string{
		"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "CLAUDEOPS_CONFIG=" + b.file("claudeops.yaml"),
		"CLAUDEOPS_STATE_DIR=" + b.state, "CLAUDEOPS_RECOVERY=" + recovery, "CLAUDEOPS_FAULT_WAITS=settle=200ms",
		serviceVar + "=" + b.service.url, "FAULT_DIR=" + dir, testtoken.Env,
	}, b.database.environ()...)
	b.env = append(b.env, s.env...)
	return b, nil
}

func (b *box) file(name string) string { return filepath.Join(b.dir, name) }

// close ends the box. One that is kept stays to be looked at.
func (b *box) close(keep bool) {
	if b.service != nil {
		b.service.close()
	}
	if keep {
		return
	}
	if b.database != nil {
		_ = b.database.drop()
	}
	_ = os.RemoveAll(b.dir)
}

// cycles reads all cycles with their sessions, the oldest first. Without a database there are none.
func (b *box) cycles(ctx context.Context) ([]store.CycleSummary, error) {
	s, err := b.database.open(ctx)
	if errors.Is(err, ops.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read cycles: %w", err)
	}
	defer func() { _ = s.Close() }() // it was read only
	var out []store.CycleSummary
	for before := ops.CycleID(0); ; before = out[0].ID {
		page, err := s.Reports.Cycles(ctx, store.CycleFilter{Before: before, Limit: 500})
		if err != nil {
			return nil, fmt.Errorf("read cycles: %w", err)
		}
		for _, c := range page {
			out = append([]store.CycleSummary{c}, out...)
		}
		if len(page) < 500 {
			return out, nil
		}
	}
}

// settled reports whether there is a cycle and all have ended.
func (b *box) settled(ctx context.Context) bool {
	cycles, err := b.cycles(ctx)
	if err != nil || len(cycles) == 0 {
		return false
	}
	for _, c := range cycles {
		if !c.Status.Ended() {
			return false
		}
	}
	return true
}

// putProgram puts a program into a box. A symbolic link is not enough: go run may start this program from the build cache, which agents do not see.
func putProgram(program, path string) error {
	if err := os.Link(program, path); err == nil {
		return nil
	}
	raw, err := os.ReadFile(program) //nolint:gosec // this program
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o755) //nolint:gosec // it is run
}

// settings is the configuration of a box.
func settings(b *box) string {
	return fmt.Sprintf(`interval: 1h
agent:
  bin: scripted
  scenario: %q
  env: [%s, FAULT_DIR]
guard:
  rules: %q
sandbox:
  readable: [%q]
notify:
  apprise_api: %q
services:
  - name: web
    methods: [GET, HEAD, POST]
    probes:
      - {type: http, url: "%s/health", timeout: 5s, interval: 1h}
%s%s`, b.file("scenario.yaml"), serviceVar, b.file("rules.yaml"), b.dir, b.service.url+"/notify", b.service.url, b.actionSettings(), b.more)
}

// actionSettings gives the service an action for each of the two verbs. An action does not get the environment of the program.
func (b *box) actionSettings() string {
	if !b.actions {
		return ""
	}
	action := func(name string, tier int, verb string) string {
		return fmt.Sprintf("      - {name: %s, tier: %d, run: [/usr/bin/env, %q, %q, %q, %s]}\n",
			name, tier, serviceVar+"="+b.service.url, "FAULT_DIR="+b.dir, b.file("bin/"+ctlName), verb)
	}
	// An interrupted action stays counted. Two of them must not use up what is allowed.
	return "    actions:\n" + action("patch", 2, "restart") + action("rebuild", 3, "redeploy") + "cooldown: {restarts: 5 per 4h, redeployments: 5 per 24h}\n"
}

// actingChain is the chain whose agents ask the supervisor to act.
func actingChain() string {
	text := replaceOnce(chain, "- bash: 'webctl restart'", "- act: {service: web, action: patch, why: it answers 502}")
	return replaceOnce(text, "- bash: 'webctl redeploy'", "- act: {service: web, action: rebuild, why: a restart did not help}")
}

const rules = `rules:
  - {id: web-get, program: webctl, args: [get], tier: 1, reason: Asking changes nothing.,
     match: [webctl get], not_match: [webctl restart]}
  - {id: web-restart, program: webctl, args: [restart], tier: 2, cooldown: restart, service: web, reason: A restart is safe.,
     match: [webctl restart], not_match: [webctl redeploy]}
  - {id: web-redeploy, program: webctl, args: [redeploy], tier: 3, cooldown: redeployment, service: web, reason: It repairs fully.,
     match: [webctl redeploy], not_match: [webctl restart]}
`

// chain is three tiers: one looks, one restarts in vain, one redeploys. Each looks before it does anything, as an agent that
// was told of an interrupted attempt does.
const chain = `name: three tiers
tiers:
  1:
    cost_usd: 0.02
    steps:
      - when: {bash: 'webctl get', exit: 0}
        steps: [{finish: {result: All is well., outcome: {schema_version: 1, outcome: healthy, summary: it answers,
          check_results: [{service: web, check_type: http, status: healthy, error: ""}], actions: [], events: [], memories: []}}}]
    outcome:
      schema_version: 1
      outcome: escalate
      summary: web answers 502
      check_results: &checks1 [{service: web, check_type: http, status: down, error: HTTP 502}]
      handoff: {schema_version: 1, recommended_tier: 2, reason: it answers 502, services_affected: [web], check_results: *checks1, cooldown_state: {}}
      actions: []
      events: []
      memories: []
    result: web is down.
  2:
    cost_usd: 0.31
    steps:
      - when: {bash: 'webctl get', exit: 0}
        steps: [{finish: &well {result: It answers again., outcome: {schema_version: 1, outcome: resolved, summary: it answers,
          check_results: [{service: web, check_type: http, status: healthy, error: ""}], actions: [], events: [], memories: []}}}]
      - bash: 'webctl restart'
    outcome:
      schema_version: 1
      outcome: escalate
      summary: a restart did not help
      check_results: &checks2 [{service: web, check_type: http, status: down, error: HTTP 502 after a restart}]
      handoff: {schema_version: 1, recommended_tier: 3, reason: a restart did not help, services_affected: [web], check_results: *checks2,
        investigation_findings: it has no upstream, remediation_attempted: restarted it once, cooldown_state: {}}
      actions: [{service: web, action: restart, success: false, detail: still 502}]
      events: []
      memories: []
    result: A restart did not help.
  3:
    cost_usd: 1.20
    steps:
      - when: {bash: 'webctl get', exit: 0}
        steps: [{finish: *well}]
      - bash: 'webctl redeploy'
    outcome: {schema_version: 1, outcome: resolved, summary: redeployed, check_results: [{service: web, check_type: http, status: healthy, error: ""}],
      actions: [{service: web, action: redeploy, success: true, detail: it answers}], events: [], memories: []}
    result: It is redeployed and answers.
`

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

// mode is how the program is run.
type mode string

const (
	modeOnce  mode = "once"
	modeServe mode = "serve"
)

// patience is how long anything may take on a machine that has other things to do.
const patience = 90 * time.Second

// process is a start of the program under trial.
type process struct {
	cmd   *exec.Cmd
	addr  string
	begun time.Time
	out   *output
	done  chan struct{} // closed once it has ended
	ended time.Time
}

// start starts the program in the box.
func (b *box) start(ctx context.Context, m mode, env ...string) (*process, error) {
	p := &process{cmd: exec.Command(b.program, string(m)), out: &output{}, done: make(chan struct{})} //nolint:gosec,noctx // the program under trial
	p.cmd.Dir = b.dir
	p.cmd.Env = append(append([]string{}, b.env...), env...)
	if m == modeServe {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find address: %w", err)
		}
		p.addr = ln.Addr().String()
		if err := ln.Close(); err != nil {
			return nil, fmt.Errorf("find address: %w", err)
		}
		p.cmd.Env = append(p.cmd.Env, "CLAUDEOPS_LISTEN="+p.addr)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.begun = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", m, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its state
		p.ended = time.Now()
		close(p.done)
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// killed reports whether SIGKILL ended it. It must have ended.
func (p *process) killed() bool {
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

func (p *process) code() int { return p.cmd.ProcessState.ExitCode() }

func (p *process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits for its end.
func (p *process) wait() error {
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		p.signal(syscall.SIGQUIT) // it says where it stands
		<-time.After(time.Second)
		p.signal(syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("the program does not end:\n%s", p.out.tail())
	}
}

// until waits for something that becomes true while the program runs. Its end before that is an error.
func (p *process) until(what string, cond func() bool) error { return p.within(patience, what, cond) }

func (p *process) within(limit time.Duration, what string, cond func() bool) error {
	for begun := time.Now(); !cond(); <-time.After(10 * time.Millisecond) {
		if p.over() {
			return fmt.Errorf("%w before: %s\n%s", errEnded, what, p.out.tail())
		}
		if time.Since(begun) > limit {
			return fmt.Errorf("did not come true within %s: %s\n%s", limit, what, p.out.tail())
		}
	}
	return nil
}

var errEnded = errors.New("the program ended")

// get asks a page of a serving program.
func (p *process) get(path string) (int, string) {
	client := &http.Client{Timeout: 20 * time.Second, Transport: testtoken.Transport{}}
	resp, err := client.Get("http://" + p.addr + path) //nolint:noctx // it has a time-out
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// submit asks a serving program for a cycle.
func (p *process) submit(body string) (int, string) {
	return p.post("/api/v1/cycles", body)
}

func (p *process) ready() error {
	return p.until("it is ready", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK })
}

// stop ends a serving program in good order.
func (p *process) stop() error {
	p.signal(syscall.SIGTERM)
	if err := p.wait(); err != nil {
		return err
	}
	if p.code() != 0 {
		return fmt.Errorf("serve exits %d:\n%s", p.code(), p.out.tail())
	}
	return nil
}

// output is what the program printed.
type output struct{ loopback.Output }

func (o *output) tail() string {
	const most = 4000
	text := o.String()
	return text[max(0, len(text)-most):]
}
