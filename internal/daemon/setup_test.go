package daemon

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// A page gets what is known and never waits; whoever asks gets a look. The key is tested once.
func TestTheStepsOfTheSetUp(t *testing.T) {
	release := make(chan struct{})
	var asked atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1); <-release }))
	defer model.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "claude"), []byte("#!/bin/sh\necho '2.1.325 (Claude Code)'\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	c := &config.Config{Agent: config.Agent{Bin: "claude"}, File: "claudeops.yaml"}
	env := ops.Environment{
		Name: "default", AgentEnv: []string{"PATH=" + dir, "ANTHROPIC_API_KEY=sk-ant-1", "ANTHROPIC_BASE_URL=" + model.URL},
		Policy: ops.Policy{Handlers: []ops.Handler{{ID: "tier1", Agent: "claude"}}},
	}
	changed := make(chan struct{}, 9)
	s := NewSetup(t.Context(), SetupOptions{Config: c, Environments: []ops.Environment{env}, Changed: func() { changed <- struct{}{} }})
	defer func() { _ = s.Close() }()
	for range 3 {
		rows := s.Rows(t.Context(), false)
		if len(rows) != 5 || rows[0].State != api.SetupUnknown || rows[1].State != api.SetupUnknown || !api.SetupIncomplete(rows) {
			t.Fatalf("before the first look: %+v", rows)
		}
	}
	close(release)
	<-changed
	rows := s.Rows(t.Context(), true)
	if rows[0].State != api.SetupDone || rows[0].Detail != filepath.Join(dir, "claude")+", version 2.1.325" || rows[1].State != api.SetupDone || asked.Load() != 1 {
		t.Errorf("%+v after %d tests", rows[:2], asked.Load())
	}
	for i, want := range []string{api.StepService, api.StepTrust, api.StepNotifications} {
		if r := rows[2+i]; r.Step != want || r.State != api.SetupTodo || r.Lines == "" || r.Page == "" {
			t.Errorf("%+v", r)
		}
	}
	env.Policy.Trust, env.Policy.DryRun = ops.TrustSuggest, true
	env.Policy.Inventory.Services = []ops.Service{{Name: "my web"}}
	env.AgentEnv = []string{"PATH=" + t.TempDir(), "ANTHROPIC_API_KEY=sk-ant-your-key"}
	c.AppriseURLs = []string{"ntfy://127.0.0.1:9/secret-topic"}
	other := NewSetup(t.Context(), SetupOptions{Config: c, Environments: []ops.Environment{env}, Changed: func() {}})
	defer func() { _ = other.Close() }()
	rows = other.Rows(t.Context(), true)
	for i, want := range []string{"not installed", "not a key", "1 service is listed, without a probe", "dry run: agents only look", "nothing was delivered"} {
		if !strings.Contains(rows[i].Detail, want) || strings.Contains(rows[i].Detail, "secret-topic") {
			t.Errorf("%+v", rows[i])
		}
	}
	if rows[0].Command != "claudeops agent install" || !rows[0].Blocks || rows[3].Lines != "dry_run: false" || rows[4].Command != TestCommand {
		t.Errorf("%+v", rows)
	}
	other.Environments[0].AgentEnv = nil
	if key := other.keys(t.Context()); key.State != api.SetupTodo || !strings.Contains(key.Lines, "api_key_file: ") {
		t.Errorf("%+v", key)
	}
	other.Environments[0].Policy.DryRun = false
	if trust := other.trust(); trust.State != api.SetupDone || trust.Page != "/services/default/my%20web" || !strings.Contains(trust.Detail, "suggest: agents look") {
		t.Errorf("%+v", trust)
	}
}

// An engine that has never answered is a step that is left to do. One that stopped is an incident, and the set-up is done.
func TestAnEngineThatHasNeverAnsweredIsAStep(t *testing.T) {
	s, err := store.Open(t.Context(), storetest.With(store.Options{Path: storetest.NewFile(t)}))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	env := ops.Environment{Name: "home", Probes: []ops.ProbeSpec{
		{Service: "web", Type: "container", Container: "web"}, {Service: ops.EngineService, Type: ops.ProbeEngine},
	}}
	env.Policy.Inventory.Services = []ops.Service{{Name: "web", Probed: true}, {Name: ops.EngineService, Probed: true}}
	setup := NewSetup(t.Context(), SetupOptions{
		Config: &config.Config{Docker: config.Docker{Socket: "/e.sock"}}, Environments: []ops.Environment{env}, Store: s, Changed: func() {},
	})
	defer func() { must(t, setup.Close()) }()
	h := &plan{ground: &ground{store: s}}
	now := time.Now()
	look := func(status ops.Health, want api.SetupState, answered bool) {
		t.Helper()
		now = now.Add(time.Second)
		states, err := s.Reports.StatesOf(t.Context(), "home", ops.EngineService)
		must(t, err)
		state, _ := health.Observe(append(states, ops.CheckState{})[0],
			ops.Check{At: now, Service: ops.EngineService, Probe: ops.ProbeEngine, Status: status}, health.Thresholds{}, now)
		must(t, s.Watch.RecordResults(t.Context(), "home", nil, nil, []ops.CheckState{state}, nil, nil))
		row := setup.services(setup.unseen(t.Context()))
		if row.State != want || strings.Contains(row.Detail, "/e.sock has never answered, so nothing is known of web") != (want == api.SetupTodo) {
			t.Errorf("after %s: %+v", status, row)
		}
		if got, err := h.engineAnswered(t.Context(), "home"); err != nil || got != answered {
			t.Errorf("after %s it has answered: %t, %v", status, got, err)
		}
	}
	look(ops.Unknown, api.SetupTodo, false)
	look(ops.Healthy, api.SetupDone, true)
	look(ops.Down, api.SetupDone, true)
}
