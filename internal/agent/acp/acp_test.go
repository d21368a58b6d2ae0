package acp_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/agent/acp"
	"claudeops/internal/ops"
	"claudeops/test/acptest"
	"claudeops/test/agenttest"
)

func TestMain(m *testing.M) {
	acptest.RunIfAgent()
	os.Exit(m.Run())
}

// memory keeps trials.
type memory struct {
	mu   sync.Mutex
	kept map[string]ops.Canary
}

func (m *memory) Canary(_ context.Context, profile, version, settings string) (ops.Canary, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.kept[profile+version+settings]; ok {
		return c, nil
	}
	return ops.Canary{}, ops.ErrNotFound
}

func (m *memory) SaveCanary(_ context.Context, c ops.Canary) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[string]ops.Canary{}
	}
	m.kept[c.Profile+c.Version+c.Settings] = c
	return nil
}

// guard allows the commands that are listed.
type guard struct {
	mu      sync.Mutex
	allow   []string
	asked   []ops.ToolQuestion
	allowed map[string]bool
}

func (g *guard) spec() *ops.GateSpec {
	return &ops.GateSpec{
		Ask: func(q ops.ToolQuestion) (bool, string) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.asked = append(g.asked, q)
			ok := slices.ContainsFunc(g.allow, func(c string) bool { return string(q.Input) == `{"command":"`+c+`"}` })
			if ok {
				if g.allowed == nil {
					g.allowed = map[string]bool{}
				}
				g.allowed[q.ID] = true
			}
			return ok, "It is not allowed here."
		},
		Allowed: func(id string) bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.allowed[id]
		},
	}
}

// run runs one session of an agent that does one thing.
type scene struct {
	what   acptest.What
	with   string
	allow  []string
	trust  *memory // nil: every version is trusted
	walls  func(string) agent.Walls
	late   bool
	change func(*ops.SessionSpec)
}

func (s scene) run(t *testing.T) (ops.RunResult, string, *guard) {
	t.Helper()
	g := &guard{allow: s.allow}
	spec := ops.SessionSpec{
		Session: ops.Session{ID: 5, CycleID: 3, Tier: ops.Tier1, Model: "m", Handler: "other", Key: "test-" + uuid.NewString()},
		Prompt:  "look around", StateDir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}, Gate: g.spec(),
		Limits: ops.Limits{Wall: time.Minute, Idle: time.Minute, Tool: time.Minute, Grace: time.Second},
	}
	if s.change != nil {
		s.change(&spec)
	}
	o := acp.Options{Profile: acp.Profile{
		Name: "fake", Command: acptest.Command(t, s.what, s.with), Record: "{home}/conversations/{id}.json", AsksLate: s.late,
	}}
	if s.trust != nil {
		o.Trust = s.trust
	}
	rec := &agenttest.Recorder{}
	res := acp.NewRunner(acp.New(o), agent.Options{Walls: s.walls}).Run(t.Context(), spec, rec)
	if killed, err := agent.Sweep(context.Background(), spec.Session.Key); err != nil || killed > 0 {
		t.Errorf("the session left %d processes (%v)", killed, err)
	}
	return res, rec.Text(), g
}

func TestAnAllowedCallRuns(t *testing.T) {
	t.Parallel()
	res, _, g := scene{what: acptest.Runs, with: "echo hello", allow: []string{"echo hello"}}.run(t)
	if !res.Success() || !strings.Contains(res.Text, "ran: hello") || len(g.asked) != 1 || g.asked[0].Tool != "Bash" || g.asked[0].ID != "call_1" {
		t.Errorf("result %+v, asked %+v", res, g.asked)
	}
}

func TestARefusedCallDoesNotRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ran")
	res, _, g := scene{what: acptest.Runs, with: "touch " + file}.run(t)
	if !res.Success() || res.Text != "it was refused" || len(g.asked) != 1 {
		t.Errorf("result %+v, asked %+v", res, g.asked)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("it ran")
	}
}

// An agent whose turn ends after a refusal is told why, because the answer to a question has no place for it.
func TestTheReasonOfARefusalReachesTheAgent(t *testing.T) {
	t.Parallel()
	res, text, _ := scene{what: acptest.Runs, with: "reboot", change: func(s *ops.SessionSpec) { s.OutcomeJSON = `{"type":"object"}` }}.run(t)
	if !res.Success() || *res.NumTurns != 2 || !strings.Contains(string(res.Structured), "It is not allowed here.") {
		t.Errorf("result %+v\n%s", res, text)
	}
}

func TestACallThatWasNotAllowedEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]scene{
		"it does not ask":                    {what: acptest.Unasked, with: "true"},
		"it does not ask, and tells it late": {what: acptest.Unasked, with: "true", late: true},
		"it does not take a no":              {what: acptest.Obstinate, with: "true"},
		"it runs something else":             {what: acptest.Swaps, with: "echo bad", allow: []string{"ls"}},
		"it asks for two things at once":     {what: acptest.AsksTwice, with: "echo bad", allow: []string{"ls"}},
		"it runs a call again":               {what: acptest.Again, allow: []string{"ls"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, _, _ := s.run(t)
			if res.Stop != ops.StopInvariant || res.Failure != ops.FailureInvariant || !strings.Contains(res.Err, "call_1") {
				t.Errorf("result %+v", res)
			}
		})
	}
}

func TestOnlyOneCallIsEverAllowed(t *testing.T) {
	t.Parallel()
	for what, with := range map[acptest.What]string{acptest.Always: "ls", acptest.Kinds: ""} {
		res, _, _ := scene{what: what, with: with, allow: []string{"ls"}}.run(t)
		if !res.Success() || res.Text != "allowed: false" {
			t.Errorf("%s: %+v", what, res)
		}
	}
}

// A model is set where its name is a value that the CLI takes, not where it is only what people call it.
func TestTheModelIsSetByItsValue(t *testing.T) {
	t.Parallel()
	for model, says := range map[string]string{"m": "the usual one", "big": "I am big", "Big": "the usual one"} {
		res, _, _ := scene{what: acptest.Answer, with: "the usual one", change: func(s *ops.SessionSpec) { s.Session.Model = model }}.run(t)
		if !res.Success() || res.Text != says {
			t.Errorf("%s: %+v", model, res)
		}
	}
}

// The supervisor decides about its own tools when they are called, so a CLI may keep their input from the question.
func TestTheSupervisorsToolsAreJudgedByName(t *testing.T) {
	t.Parallel()
	g := &guard{}
	res, _, _ := scene{what: acptest.Own, change: func(s *ops.SessionSpec) {
		s.Gate = g.spec()
		s.Gate.Ask = func(q ops.ToolQuestion) (bool, string) { return q.Tool == "mcp__claudeops__services_status", "no" }
	}}.run(t)
	if !res.Success() || res.Text != "called it" {
		t.Errorf("result %+v", res)
	}
}

func TestTwoRequestsWithOneID(t *testing.T) {
	t.Parallel()
	res, _, g := scene{what: acptest.SameIDs, with: "reboot", allow: []string{"ls", "reboot"}}.run(t)
	if res.Text != "true allow_once; false ;" || len(g.asked) != 1 || len(res.Warnings) == 0 {
		t.Errorf("result %+v, asked %+v", res, g.asked)
	}
}

func TestGarbageChangesNothing(t *testing.T) {
	t.Parallel()
	res, _, _ := scene{what: acptest.Garbage}.run(t)
	if !res.Success() || res.Text != "still here" || len(res.Warnings) == 0 {
		t.Errorf("result %+v", res)
	}
}

func TestTheClientOffersNoFilesAndNoTerminals(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "written")
	res, _, _ := scene{what: acptest.Reaches, with: file}.run(t)
	if !res.Success() || strings.Count(res.Text, "-32601") != 4 {
		t.Errorf("result %+v", res)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("it was written")
	}
}

func TestAQuestionAfterTheEndIsNotAnswered(t *testing.T) {
	t.Parallel()
	res, _, g := scene{what: acptest.Late, with: "ls", allow: []string{"ls"}}.run(t)
	if !res.Success() || len(g.asked) != 0 {
		t.Errorf("result %+v, asked %+v", res, g.asked)
	}
}

func TestTheTrialOfAVersion(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		what   acptest.What
		kept   bool
		passed bool
		says   string
	}{
		"asks":                   {acptest.Answer, true, true, ""},
		"does not ask":           {acptest.Unasked, true, false, "it ran a command without asking"},
		"does not take a no":     {acptest.Obstinate, true, false, "although it was refused"},
		"shows nothing":          {acptest.Lazy, false, false, "showed nothing"},
		"has a model that fails": {acptest.Fail, false, false, "the API answered 500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trust := &memory{}
			s := scene{what: tt.what, with: "all is well", trust: trust}
			res, text, _ := s.run(t)
			if res.Success() != tt.passed || !strings.Contains(res.Err, tt.says) {
				t.Errorf("result %+v", res)
			}
			if strings.Contains(text, "claudeops-canary") {
				t.Errorf("the trial is in the transcript:\n%s", text)
			}
			if !tt.kept {
				if len(trust.kept) != 0 {
					t.Errorf("kept %+v", trust.kept)
				}
				return
			}
			for _, c := range trust.kept {
				if c.Passed != tt.passed || c.Profile != "fake" || c.Version != acptest.Version || c.Detail == "" || c.At.IsZero() {
					t.Errorf("kept %+v", c)
				}
			}
			if len(trust.kept) != 1 {
				t.Fatalf("kept %+v", trust.kept)
			}
			if tt.passed && (res.CostUSD == nil || *res.CostUSD != 0.5) {
				t.Errorf("the trial and the session cost %v", res.CostUSD)
			}
			again, _, _ := s.run(t)
			if tt.passed && (again.CostUSD == nil || *again.CostUSD != 0.25) {
				t.Errorf("it was tried again: %+v", again)
			}
			if again.Success() != tt.passed {
				t.Errorf("again %+v", again)
			}
		})
	}
}

// A version that passed its trial and runs something unasked later is not trusted any more.
func TestTrustIsLost(t *testing.T) {
	t.Parallel()
	trust := &memory{}
	s := scene{what: acptest.AsksTwice, with: "echo bad", allow: []string{"ls"}, trust: trust}
	first, _, _ := s.run(t)
	second, _, _ := s.run(t)
	if first.Failure != ops.FailureInvariant || second.Failure != ops.FailureTooOld || !strings.Contains(second.Err, "does not run at any tier") {
		t.Errorf("first %+v, second %+v", first, second)
	}
}

func TestWhereItDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*ops.SessionSpec)
		walls  func(string) agent.Walls
		class  ops.FailureClass
	}{
		"without the guard":                       {func(s *ops.SessionSpec) { s.Gate = nil }, nil, ops.FailureGate},
		"above Tier 1 without walls":              {func(s *ops.SessionSpec) { s.Session.Tier = ops.Tier2 }, nil, ops.FailureLayer},
		"above Tier 1, another layer":             {func(s *ops.SessionSpec) { s.Session.Tier = ops.Tier3 }, func(string) agent.Walls { return paper{"uid"} }, ops.FailureLayer},
		"above Tier 1 with walls":                 {func(s *ops.SessionSpec) { s.Session.Tier = ops.Tier2 }, func(string) agent.Walls { return paper{acp.LayerLandlock} }, ""},
		"a Tier 2 with the permissions of Tier 1": {func(s *ops.SessionSpec) { s.Session.Tier, s.Session.Permissions = ops.Tier2, ops.Tier1 }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, _, _ := scene{what: acptest.Answer, with: "fine", change: tt.change, walls: tt.walls}.run(t)
			if res.Failure != tt.class || res.Success() != (tt.class == "") {
				t.Errorf("result %+v", res)
			}
		})
	}
}

// paper are walls that hold nothing.
type paper struct{ layer string }

func (p paper) Layers(ops.Tier) []string                              { return []string{p.layer} }
func (paper) Prepare(ops.Tier) error                                  { return nil }
func (paper) Wrap(_ ops.Tier, p agent.Program) (agent.Program, error) { return p, nil }
func (paper) Collect(ops.Tier) error                                  { return nil }
func (paper) GatesShells(ops.Tier) bool                               { return false }
