package browsertest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

// withActions gives services actions of several kinds.
func withActions(o *web.Options) {
	envs := environments()
	spec := func(service, name string, kind ops.ActionKind, tier ops.Tier, more func(*ops.ActionSpec)) ops.ActionSpec {
		a := ops.ActionSpec{Name: name, Service: service, Kind: kind, Tier: tier, Counts: ops.CountsRestart, Timeout: time.Minute, Container: service}
		if more != nil {
			more(&a)
		}
		return a
	}
	envs[0].Policy.Inventory = ops.Inventory{Services: []ops.Service{
		{Name: "jellyfin", Actions: []ops.ActionSpec{
			spec("jellyfin", "restart", ops.ActionRestart, ops.Tier2, func(a *ops.ActionSpec) { a.Description = "restart the container jellyfin" }),
			spec("jellyfin", "stop", ops.ActionStop, ops.Tier3, func(a *ops.ActionSpec) { a.Approval = true }),
			spec("jellyfin", "redeploy", ops.ActionRedeploy, ops.Tier3, func(a *ops.ActionSpec) {
				a.Compose = ops.Compose{Repo: "homelab", File: "media/compose.yml", Service: "jellyfin"}
			}),
			spec("jellyfin", "rollback", ops.ActionCommand, ops.Tier3, func(a *ops.ActionSpec) {
				a.Run = []string{"/srv/bin/deploy-with-a-very-long-name", "--service=jellyfin", "--image={{previous}}", "--wait-until-healthy", "--timeout=300"}
				a.Undo = []string{"/srv/bin/deploy-with-a-very-long-name", "--service=jellyfin", "--image={{current}}"}
			}),
		}},
		{Name: "postgres", Actions: []ops.ActionSpec{spec("postgres", "restart", ops.ActionRestart, ops.Tier2, nil)}},
	}}
	o.Environments = envs
}

// ran records an action from its intent to its result.
func (f *journal) ran(t *testing.T, run ops.ActionRun, result store.ActionResult) ops.ActionRun {
	t.Helper()
	owner, err := f.store.Journal.RegisterHost(t.Context(), "actor")
	must(t, err)
	at := time.Now().Add(-time.Hour)
	run.Environment, run.Service = environments()[0].Name, "jellyfin"
	started, _, err := f.store.Acts.BeginAction(t.Context(), owner, store.ActionIntent{Run: run, At: at})
	must(t, err)
	result.ID, result.At = started.ID, at.Add(20*time.Second)
	ended, err := f.store.Acts.EndAction(t.Context(), owner, result)
	must(t, err)
	return ended
}

// actionSights are the pages of actions with runs that went well, failed and were undone. The second run was undone by the third.
func actionSights(t *testing.T) (base string, all []sight) {
	t.Helper()
	j := newJournal(t)
	health := func(web, db ops.Health, text string) []ops.ServiceHealth {
		return []ops.ServiceHealth{{Service: "jellyfin", Status: web, Error: text}, {Service: "postgres", Status: db}}
	}
	done := j.ran(t, ops.ActionRun{
		Action: "restart", Kind: ops.ActionRestart, Tier: ops.Tier2, Person: "alice", Why: "It answers 502 since the last update of the proxy.",
		Does: "restart container jellyfin", Before: health(ops.Down, ops.Healthy, "HTTP 502 Bad Gateway"),
	}, store.ActionResult{Status: ops.ActionDone, After: health(ops.Healthy, ops.Healthy, ""), Output: "jellyfin\n"})
	worse := j.ran(t, ops.ActionRun{
		Action: "rollback", Kind: ops.ActionCommand, Tier: ops.Tier3, Person: "alice", Why: "The new image does not start.",
		Does:   "/srv/bin/deploy-with-a-very-long-name --service=jellyfin --image=registry.example.org/media/jellyfin:10.9.11-20260101 --wait-until-healthy",
		Before: health(ops.Healthy, ops.Healthy, ""),
	}, store.ActionResult{
		Status: ops.ActionFailed, Error: "/srv/bin/deploy-with-a-very-long-name ended with exit status 1", After: health(ops.Down, ops.Degraded, "connection refused"),
		Output: "pulling registry.example.org/media/jellyfin:10.9.11-20260101@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nerror: no space left on device\n",
	})
	j.ran(t, ops.ActionRun{
		Action: "rollback", Kind: ops.ActionCommand, Tier: ops.Tier3, Why: "worse than before: jellyfin", UndoOf: worse.ID, Automatic: true, Does: "/srv/bin/deploy back",
		Before: health(ops.Down, ops.Degraded, ""),
	}, store.ActionResult{Status: ops.ActionDone, After: health(ops.Healthy, ops.Healthy, "")})
	return serve(t, j.store, withActions).base(), []sight{
		{name: "actions", path: "/actions"},
		{name: "action dialog", path: "/actions", then: `document.querySelector('main dialog').showModal()`},
		{name: "action that is done", path: path("/actions/%d", done.ID)},
		{name: "action that was undone", path: path("/actions/%d", worse.ID)},
		{name: "undo", path: path("/actions/%d", worse.ID+1)},
	}
}

func TestActionsAreAccessible(t *testing.T) {
	t.Parallel()
	base, all := actionSights(t)
	lookAtAll(t, base, all)
	b := open(t, base)
	b.visit("/actions/2")
	b.sees("rollback", "The new image does not start.", "connection refused", "no space left on device", "Undone")
	b.follow(`main a[href="/actions/3"]`)
	b.sees("worse than before: jellyfin")
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
