package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// brokenService is a scenario in which the service web is down until one of the handlers writes the word up into its state file. The
// others find it down and hand it to the next tier.
func brokenService(state string, repairs ops.Tier) string {
	var b strings.Builder
	b.WriteString("name: web is down\ntiers:\n")
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		fmt.Fprintf(&b, "  %d:\n    cost_usd: 0.01\n    steps:\n", int(tier))
		fmt.Fprintf(&b, "      - when: {bash: 'grep -qx up %s', exit: 0}\n        steps: [{finish: {result: web is up., outcome: %s}}]\n",
			state, reported("healthy", "web is up", "healthy", ""))
		if tier == repairs {
			fmt.Fprintf(&b, "      - bash: 'echo up > %s'\n", state)
			fmt.Fprintf(&b, "    result: I repaired web.\n    outcome: %s\n", reported("resolved", "web is up again", "healthy", ""))
			continue
		}
		handoff := fmt.Sprintf(`{schema_version: 1, recommended_tier: %d, reason: web is down, services_affected: [web], `+
			`check_results: [{service: web, check_type: service, status: down, error: its state is down}], cooldown_state: {}, `+
			`investigation_findings: its state file says down, remediation_attempted: nothing is permitted here}`, int(tier)+1)
		fmt.Fprintf(&b, "    result: web is down.\n    outcome: %s\n", reported("escalate", "web is down", "down", handoff))
	}
	b.WriteString("roles:\n  manager: {outcome: {target: database, reason: its state is data}}\n")
	return b.String()
}

func reported(kind, summary, health, handoff string) string {
	problem := ""
	if health == "down" {
		problem = "its state is down"
	}
	out := fmt.Sprintf(`{schema_version: 1, outcome: %s, summary: %s, check_results: [{service: web, check_type: service, status: %s, error: %q}], `+
		`actions: [], events: [], memories: []`, kind, summary, health, problem)
	if handoff != "" {
		out += ", handoff: " + handoff
	}
	return out + "}"
}

// Each example runs as it is: only the programs of the agents are replaced by the scripted one, and the address of the people by ours.
func TestExamples_RunToTheEndThatTheyPromise(t *testing.T) {
	for name, want := range map[string]struct {
		repairs  ops.Tier
		first    int // how the first run exits
		told     bool
		answer   []string // what a person does then
		handlers string
	}{
		"default.yaml":             {repairs: 3, handlers: "tier1 tier2 tier3"},
		"manager.yaml":             {repairs: 3, handlers: "watcher dispatcher database surgeon"},
		"approval.yaml":            {repairs: 3, first: 6, told: true, answer: []string{"approvals", "approve", "1"}, handlers: "watcher fixer surgeon"},
		"cross-family-review.yaml": {first: 6, told: true, answer: []string{"incidents", "resolve", "1"}, handlers: "watcher reviewer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told atomic.Int64
			people := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told.Add(1) }))
			defer people.Close()
			b, config := exampleBox(t, name, want.repairs, people.URL+"/notify/x")
			// The scripted agent is held by the guard, so it needs no sandbox, which not every machine that tests can make.
			once := []string{"once", "--config", config, "--agent-scenario", filepath.Join(b.state, "scenario.yaml"), "--sandbox-bubblewrap=off"}
			if r := b.run(once...); r.code != want.first {
				t.Fatalf("once exits %d, want %d\n%s%s", r.code, want.first, r.stdout, r.stderr)
			}
			if (told.Load() > 0) != want.told {
				t.Errorf("people were told %d times", told.Load())
			}
			if want.answer != nil {
				if r := b.run(append(want.answer, "--config", config)...); r.code != 0 {
					t.Fatalf("%q exits %d: %s", want.answer, r.code, r.stderr)
				}
				b.run(once...) // finishes the open cycle
			}
			b.read(func(s *store.Store) {
				c, err := s.Load(t.Context(), 1)
				must(t, err)
				var handlers []string
				for _, x := range c.Journal.Sessions {
					handlers = append(handlers, x.Handler)
				}
				if got := strings.Join(handlers, " "); got != want.handlers || c.Cycle.Status != ops.CycleResolved {
					t.Errorf("%s worked and the cycle is %s (%s), want %s", got, c.Cycle.Status, c.Cycle.Reason, want.handlers)
				}
			})
			b.replay()
		})
	}
}

// exampleBox is a box for an example, with a service that is down and the scenario that goes with it.
func exampleBox(t *testing.T, name string, repairs ops.Tier, people string) (b *box, config string) {
	t.Helper()
	config, err := filepath.Abs(filepath.Join("../../examples", name))
	must(t, err)
	repos := t.TempDir()
	state := filepath.Join(repos, "infra", "web.state")
	b = &box{t: t, state: privateFolder(t)}
	b.env = []string{
		quickExit, "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir(), "CLAUDEOPS_STATE_DIR=" + b.state,
		"CLAUDEOPS_REPOS_DIR=" + repos, "CLAUDEOPS_CLAUDE_BIN=scripted", "CLAUDEOPS_CODEX_BIN=scripted", "CLAUDEOPS_APPRISE_API=" + people,
	}
	b.furnish()
	must(t, os.MkdirAll(filepath.Join(repos, "infra", ".git"), 0o755))
	for path, text := range map[string]string{state: "down\n", filepath.Join(b.state, "scenario.yaml"): brokenService(state, repairs)} {
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return b, config
}
