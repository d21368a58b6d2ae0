package browsertest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/web"
)

// fails records that a service failed its checks: one of three, or all of them.
func (j *journal) fails(service, message string, failed int) {
	j.t.Helper()
	check := ops.Check{
		At: j.now, Environment: "default", Purpose: ops.ProbeWatch, Service: service, Probe: "http", Type: "http", Status: ops.Down, Error: message,
	}
	state := ops.CheckState{Service: service, Probe: "http", Last: check, Since: j.now, Began: j.now, Bad: failed, Downs: failed, FailAfter: 3}
	state.Level = ops.Healthy
	if failed >= 3 {
		state.Level = ops.Down
	}
	j.must(j.store.Watch.RecordResults(j.t.Context(), "default", []ops.Check{check}, nil, []ops.CheckState{state}, nil, nil))
}

// cause starts the cycle of services that are down.
func (j *journal) cause(reason string, services ...string) ops.CycleID {
	j.t.Helper()
	got, _, err := j.store.Watch.OpenCause(j.t.Context(), ops.Cause{
		Key: services[0], Environment: "default", Services: services, Level: ops.Down, Reason: reason, Began: j.now, At: j.now,
	}, ops.NewCycle{Environment: "default", Trigger: ops.TriggerProbe, At: j.now}, nil, nil, j.now)
	j.must(err)
	_, err = j.store.Journal.Claim(j.t.Context(), j.owner, got.Cycle, policy(), j.now)
	j.must(err)
	return got.Cycle
}

// past is a day with a healthy check every hour.
func (j *journal) past() {
	end := j.now
	for hour := 20; hour > 0; hour-- {
		j.now = end.Add(-time.Duration(hour) * time.Hour)
		status := ops.CycleHealthy
		if hour == 7 {
			status = ops.CyclePartial
		}
		j.play(j.begin(ops.NewCycle{}), ops.Step{Kind: ops.StepFinish, Status: status, Reason: "All services answer."},
			run{handler: observer, takes: 20 * time.Second, outcome: ops.OutcomeHealthy, summary: "All services answer.", cost: 0.01, turns: 3})
	}
	j.now = end
}

// scene is the overview in one situation.
type scene struct {
	name   string
	tell   func(j *journal)
	change func(o *web.Options)
	sees   []string
}

func walls(missing bool) func(*web.Options) {
	return func(o *web.Options) {
		o.Environments = o.Environments[:1]
		rows := []web.Wall{{Name: "landlock", State: "on"}}
		if missing {
			rows = append(rows, web.Wall{Name: "seccomp", State: "missing", Missing: true})
		}
		o.Walls = func() []web.Wall { return rows }
		next := time.Now().Add(40 * time.Minute)
		o.NextCheck = func() map[string]time.Time { return map[string]time.Time{"default": next} }
	}
}

func scenes() []scene {
	asks := ops.Step{
		Kind: ops.StepAwait, Reason: "Tier 3 must replace the certificate.", Incident: &ops.IncidentReport{
			Title: "web does not answer", Level: ops.LevelCritical, Class: "unresolved", Services: []string{"web"}, Waits: true,
		},
		Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: 3, Handler: "tier3", Reason: "A restart did not help.", ExpiresAt: ops.Ptr(time.Now().Add(20 * time.Minute))},
	}
	return []scene{
		{"empty", func(*journal) {}, func(o *web.Options) { o.Environments = []ops.Environment{{Name: "default", Interval: time.Hour}} }, []string{"No checks yet", "Run first check"}},
		{"set-up", func(*journal) {}, func(o *web.Options) {
			o.Setup = func(context.Context, bool) []api.SetupRow {
				return []api.SetupRow{
					{Step: api.StepAgent, State: api.SetupTodo, Blocks: true, Detail: `"claude" is not installed`, Next: "Install it", Command: "npm install -g @anthropic-ai/claude-code"},
					{Step: api.StepKey, State: api.SetupUnknown, Detail: "CLAUDE_CODE_OAUTH_TOKEN not tested: the token of a subscription takes no free request"},
					{Step: api.StepService, State: api.SetupTodo, Detail: "nothing is watched", Next: "Add your first service", Lines: "services:\n  - name: web\n    probes:\n      - {type: http, url: \"http://127.0.0.1:80/\", expect_status: 200}", Page: "/services"},
					{Step: api.StepTrust, State: api.SetupDone, Detail: "suggest: agents look and propose"},
					{Step: api.StepNotifications, State: api.SetupTodo, Detail: "ntfy.sh/x: nothing was delivered yet", Next: "Send a test", Command: "claudeops notify test", Page: "/notifications"},
				}
			}
		}, []string{"Not set up yet", "Set-up: 1 of 5 done", "is not installed", "Send a test"}},
		{"all well", func(j *journal) {
			j.past()
			for _, name := range []string{"web", "redis", "postgres"} {
				check := ops.Check{At: j.now, Environment: "default", Purpose: ops.ProbeWatch, Service: name, Probe: "http", Type: "http", Status: ops.Healthy}
				j.must(j.store.Watch.RecordResults(j.t.Context(), "default", []ops.Check{check}, nil, nil, nil, nil))
			}
		}, func(o *web.Options) {
			walls(false)(o)
			o.Environments = []ops.Environment{{Name: "default", Interval: time.Hour}}
		}, []string{"Everything is healthy", "Walls: on for all sessions", "The schedule started"}},
		{"repairing", func(j *journal) {
			j.past()
			j.now = j.now.Add(-40 * time.Second)
			j.fails("web", "HTTP 502", 3)
			j.play(j.cause("web is down: HTTP 502.", "web"), ops.Step{}, run{handler: fixer, status: ops.SessionRunning})
		}, walls(false), []string{"Repairing web · Tier 2 of 3", "web is down: Tier 2 is repairing it", "Session #"}},
		{"approval", func(j *journal) {
			j.past()
			j.now = j.now.Add(-3 * time.Minute)
			j.fails("web", "HTTP 502", 3)
			j.play(j.cause("web is down: HTTP 502.", "web"), asks,
				run{handler: fixer, takes: time.Second, outcome: ops.OutcomeEscalate, cost: 0.2, turns: 9})
		}, walls(true), []string{
			"web is down: waiting for your approval of Tier 3 for", "Review", "Coming up", "expires at", "still needs a person",
			"Walls: seccomp is missing on this machine.", "See why",
		}},
		{"coming up", func(j *journal) {
			j.past()
			j.now = j.now.Add(-5 * time.Second)
			j.fails("web", "connection refused", 2)
			j.must(j.store.Watch.SaveWithheld(j.t.Context(), "default", []ops.Withheld{{Service: "web", Why: ops.HoldUnsettled, Reason: "2 of 3"}}))
		}, func(o *web.Options) {
			walls(false)(o)
			o.Environments[0].Policy.DryRun = true
		}, []string{"web: 2 of 3 failed checks, a cycle starts after the next", "Dry run: agents only look, nothing is changed"}},
		{"many down", func(j *journal) {
			j.past()
			j.now = j.now.Add(-time.Minute)
			var names []string
			for n := range 60 {
				names = append(names, fmt.Sprintf("service-%02d", n))
				j.fails(names[n], "dial tcp 10.0.0.1:443: connect: connection refused", 3)
			}
			j.play(j.cause("service-00 is down; 39 more failed with it.", names[:40]...), ops.Step{}, run{handler: observer, status: ops.SessionRunning})
			j.must(j.store.Watch.SaveWithheld(j.t.Context(), "default", []ops.Withheld{
				{Service: "service-41", Why: ops.HoldSilenced, Until: time.Now().Add(30 * time.Minute)},
				{Service: "service-42", Why: ops.HoldDependency, Reason: "service-42 is down; it depends on service-01, which is down."},
			}))
		}, walls(false), []string{"Looking at service-00 and 39 more · Tier 1 of 3", "service-00, service-01 and 38 more are down: Tier 1 is looking at them", "silenced until", "it depends on service-01, which is down"}},
	}
}

func TestTheOverviewSaysWhatIsDone(t *testing.T) {
	t.Parallel()
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			j := newJournal(t)
			s.tell(j)
			b := open(t, serve(t, j.store, s.change).base())
			b.lookAt(sight{name: s.name, path: "/"})
			b.sees(s.sees...)
		})
	}
}

// TestBannersDisappearByThemselves opens the overview once: answers and the end of a trouble reach it without a reload.
func TestBannersDisappearByThemselves(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for _, s := range scenes() {
		if s.name == "approval" {
			s.tell(j)
		}
	}
	var trouble atomic.Value
	trouble.Store("this host is being drained")
	b := open(t, serve(t, j.store, walls(false), func(o *web.Options) { o.Trouble = func() string { return trouble.Load().(string) } }).base())
	b.visit("/")
	b.live()
	b.sees("this host is being drained", "waiting for your approval")
	b.mark()
	trouble.Store("")
	b.wait("the warning is gone", `!document.querySelector('.flash.trouble')`)
	if _, err := j.store.People.Answer(t.Context(), 1, ops.ApprovalDenied, "ana", "not now", time.Now()); err != nil {
		t.Fatal(err)
	}
	b.wait("nobody is asked any more", `!document.querySelector('main').innerText.includes('waiting for your approval')`)
	b.sees("ana denied Tier 3", "not now")
	b.same()
}

// TestLongTextsOpenWithoutAScript uses the element that browsers open themselves.
func TestLongTextsOpenWithoutAScript(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	long := ""
	for n := range 60 {
		long += fmt.Sprintf("Sentence %d about the disk. ", n)
	}
	j.play(j.begin(ops.NewCycle{}), ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy, Reason: long},
		run{handler: observer, takes: time.Second, outcome: ops.OutcomeHealthy, summary: long, cost: 0.01, turns: 3})
	b := open(t, serve(t, j.store, walls(false)).base())
	b.visit("/")
	if eval[bool](b, `document.querySelector('main').innerText.includes('Sentence 59')`) {
		t.Error("the whole text is shown at once")
	}
	b.click(".stat-why summary")
	b.sees("Sentence 59", "less")
}
