package story_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"claudeops/internal/ops"
	"claudeops/internal/story"
)

var update = flag.Bool("update", false, "write the golden files again")

func at(second int) time.Time { return time.Date(2026, 9, 28, 14, 0, second, 0, time.UTC) }

// repaired is the story of an outage that Tier 2 repaired, as the demo has it.
func repaired() ops.IncidentStory {
	yes := true
	return ops.IncidentStory{
		Incident: ops.Incident{
			ID: 3, Environment: "default", Service: "web", Title: "web: HTTP 502", Level: ops.LevelWarning, Status: ops.IncidentResolved,
			Occurrences: 1, FirstCycle: 57, LastCycle: 57, OpenedAt: at(20), ResolvedAt: ops.Ptr(at(120)), ResolvedBy: "claudeops",
			Resolution: "cycle 57: Tier 2 repaired it; 1 check confirmed by our own probes",
			Report: []byte(`{"title":"x","checks":[{"service":"web","check_type":"http","status":"down","error":"HTTP 502"}],
				"findings":"the port changed","tried":"restarted web"}`),
		},
		Cycles: []ops.CycleStory{{
			Cycle: ops.Cycle{
				ID: 57, Trigger: ops.TriggerProbe, Status: ops.CycleResolved, Reason: "Tier 2 repaired it", Verified: &yes,
				CreatedAt: at(2), StartedAt: ops.Ptr(at(3)), EndedAt: ops.Ptr(at(120)),
			},
			Journal: ops.Journal{
				Sessions: []ops.Session{
					{
						ID: 117, CycleID: 57, Tier: ops.Tier1, Handler: "tier1", Model: "haiku", Status: ops.SessionCompleted, Outcome: ops.OutcomeEscalate,
						HandoffJSON: []byte(`{"reason":"web answers 502"}`), StartedAt: ops.Ptr(at(4)), EndedAt: ops.Ptr(at(20)),
						Figures: ops.Figures{CostUSD: ops.Ptr(0.02)},
					},
					{
						ID: 118, CycleID: 57, Tier: ops.Tier2, Handler: "tier2", Model: "sonnet", Status: ops.SessionCompleted, Outcome: ops.OutcomeResolved,
						OutcomeJSON: []byte(`{"summary":"set the port to 8090","actions":[{"service":"web","action":"restart","success":true}]}`),
						StartedAt:   ops.Ptr(at(21)), EndedAt: ops.Ptr(at(110)),
					},
				},
				Decisions: []ops.Decision{{SessionID: 117, Verdict: ops.VerdictEscalate, TargetHandler: "tier2", Reason: "Tier 2 is next", At: at(20)}},
				Checks: []ops.Check{
					{At: at(1), Service: "web", Purpose: ops.ProbeObserve, Status: ops.Down, Error: "HTTP 502"},
					{At: at(115), Service: "web", Purpose: ops.ProbeVerify, Status: ops.Healthy},
				},
				Approvals: []ops.Approval{{
					ID: 1, CycleID: 57, Kind: ops.ApprovalTier, Tier: ops.Tier2, Handler: "tier2", Status: ops.ApprovalApproved, Reason: "web answers 502",
					RequestedAt: at(20), AnsweredAt: ops.Ptr(at(21)), AnsweredBy: "ada", Answer: "go on",
				}},
				Runs: []ops.ActionRun{
					{ID: 9, Service: "web", Action: "redeploy", Status: ops.ActionUndone, Does: "compose up web", RequestedAt: at(30), StartedAt: ops.Ptr(at(30))},
					{ID: 10, UndoOf: 9, Service: "web", Action: "redeploy", Status: ops.ActionDone, RequestedAt: at(40), StartedAt: ops.Ptr(at(40))},
				},
			},
			Calls: map[ops.SessionID][]ops.GuardRecord{118: {
				{At: at(25), Tool: "Bash", Input: `{"command":"rm -rf /srv"}`, Reason: "it deletes data"},
				{At: at(26), Tool: "Bash", Input: `{"command":"docker restart web"}`, Allowed: true},
			}},
		}},
		Notices: []ops.Notice{{Title: "Claude Ops: web is down", Status: ops.NoticeSent, CreatedAt: at(2), SentAt: ops.Ptr(at(3)), CycleID: ops.Ptr(ops.CycleID(57))}},
		Events:  []ops.Event{{At: at(60), Verb: ops.VerbIncidentAcknowledged, Actor: ops.Person("ada")}},
	}
}

// waiting is an open incident that waits for a human.
func waiting() ops.IncidentStory {
	s := repaired()
	s.Incident.Status, s.Incident.ResolvedAt, s.Incident.ResolvedBy, s.Incident.Resolution = ops.IncidentOpen, nil, "", ""
	s.Incident.CalledAt = ops.Ptr(at(20))
	s.Incident.Report = []byte(`{"recommendation":"approve or deny that tier2 works on web"}`)
	c := &s.Cycles[0]
	c.Cycle.Status, c.Cycle.EndedAt, c.Cycle.Verified, c.Calls = ops.CycleWaitingHuman, nil, nil, nil
	c.Journal.Sessions, c.Journal.Runs = c.Journal.Sessions[:1], nil
	a := &c.Journal.Approvals[0]
	a.Status, a.AnsweredAt, a.AnsweredBy, a.Answer = ops.ApprovalPending, nil, "", ""
	s.Events = nil
	return s
}

// relapsed is a repair that did not hold, and one that is on probation.
func relapsed() ops.IncidentStory {
	s := repaired()
	second := ops.CycleStory{Cycle: ops.Cycle{
		ID: 58, Trigger: ops.TriggerProbe, Status: ops.CycleResolved, Reason: "Tier 2 repaired it; 1 check confirmed by our own probes", Verified: ops.Ptr(true),
		CreatedAt: at(200), StartedAt: ops.Ptr(at(200)), EndedAt: ops.Ptr(at(240)), ProbationUntil: ops.Ptr(at(840)),
	}}
	s.Cycles[0].Cycle.RefutedAt = ops.Ptr(at(150))
	s.Cycles = append(s.Cycles, second)
	i := &s.Incident
	i.Occurrences, i.LastCycle, i.CalledAt, i.ResolvedAt, i.ProbationUntil = 2, 58, ops.Ptr(at(150)), ops.Ptr(at(240)), ops.Ptr(at(840))
	i.Resolution = "cycle 58: Tier 2 repaired it"
	s.Events = append(s.Events,
		ops.Event{At: at(120), Verb: ops.VerbIncidentOver, Level: ops.LevelInfo, Reason: "cycle 57: Tier 2 repaired it"},
		ops.Event{At: at(150), Verb: ops.VerbIncidentReopened, Level: ops.LevelCritical, Reason: "the repair of cycle 57 did not hold"},
		ops.Event{At: at(240), Verb: ops.VerbIncidentOver, Level: ops.LevelInfo, Reason: "cycle 58: Tier 2 repaired it"})
	return s
}

func TestReports(t *testing.T) {
	for name, rows := range map[string]ops.IncidentStory{"repaired": repaired(), "waiting": waiting(), "relapsed": relapsed()} {
		got := story.Markdown(rows, nil, at(300))
		golden := filepath.Join("testdata", name+".md")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the report differs from %s; read it and run with -update:\n%s", golden, got)
		}
	}
}

func TestAReportBeginsWithWhatChanged(t *testing.T) {
	s := repaired()
	s.Changed = ops.WhatChanged{
		Since: at(-60), Unseen: []string{"packages, attic: no log"},
		Changes: []ops.Change{{At: at(-5), Host: "attic", Kind: ops.ChangeContainer, Subject: "web", Text: "image <a>:1 → b"}},
	}
	got := story.Markdown(s, nil, at(300))
	changed, happened := strings.Index(got, "## What changed before it"), strings.Index(got, "## Findings")
	if changed < 0 || changed > happened || !strings.Contains(got, "attic: container web: image &lt;a&gt;:1 → b\n- not seen: packages, attic: no log\n") {
		t.Errorf("the report is:\n%s", got)
	}
}

func TestTextFromOutsideCannotFormMarkdown(t *testing.T) {
	const hostile = "# Forged\n\n## Forged\n- [Approve](https://evil.example) <script>alert(1)</script> | a | b |\n![x](https://evil.example/x.png) " +
		"https://evil.example www.evil.example mail@evil.example `code` **bold** {\"command\":\"*x*\"} sk-ant-api03-" +
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA topsecretvalue"
	s := repaired()
	s.Incident.Title, s.Incident.Service, s.Incident.Resolution, s.Incident.ResolvedBy = hostile, hostile, hostile, hostile
	c := &s.Cycles[0]
	c.Cycle.Reason = hostile
	c.Journal.Sessions[0].HandoffJSON, c.Journal.Sessions[0].Error = nil, hostile
	c.Journal.Decisions[0].Reason, c.Journal.Decisions[0].Verdict = hostile, ops.VerdictBlocked
	c.Journal.Approvals[0].AnsweredBy, c.Journal.Approvals[0].Answer = hostile, hostile
	c.Journal.Runs[0].Does = "docker run --env A=b_c*d\n```\n````\n" + hostile
	s.Notices[0].Title, s.Events[0].Reason = hostile, hostile
	text := story.Markdown(s, []string{"topsecretvalue"}, at(300))
	if strings.Contains(text, "topsecretvalue") || strings.Contains(text, "sk-ant-api03-AAAA") {
		t.Error("a secret is in the report")
	}
	var page bytes.Buffer
	if err := goldmark.New(goldmark.WithExtensions(extension.GFM)).Convert([]byte(text), &page); err != nil {
		t.Fatal(err)
	}
	// What was run is in a fence, which its text cannot close.
	shown := regexp.MustCompile(`(?s)<pre><code class="language-sh">.*?</code></pre>`).ReplaceAllString(page.String(), "")
	for _, bad := range []string{"<a ", "<img", "<script", "<table", "<code", "<strong", "<em>"} {
		if strings.Contains(shown, bad) {
			t.Errorf("the report has %s:\n%s", bad, page.String())
		}
	}
	if n := strings.Count(page.String(), "<h1>") + strings.Count(page.String(), "<h2>"); n != 6 {
		t.Errorf("%d headings, want 6", n)
	}
}
