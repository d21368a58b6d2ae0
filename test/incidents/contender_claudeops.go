package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

// claudeOps is the supervisor, as an operator runs it: `claudeops serve` with a configuration file.
type claudeOps struct {
	name string // which says what is left out

	environ []string // beside that of every contender

	daemon *exec.Cmd
	log    bytes.Buffer
	ended  chan error
}

// wholeName is the name of Claude Ops as it is.
const wholeName = "claudeops"

const (
	quiet     = time.Second            // without work before a run counts as over
	pollEvery = 150 * time.Millisecond // of the API
	stopLimit = 15 * time.Second
)

// Start writes the configuration and starts the daemon.
func (c *claudeOps) Start(ctx context.Context, p *pair) error {
	if err := os.MkdirAll(configDir, 0o755); err != nil {
		return err
	}
	config, err := claudeOpsConfig(p.fault, c.name, p.usesCodex())
	if err != nil {
		return err
	}
	path := filepath.Join(configDir, "claudeops.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return err
	}
	c.daemon = exec.Command("claudeops", "serve", "--config", path) //nolint:noctx // Stop ends it
	c.daemon.Dir = "/root"
	c.daemon.Env = append(p.environ(), "CLAUDEOPS_API_TOKEN="+apiToken, "ANTHROPIC_BASE_URL="+p.claude.URL(), "ANTHROPIC_API_KEY=no-key-is-needed-here",
		"OPENAI_BASE_URL="+p.codex.URL(), "OPENAI_API_KEY=no-key-is-needed-here-either",
		"CLAUDEOPS_APPRISE_API="+p.people.server.URL+"/notify/people")
	c.daemon.Env = append(c.daemon.Env, c.environ...)
	c.daemon.Stdout, c.daemon.Stderr = &c.log, &c.log
	c.ended = make(chan error, 1)
	if err := c.daemon.Start(); err != nil {
		return err
	}
	go func() { c.ended <- c.daemon.Wait() }()
	return c.ready(ctx, p.fault)
}

// ready waits until the daemon serves and every service with a probe was checked.
func (c *claudeOps) ready(ctx context.Context, f *Fault) error {
	for {
		if states, err := c.states(ctx); err == nil && !slices.ContainsFunc(f.probed(), func(name string) bool { return states[name] == "" }) {
			return nil
		}
		select {
		case err := <-c.ended:
			return fmt.Errorf("the daemon ended: %w: %s", err, tail(c.log.Bytes(), 3000))
		case <-ctx.Done():
			return fmt.Errorf("the daemon is not ready: %w: %s", ctx.Err(), tail(c.log.Bytes(), 3000))
		case <-time.After(pollEvery):
		}
	}
}

// states are the services that were checked, with their state.
func (c *claudeOps) states(ctx context.Context) (map[string]string, error) {
	var services items[api.ServiceState]
	err := c.get(ctx, "services", &services)
	states := map[string]string{}
	for _, s := range services.Items {
		if s.CheckedAt != nil {
			states[s.Name] = s.State
		}
	}
	return states, err
}

// items is a list of the API.
type items[T any] struct {
	Items []T `json:"items"`
}

// get reads from the API of the daemon.
func (c *claudeOps) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listenAt+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+apiToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// Wait returns when no cycle has run for a moment, after one has ended and all services are healthy or a human was called; or when none has
// begun for as long as the fault says.
func (c *claudeOps) Wait(ctx context.Context, p *pair) error {
	idleSince := time.Now()
	for {
		var cycles items[api.Cycle]
		if err := c.get(ctx, "cycles", &cycles); err != nil && ctx.Err() == nil {
			return err
		}
		ended := false
		if ctx.Err() != nil {
			return nil // what was reached until now counts
		}
		for _, cycle := range cycles.Items {
			switch {
			case cycle.Status == ops.CycleQueued || cycle.Status == ops.CycleRunning:
				idleSince = time.Now()
			case cycle.CreatedAt.After(p.broken):
				ended = true
			}
		}
		idle := time.Since(idleSince)
		if ended && idle > quiet && c.settled(ctx, p) || idle > time.Duration(p.fault.Watch) {
			return nil
		}
		select {
		case err := <-c.ended:
			return fmt.Errorf("the daemon ended: %w: %s", err, tail(c.log.Bytes(), 3000))
		case <-ctx.Done():
			return nil // what was reached until now counts
		case <-time.After(pollEvery):
		}
	}
}

// settled reports whether the daemon has nothing to do: all is well, or somebody was called.
func (c *claudeOps) settled(ctx context.Context, p *pair) bool {
	var incidents items[api.Incident]
	if c.get(ctx, "incidents", &incidents) == nil && slices.ContainsFunc(incidents.Items, p.called) {
		return true
	}
	states, err := c.states(ctx)
	for _, state := range states {
		if state != string(ops.Healthy) {
			return false
		}
	}
	return err == nil
}

// called reports whether somebody was called about an incident since the fault was broken.
func (p *pair) called(i api.Incident) bool { return i.CalledAt != nil && !i.CalledAt.Before(p.broken) }

// Stop reads what the daemon recorded, and ends it.
func (c *claudeOps) Stop(p *pair) (claim Claim, err error) {
	if c.daemon == nil || c.daemon.Process == nil {
		return claim, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	claim, err = c.claim(ctx, p)
	_ = c.daemon.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(stopLimit):
		_ = c.daemon.Process.Kill()
		err = errors.Join(err, errors.New("the daemon did not stop"))
	}
	if p.Keep {
		err = errors.Join(err, os.WriteFile(filepath.Join(outFolder, "claudeops.log"), c.log.Bytes(), 0o600))
	}
	return claim, err
}

// claim sums up what the daemon recorded.
func (c *claudeOps) claim(ctx context.Context, p *pair) (claim Claim, err error) {
	var cycles items[api.Cycle]
	var sessions items[api.Session]
	var incidents items[api.Incident]
	err = errors.Join(c.get(ctx, "cycles", &cycles), c.get(ctx, "sessions", &sessions), c.get(ctx, "incidents", &incidents))
	claim.End = endHealthy
	slices.SortFunc(cycles.Items, func(a, b api.Cycle) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, cycle := range cycles.Items {
		claim.Decisions = append(claim.Decisions, fmt.Sprintf("cycle %d (%s): %s, %s", cycle.ID, cycle.Trigger, cycle.Status, deref(cycle.Reason)))
		// A cycle is cancelled when its service recovers before it starts: then it claims nothing.
		if cycle.CreatedAt.Before(p.broken) || cycle.Status == ops.CycleCancelled {
			continue
		}
		if claim.Detect == 0 {
			claim.Detect = cycle.CreatedAt.Sub(p.broken).Seconds()
		}
		switch {
		case cycle.Status == ops.CycleResolved:
			claim.End = endResolved
		case cycle.Status == ops.CycleHealthy && claim.End == endResolved:
			// A later look confirms the repair.
		case cycle.Status == ops.CycleHealthy:
			claim.End = endHealthy
		case cycle.Status == ops.CycleSuppressed:
			claim.End = endNone // something holds it back, such as flapping: nothing is claimed
		case cycle.Status.Ended() || cycle.Status == ops.CycleWaitingHuman:
			claim.End = endHuman
		default:
			claim.End = endNone
		}
		if cycle.EndedAt != nil && claim.End == endResolved {
			claim.Repair = cycle.EndedAt.Sub(p.broken).Seconds()
		}
	}
	told, tellErr := c.told(ctx, p)
	claim.Told, err = told, errors.Join(err, tellErr)
	claim.Human = slices.ContainsFunc(told, func(m Message) bool { return m.Call })
	for _, i := range incidents.Items {
		if i.OpenedAt.Before(p.broken) {
			continue
		}
		var whole api.Incident
		if err = errors.Join(err, c.get(ctx, fmt.Sprintf("incidents/%d", i.ID), &whole)); whole.Changed != nil {
			claim.Changed = append(claim.Changed, whole.Changed.Lines[:min(len(whole.Changed.Lines), firstLines)]...)
		}
	}
	for _, s := range sessions.Items {
		if s.CreatedAt.Before(p.broken) {
			continue // of an earlier time
		}
		claim.Sessions++
		claim.Tier = max(claim.Tier, int(s.Tier))
		claim.Dollars += deref(s.CostUSD)
		tokens := deref(s.InputTokens) + deref(s.OutputTokens) + deref(s.CacheReadTokens) + deref(s.CacheWriteTokens)
		claim.Tokens += tokens
		if s.Tier == ops.Tier1 {
			claim.TierOne += tokens
		}
		claim.Decisions = append(claim.Decisions, fmt.Sprintf("session %d, tier %d: %s %s %s", s.ID, s.Tier, s.Status, deref(s.Outcome), deref(s.Error)))
	}
	return claim, err
}

// told is what reached people. News are what they only have to know: that something is down and somebody works on it, and that it is over.
func (c *claudeOps) told(ctx context.Context, p *pair) ([]Message, error) {
	var notices items[api.Notification]
	err := c.get(ctx, "notifications", &notices)
	return p.people.since(p.broken, func(title string) bool {
		return slices.ContainsFunc(notices.Items, func(n api.Notification) bool {
			return n.Title == title && slices.Contains([]ops.NoticeKind{ops.NoticeOpened, ops.NoticeEscalated, ops.NoticeAction, ops.NoticeTrust, ops.NoticeResolved}, n.Kind)
		})
	}), err
}

func deref[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}
