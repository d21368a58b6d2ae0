package cycle_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/cycle"
	"claudeops/internal/ops"
)

func TestWhoMayFollow(t *testing.T) {
	t.Parallel()
	policy := ops.Policy{
		MaxTier: ops.Tier3,
		Handlers: []ops.Handler{
			{ID: "one", Tier: ops.Tier1, Agent: "claude", HandsTo: []string{"person", "two"}},
			{ID: "two", Tier: ops.Tier2, Agent: "claude", HandsTo: []string{"three"}},
			{ID: "three", Tier: ops.Tier3, Agent: "claude"},
			{ID: "person", Tier: ops.HumanTier, Agent: ops.AgentHuman},
			{ID: "judge", Tier: ops.Tier1, Agent: "codex"},
			{ID: "manager", Tier: ops.Tier1, Agent: "command"},
		},
	}
	for name, tt := range map[string]struct {
		from   string
		role   ops.Role
		change func(*ops.Policy)
		want   string
	}{
		"the next tier":                  {"one", "", nil, "two"},
		"the tier after that":            {"two", "", nil, "three"},
		"nobody":                         {"three", "", nil, ""},
		"a judge":                        {"three", "", func(p *ops.Policy) { p.Judge = "judge" }, "judge"},
		"a manager comes first":          {"one", "", func(p *ops.Policy) { p.Manager = "manager" }, "manager"},
		"a dry run hands to nobody":      {"one", "", func(p *ops.Policy) { p.DryRun = true }, ""},
		"the highest tier":               {"one", "", func(p *ops.Policy) { p.MaxTier = ops.Tier1 }, ""},
		"a human is asked first":         {"one", "", func(p *ops.Policy) { p.ApprovalTier = ops.Tier2 }, ""},
		"a human is asked for the route": {"one", "", func(p *ops.Policy) { p.Routes = []ops.Route{{From: "one", To: "two", Approval: true}} }, ""},
		"after an answer":                {"one", ops.RoleJudge, nil, ""},
		"a handler that is gone":         {"other", "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy
			if tt.change != nil {
				tt.change(&p)
			}
			h, _ := p.Handler(tt.from)
			got, ok := cycle.After(p, ops.Session{Handler: tt.from, Tier: h.Tier, Role: tt.role})
			if got.ID != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, %t", got.ID, ok)
			}
		})
	}
}

// Two sessions with one key could not be told apart, and the journal refuses the second.
func TestAKeyIsGivenToOneSession(t *testing.T) {
	h, other := ops.Handler{Tier: ops.Tier2, Agent: "claude"}, ops.Handler{Tier: ops.Tier3, Agent: "claude"}
	if got := cycle.KeysFor(h, other, h, h); !slices.Equal(got, []string{"", "k", ""}) {
		t.Errorf("the keys are %q", got)
	}
}

// preparing is an agent whose sessions can be prepared. It notes when that was, and for which key.
type preparing struct {
	play
	prepared chan preparation
}

type preparation struct {
	key string
	at  time.Time
}

func (p preparing) Stage(_ context.Context, spec ops.SessionSpec) error {
	p.prepared <- preparation{spec.Session.Key, time.Now()}
	return nil
}
func (preparing) Refresh(string)                        {}
func (preparing) Unstage(context.Context, string) error { return nil }

func TestTheNextSessionIsPreparedAfterAHeadStart(t *testing.T) {
	const half = cycle.HeadStart / 2
	for name, tt := range map[string]struct {
		gates   bool
		says    time.Duration // when it says that it is about to end; zero: never
		runs    time.Duration
		prepare time.Duration
	}{
		"a session that runs on":               {runs: time.Second, prepare: cycle.HeadStart},
		"a session that ends sooner":           {runs: half, prepare: half},
		"a gated session that runs on":         {gates: true, runs: time.Second, prepare: cycle.HeadStart},
		"a gated session that is about to end": {gates: true, says: half, runs: time.Second, prepare: half},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var began time.Time
				var keys []string
				prepared := make(chan preparation, 3) // at most one for each tier
				s := newStage(t, policy(), func(s *stage) play {
					return func(_ context.Context, spec ops.SessionSpec) ops.RunResult {
						keys = append(keys, spec.Session.Key)
						if spec.Session.Tier > ops.Tier1 {
							return success()
						}
						began = time.Now()
						if tt.says > 0 {
							<-time.After(tt.says)
							spec.Ending()
						}
						<-time.After(tt.runs - tt.says)
						s.file.raw = handoffJSON(ops.Tier2)
						return success()
					}
				}, func(p *cycle.Parts) {
					p.Runners["claude"] = preparing{p.Runners["claude"].(play), prepared}
					if tt.gates {
						p.Gates = &gates{}
					}
				})
				s.advance(t)
				if len(keys) != 2 || len(prepared) == 0 {
					t.Fatalf("%d sessions ran and %d were prepared", len(keys), len(prepared))
				}
				first := <-prepared
				if after := first.at.Sub(began); after != tt.prepare {
					t.Errorf("the next session was prepared after %s, want %s", after, tt.prepare)
				}
				if first.key != keys[1] {
					t.Error("the next session is not the one that was prepared")
				}
			})
		})
	}
}
