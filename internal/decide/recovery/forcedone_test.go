package recovery

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestFinish_HoldsTheContract(t *testing.T) {
	f := failed(func(f *Failure) { f.APIStatus, f.Error = ops.Ptr(401), "the API answered 401: invalid x-api-key" })
	e := Finish(Facts{Failure: f, Class: Classify(f), Completed: []string{"checked web: healthy", " "}})
	raw, err := json.Marshal(e.Result)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	want := []string{"completedSteps", "escalationPath", "failedAt", "failureReason", "recommendation", "status"}
	if got := slices.Sorted(maps.Keys(tree)); !slices.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
	if e.Status != "partial" || !slices.Equal(e.EscalationPath, []ops.RecoveryLevel{5}) || !slices.Equal(e.CompletedSteps, []string{"checked web: healthy"}) ||
		e.FailedAt != "Tier 2 (tier2)" || !strings.Contains(e.FailureReason, "invalid x-api-key") || !e.Partial || e.EscalationLevel != 5 {
		t.Errorf("%+v", e)
	}
	if _, report := ParseForceDone(raw); !report.OK() {
		t.Errorf("the six fields alone are refused: %v", report.Err())
	}
	full, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, report := ParseForceDone(full)
	if !report.OK() || back.Summary != e.Summary || back.FailureReason != e.FailureReason {
		t.Errorf("came back as %+v (%v)", back, report.Err())
	}
}

func TestFinish_AnEmptyListOfStepsIsAList(t *testing.T) {
	raw, err := Finish(Facts{}).Encode()
	if err != nil || !strings.Contains(string(raw), `"completedSteps":[]`) {
		t.Errorf("%s %v", raw, err)
	}
}

func TestEncode_RefusesAnInvalidResult(t *testing.T) {
	if _, err := (Ending{}).Encode(); err == nil {
		t.Error("an invalid result was written")
	}
}

func TestFinish_PathHoldsTheLevelsReallyEntered(t *testing.T) {
	f := ended(func(f *Failure) { f.Outcome = OutcomeMissing })
	history := []ops.Recovery{at(ops.RecoveryNudge, 0), at(ops.RecoveryNudge, 1), at(ops.RecoveryFallback, 2), row1(ops.RecoveryRetry, noon, func(t *ops.Recovery) { t.Tier = 1 })}
	e := Finish(Facts{Failure: f, Class: Classify(f), History: history})
	if !slices.Equal(e.EscalationPath, []ops.RecoveryLevel{2, 4, 5}) || !strings.Contains(e.Summary, "nudge, fallback") {
		t.Errorf("%+v", e)
	}
}

func TestFinish_RecommendsWhatHelpsInThisCase(t *testing.T) {
	for _, c := range []struct {
		name string
		in   Facts
		want []string
	}{
		{"credentials", Facts{Failure: failed(func(f *Failure) { f.APIStatus = ops.Ptr(401) })}, []string{"ANTHROPIC_API_KEY", "claudeops doctor"}},
		{"credit", Facts{Failure: failed(func(f *Failure) { f.APIStatus, f.Error = ops.Ptr(400), "Credit balance is too low" })}, []string{"Add credit"}},
		{"another family", Facts{Failure: failed(func(f *Failure) { f.APIStatus, f.Family = ops.Ptr(401), "codex" })}, []string{"OPENAI_API_KEY"}},
		{"budget of the day", Facts{Failure: stopped("budget", same), Budget: ops.Budget{Whose: ops.BudgetDay, LimitUSD: 25, SpentUSD: 25.1, Environment: "home", FreesAt: noon.Add(12 * time.Hour)}}, []string{"Today $25.10 of $25.00", "in environment home", "starts at 2026-01-03T00:00:00Z", "Raise budget.day_usd"}},
		{"budget of the chain", Facts{Failure: stopped("budget", same), Budget: ops.Budget{Whose: ops.BudgetChain, LimitUSD: 5, SpentUSD: 5}}, []string{"This chain spent $5.00 of $5.00", "the next cycle has", "budget.chain_usd"}},
		{"budget of the session", Facts{Failure: stopped("budget", same), Budget: ops.Budget{Whose: ops.BudgetSession, LimitUSD: 1, SpentUSD: 1.02}}, []string{"$1.02 of $1.00, its own limit", "the next attempt has", "budget_usd of the handler"}},
		{"rate limit", Facts{Failure: failed(func(f *Failure) { f.APIStatus = ops.Ptr(429) })}, []string{"did not say when", "fallback handler"}},
		{"loop", Facts{Failure: stopped("loop", func(f *Failure) { f.Loop = &Loop{Count: 8, Call: "Bash curl -s http://web/"} })}, []string{"curl -s http://web/"}},
		{"refused call", Facts{Failure: ended(func(f *Failure) { f.Outcome, f.Denials = OutcomeMissing, []Denial{{"Bash", "r", "it drops a table"}} })}, []string{"it drops a table"}},
		{"refuted", Facts{Failure: ended(func(f *Failure) { f.ProbeRed = []string{"web"} }), Down: []string{"web"}}, []string{"Look at web", "Still down: web."}},
		{"started", Facts{Failure: stopped("crash", func(f *Failure) { f.Started, f.OpenTool = []string{"docker restart web"}, "Bash" })}, []string{"docker restart web; Bash (was still running)"}},
	} {
		c.in.Class = Classify(c.in.Failure)
		got := Finish(c.in).Recommendation
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", c.name, got, want)
			}
		}
	}
}

func TestFinish_NoClassIsWithoutAdvice(t *testing.T) {
	seen := map[string]string{}
	for _, c := range matrixCases() {
		class := Classify(c.f)
		e := Finish(Facts{Failure: c.f, Class: class})
		if e.Recommendation == "" || e.FailureReason == "" {
			t.Errorf("%s: %+v", c.name, e)
		}
		seen[string(class.ErrorType)] = e.Recommendation
	}
	if len(seen) < 20 {
		t.Errorf("only %d classes seen", len(seen))
	}
}
