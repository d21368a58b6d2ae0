package rehearse_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/decide/rehearse"
	"claudeops/internal/ops"
	"claudeops/test/cycletest"
)

const chains = "../testdata/replay/"

// chain reads a recorded chain as the database holds it, and the policy it began with.
func chain(t testing.TB, name string) (ops.Recorded, ops.Policy) {
	t.Helper()
	_, all := cycletest.ReadRecording(t, chains+name+".json")
	return stored(t, all), all[0].Cycle.Policy
}

func stored(t testing.TB, all []decide.Taken) ops.Recorded {
	t.Helper()
	first := all[0].Cycle
	out := ops.Recorded{ID: first.ID, Environment: first.Environment, Options: first.Options, At: all[0].At}
	var record decide.Record
	for i, d := range all {
		raw, err := record.Frame(d.Lean())
		must(t, err)
		out.Steps = append(out.Steps, ops.RecordedStep{N: i + 1, Facts: raw})
		if d.Step.Decision != nil {
			out.Decisions = append(out.Decisions, ops.RecordedDecision{
				Decision: *d.Step.Decision, Family: d.Journal.Session(d.Step.Decision.SessionID).Family,
			})
		}
	}
	return out
}

func under(p ops.Policy, environment string) rehearse.Configuration {
	return rehearse.Configuration{Policies: map[string]ops.Policy{environment: p}}
}

func rehearsed(c ops.Recorded, p ops.Policy) rehearse.Report {
	r := rehearse.New(nil, under(p, c.Environment))
	r.Cycle(c)
	return r.Report()
}

// Whatever was recorded is decided in the same way by the configuration it was recorded under.
func TestTheOwnConfigurationMakesNoDifference(t *testing.T) {
	files, err := filepath.Glob(chains + "*.json")
	if err != nil || len(files) < 50 {
		t.Fatal(len(files), err)
	}
	var sum rehearse.Counts
	for _, file := range files {
		c, p := chain(t, strings.TrimSuffix(filepath.Base(file), ".json"))
		got := rehearsed(c, p)
		if !got.Equal || got.Counts.Steps != len(c.Steps) || got.Counts.Decisions != len(c.Decisions) {
			t.Errorf("%s: %s: %+v", file, got.Summary(), got.Differences)
		}
		sum.Steps += got.Counts.Steps
		sum.Decisions += got.Counts.Decisions
		c.Steps = nil
		if got = rehearsed(c, p); !got.Equal || got.Counts.DecisionOnly != 1 {
			t.Errorf("%s without steps: %+v", file, got)
		}
	}
	if sum.Steps < 200 || sum.Decisions < 50 {
		t.Errorf("only %+v were rehearsed", sum)
	}
}

func TestWhatAChangedSettingWouldChange(t *testing.T) {
	for name, tt := range map[string]struct {
		chain   string
		change  func(*ops.Policy)
		before  string
		after   string
		setting string
	}{
		"a lower maximum tier": {
			"three-tiers-by-handoff", func(p *ops.Policy) { p.MaxTier = 2 }, "starts tier3", "ends needs_human; needs_human by maximum tier", "max_tier",
		},
		"a dry run": {
			"three-tiers-by-handoff", func(p *ops.Policy) { p.DryRun = true }, "starts tier2", "suppressed by dry run", "dry_run",
		},
		"a tier that needs approval": {
			"three-tiers-by-handoff", func(p *ops.Policy) { p.ApprovalTier = 3 }, "starts tier3", "asks a human about tier tier3", "escalation.approval_tier",
		},
		"a route that needs approval": {
			"three-tiers-by-handoff", func(p *ops.Policy) {
				p.Routes = append(slices.Clone(p.Routes), ops.Route{From: "tier1", To: "tier2", Approval: true})
			}, "starts tier2", "asks a human about tier tier2", "escalation.routes",
		},
		"less trust in everything": {
			"three-tiers-by-handoff", func(p *ops.Policy) { p.Trust = ops.TrustSuggest }, "starts tier2", "needs_human by trust", "trust",
		},
		"less trust in a service": {
			"a-probe-starts-it", func(p *ops.Policy) {
				p.Inventory.Services = slices.Clone(p.Inventory.Services)
				for i := range p.Inventory.Services {
					p.Inventory.Services[i].Trust = ops.TrustAsk
				}
			}, "starts tier2", "asks a human about tier tier2", "services",
		},
		"a smaller budget": {
			"three-tiers-by-handoff", func(p *ops.Policy) { p.BudgetChainUSD = 0.001 }, "starts tier2", "blocked by budget", "budget.chain_usd",
		},
		"another model": {
			"healthy", func(p *ops.Policy) {
				p.Handlers = slices.Clone(p.Handlers)
				p.Handlers[0].Model = "another"
			}, "starts tier1", "another", "handlers",
		},
		"no ladder": {
			"rate-limited-twice", func(p *ops.Policy) { p.Recovery.Enabled = false }, "recovery level 1", "ends failed", "recovery",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, p := chain(t, tt.chain)
			tt.change(&p)
			for _, steps := range []bool{true, false} {
				if !steps {
					c.Steps = nil
					if len(c.Decisions) == 0 {
						continue
					}
				}
				got := rehearsed(c, p)
				if len(got.Differences) == 0 {
					t.Fatalf("nothing differs: %+v", got)
				}
				d := got.Differences[len(got.Differences)-1]
				if got.Equal || !strings.HasPrefix(d.Setting, tt.setting) || d.Cycle != c.ID || d.Count != 1 {
					t.Errorf("%s: %+v", got.Summary(), d)
				}
				if steps && (!strings.Contains(d.Before, tt.before) || !strings.Contains(d.After, tt.after) || !d.CutShort || d.Kind != rehearse.KindStep) {
					t.Errorf("%q → %q", d.Before, d.After)
				}
				if !steps && (d.Kind != rehearse.KindDecision || got.Counts.DecisionOnly != 1) {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}

// After a step that differs, nothing that is recorded holds any more; what people are told changes nothing of what follows.
func TestARehearsalEndsWhereTheFactsEnd(t *testing.T) {
	c, p := chain(t, "three-tiers-by-handoff")
	p.MaxTier, p.TellEscalated = 2, true
	got := rehearsed(c, p)
	if len(got.Differences) != 2 || got.Counts.CutShort != 1 || got.Counts.Steps >= len(c.Steps) {
		t.Fatalf("%+v", got)
	}
	told, cut := got.Differences[0], got.Differences[1] // of the same second
	if !cut.CutShort || told.CutShort || told.Step >= cut.Step || !strings.Contains(told.After, "tells escalated") || told.Setting != "notify.routes" {
		t.Errorf("%+v", got.Differences)
	}
}

// Compared with another configuration, only what the two decide differently is a difference.
func TestTwoConfigurationsAreCompared(t *testing.T) {
	c, p := chain(t, "three-tiers-by-handoff")
	strict := p
	strict.MaxTier = 2
	before := under(strict, c.Environment)
	r := rehearse.New(&before, under(strict, c.Environment))
	r.Cycle(c)
	if got := r.Report(); !got.Equal || got.Counts.Departed != 1 {
		t.Errorf("the same twice: %+v", got)
	}
	r = rehearse.New(&before, under(p, c.Environment))
	r.Cycle(c)
	got := r.Report()
	if len(got.Differences) != 1 || !strings.Contains(got.Differences[0].Before, "maximum tier") || got.Differences[0].Setting != "max_tier" {
		t.Errorf("%+v", got)
	}
	r = rehearse.New(&before, rehearse.Configuration{})
	r.Cycle(c)
	if got := r.Report(); len(got.Differences) != 1 || got.Differences[0].Kind != rehearse.KindEnvironment {
		t.Errorf("without the environment: %+v", got)
	}
}

// A new service has no facts; one that is gone is not found to fail any more.
func TestServicesThatComeAndGo(t *testing.T) {
	_, all := cycletest.ReadRecording(t, chains+"a-probe-starts-it.json")
	c, p := stored(t, all), all[0].Cycle.Policy
	p.Inventory.Services = append(slices.Clone(p.Inventory.Services), ops.Service{Name: "new", Probed: true})
	got := rehearsed(c, p)
	if !got.Equal || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "new") {
		t.Errorf("a new service: %+v", got)
	}
	p.Inventory.Services = nil
	if got := rehearsed(c, p); got.Equal {
		t.Errorf("without services: %+v", got)
	}
}

func TestStepsThatCannotBeReadAreCounted(t *testing.T) {
	c, p := chain(t, "healthy")
	c.Steps[1].Facts = []byte(`{"at":"2000-01-01T00:00:00Z","set":{"cycle.Renamed":1},"step":{}}`)
	if got := rehearsed(c, p); !got.Equal || got.Counts.Unreadable != 1 || got.Counts.Steps != 1 {
		t.Errorf("%+v", got)
	}
}

func TestDifferencesAreGrouped(t *testing.T) {
	c, p := chain(t, "three-tiers-by-handoff")
	p.MaxTier = 2
	r := rehearse.New(nil, under(p, c.Environment))
	for id := ops.CycleID(40); id > 0; id-- {
		c.ID = id
		r.Cycle(c)
	}
	got := r.Report()
	if len(got.Differences) != 1 || got.Differences[0].Count != 40 || got.Differences[0].Cycle != 40 {
		t.Errorf("%+v", got.Differences)
	}
	if s := got.Summary(); !strings.Contains(s, "1 different: 40 cycles") || !strings.Contains(s, "40 cycles only up to the difference") {
		t.Error(s)
	}
}

func called(command string, allowed bool) ops.GuardRecord {
	input, _ := json.Marshal(map[string]string{"command": command}) //nolint:errchkjson // a text
	digest := sha256.Sum256(input)
	return ops.GuardRecord{
		At: time.Unix(1e9, 0), CycleID: 7, Tier: ops.Tier2, Gate: ops.GateHook, ToolUseID: "t", Tool: "Bash", Input: string(input),
		Digest: hex.EncodeToString(digest[:]), Allowed: allowed, Rule: "R1",
	}
}

// judging allows commands that contain a word; in the second place it guesses, it allows everything that says "there".
func judging(word string) rehearse.Configuration {
	return rehearse.Configuration{
		Policies: map[string]ops.Policy{"home": {}}, Guesses: 2,
		Judge: func(_ string, g ops.GuardRecord, guess int) rehearse.Verdict {
			return rehearse.Verdict{Allowed: strings.Contains(g.Input, word) || guess == 1 && strings.Contains(g.Input, "there"), Rule: "mine"}
		},
	}
}

func TestToolCallsAreJudgedAgain(t *testing.T) {
	redacted := called("login ***", true)
	redacted.Digest = "of the whole text"
	cooldown := called("restart it", false)
	cooldown.Rule = "cooldown"
	shell := called("good", true)
	shell.Gate = ops.GateShell
	docker := called("GET /info", true)
	docker.Gate = ops.GateDocker
	r := rehearse.New(nil, judging("good"))
	for range 500 {
		r.Call("home", called("bad", true))
	}
	for _, g := range []ops.GuardRecord{
		called("good", false), called("good", true), called("there", true), redacted, cooldown, shell, docker,
	} {
		r.Call("home", g)
	}
	got := r.Report()
	if got.Counts.ToolCalls != 503 || got.Counts.NotJudged != 3 || len(got.Differences) != 2 {
		t.Fatalf("%+v", got)
	}
	for _, d := range got.Differences {
		switch d.Command {
		case "bad":
			if d.Count != 500 || d.Before != "allowed" || d.After != "refused" || d.Setting != "guard rule mine" || d.Tier != ops.Tier2 {
				t.Errorf("%+v", d)
			}
		case "good":
			if d.Count != 1 || d.Before != "refused" || d.After != "allowed" || d.Setting != "guard rule R1" {
				t.Errorf("%+v", d)
			}
		default:
			t.Errorf("%+v", d)
		}
	}
}

// A call whose recorded answer the configuration before does not give either cannot be judged: what it depended on is not recorded.
func TestToolCallsAreComparedWhereTheRecordIsUnderstood(t *testing.T) {
	before := judging("bad")
	r := rehearse.New(&before, judging("good"))
	for _, g := range []ops.GuardRecord{called("bad", true), called("neither", true), called("neither", false), called("there", true)} {
		r.Call("home", g)
	}
	got := r.Report()
	if got.Counts.ToolCalls != 3 || got.Counts.NotJudged != 1 || len(got.Differences) != 1 || got.Differences[0].Command != "bad" {
		t.Errorf("%+v", got)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
