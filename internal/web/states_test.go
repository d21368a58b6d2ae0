package web

import (
	"html/template"
	"math"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide/rehearse"
	"claudeops/internal/ops"
	"claudeops/internal/story"
)

// Every state has a word of its own; only what nobody knows has a question mark.
func TestEveryStateHasABadge(t *testing.T) {
	for kind, states := range map[string][]any{
		"cycle": {
			ops.CycleQueued, ops.CycleRunning, ops.CycleWaitingHuman, ops.CycleHealthy, ops.CycleResolved, ops.CycleNeedsHuman,
			ops.CycleSuppressed, ops.CycleBlocked, ops.CyclePartial, ops.CycleFailed, ops.CycleCancelled,
		},
		"session": {
			ops.SessionQueued, ops.SessionRunning, ops.SessionCompleted, ops.SessionFailed, ops.SessionTimedOut, ops.SessionCancelled,
			ops.SessionInterrupted, ops.SessionPartial,
		},
		kindOutcome: {ops.OutcomeHealthy, ops.OutcomeResolved, ops.OutcomeEscalate, ops.OutcomeNeedsHuman},
		"verdict": {
			ops.VerdictEscalate, ops.VerdictRefused, ops.VerdictSuppressed, ops.VerdictBlocked, ops.VerdictNeedsHuman, ops.VerdictApproval,
		},
		kindAction: {
			ops.ActionRequested, ops.ActionStarted, ops.ActionDone, ops.ActionFailed, ops.ActionUndone, ops.ActionInterrupted,
			ops.ActionRefused, ops.PlanPending, ops.PlanApproved, ops.PlanNotApproved, ops.PlanRunning, ops.PlanSkipped,
		},
		kindApproval: {ops.ApprovalPending, ops.ApprovalApproved, ops.ApprovalDenied, ops.ApprovalExpired, ops.ApprovalWithdrawn},
		kindNotice:   {ops.NoticePending, ops.NoticeSent, ops.NoticeDead, ops.NoticeSkipped},
		"incident":   {ops.IncidentOpen, ops.IncidentAcknowledged, ops.IncidentSnoozed, ops.IncidentResolved},
		"level":      {ops.LevelInfo, ops.LevelWarning, ops.LevelCritical},
		kindStep: {
			story.StepDetected, story.StepLooked, story.StepTried, story.StepUndone, story.StepRefused, story.StepAsked, story.StepAnswered,
			story.StepRepaired, story.StepVerified, story.StepStillWrong, story.StepTold, story.StepNothingTried,
		},
	} {
		for _, state := range states {
			if shown := stateOf(kind, words(state)); shown.Icon == "circle-question-mark" || shown.Word == "" {
				t.Errorf("%s %v is shown as %+v", kind, state, shown)
			}
		}
	}
	if got := stateOf("", "new\x1b[31m"); got != (badge{"unknown", "circle-question-mark", "new"}) {
		t.Errorf("an unknown state is shown as %+v", got)
	}
}

func TestAHostsStatusIsAWord(t *testing.T) {
	soon := time.Now()
	for want, h := range map[string]ops.Host{
		"Alive":          {Alive: true, ExpiresAt: &soon},
		"Draining":       {Alive: true, Draining: true, ExpiresAt: &soon},
		"Not responding": {ExpiresAt: &soon},
		"Stopped":        {Draining: true},
	} {
		if got := hostBadge(h); got.Word != want || got.Icon == "" {
			t.Errorf("%+v is shown as %+v", h, got)
		}
	}
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for top, want := range map[float64]float64{0: 1, 0.004: 0.001, 0.9: 0.2, 1: 0.2, 1.2: 0.25, 3.15: 1, 5.2: 2, 42: 10, 100: 20, 1234: 250} {
		got := tick(top)
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("tick of %v is %v, want %v", top, got, want)
		}
		if parts := math.Ceil(top / got); top > 0 && (parts < 2 || parts > 6) {
			t.Errorf("%v is divided into %v parts", top, parts)
		}
	}
}

func TestStackedBarsStayInTheirPicture(t *testing.T) {
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	days := []time.Time{begin, begin.AddDate(0, 0, 1), begin.AddDate(0, 0, 2)}
	p := stackedBars("id", `Cost of "<all>"`, days, []series{
		{Name: "Tier 1", Class: "stack-1", USD: []*float64{ops.Ptr(1.0), nil, ops.Ptr(0.0)}},
		{Name: "<b>", Class: "stack-2", USD: []*float64{ops.Ptr(3.0), nil, ops.Ptr(0.5)}},
	})
	svg := string(p.SVG)
	if got := strings.Count(svg, "<rect"); got != 3 {
		t.Errorf("%d parts are drawn, want 3", got)
	}
	for _, bad := range []string{"<b>", `"<all>"`, "NaN", "Inf", "style=", `height="-`, `y="-`} {
		if strings.Contains(svg, bad) {
			t.Errorf("the drawing contains %q", bad)
		}
	}
	// The highest bar fills the picture: $3 of it stand between the line of $4 and that of $1.
	for _, want := range []string{`y="10" `, "1 Nov, Tier 1: $1.00", "&lt;b&gt;", "<title>Cost of", ">$4<", ">$0<", "3 Nov"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the drawing does not contain %q\n%s", want, svg)
		}
	}
	want := [][]string{{"2026-11-03", "$0.00", "$0.50"}, {"2026-11-02", "–", "–"}, {"2026-11-01", "$1.00", "$3.00"}}
	for i, row := range want {
		if strings.Join(p.Rows[i], "|") != strings.Join(row, "|") {
			t.Errorf("row %d is %v, want %v", i, p.Rows[i], row)
		}
	}
}

func TestADrawingWithoutCostsIsStillADrawing(t *testing.T) {
	svg := string(stackedBars("id", "Costs", []time.Time{time.Unix(0, 0)}, nil).SVG)
	if strings.Contains(svg, "NaN") || !strings.Contains(svg, ">$0<") {
		t.Errorf("drew %s", svg)
	}
}

// A page that changes the configuration shows what it would have changed before it is saved.
func TestARehearsalIsShown(t *testing.T) {
	pages := loadPages(loadAssets(), time.Now, func(text string) template.HTML { return template.HTML(text) }) //nolint:gosec // not used here
	report := rehearse.Report{
		Counts: rehearse.Counts{Cycles: 7, ToolCalls: 3, NotJudged: 2},
		Differences: []rehearse.Difference{
			{Before: "starts tier2", After: "ends <needs_human>", Setting: "max_tier", Count: 4, Cycle: 12, Step: 3, At: time.Now(), CutShort: true},
			{Kind: rehearse.KindToolCall, Before: "allowed", After: "refused", Command: "docker logs web", Tier: ops.Tier1, Count: 500, Cycle: 9, At: time.Now()},
		},
		Notes: []string{"nothing is recorded of new"},
	}
	var page strings.Builder
	if err := pages["config"]().ExecuteTemplate(&page, "rehearsal", report); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"What would this change?", "2 different: 7 cycles", "2 tool calls cannot be judged", `href="/cycles/12"`, "step 3", "because of max_tier",
		"ends &lt;needs_human&gt;", "what follows cannot be rehearsed", "docker logs web", "500 ×", "nothing is recorded of new",
	} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("%q is missing in\n%s", part, page.String())
		}
	}
}
