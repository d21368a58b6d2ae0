package act_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// attempt is one way in which an agent could try to make an action do more than it should. Evil programs make the file "owned";
// every action notes in the file "ran" what it ran.
type attempt struct {
	name string
	try  func(t *testing.T, a *abuse) error
	why  string // the refusal names it; empty: the action runs, with what the operator committed
	want string // what runs then; empty: good
}

type abuse struct {
	*world
	session *ops.Session
	repo    string
	evil    string // a program of the agent
}

func newAbuse(t *testing.T) *abuse {
	t.Helper()
	w := playbookWorld(t)
	note := `>>` + w.dir + `/ran`
	w.script(t, "bin/ansible-playbook", `cat "$1" `+note)
	w.script(t, "bin/docker", `[ "$2" = version ] || cat "$3" `+note)
	fix := w.script(t, "fix", `echo "fix $*" `+note)
	engine := emptyEngine(t)
	w.options.Docker = engine
	w.rebuild()
	web := &w.env.Policy.Inventory.Services[0]
	spec := func(name string, tier ops.Tier) ops.ActionSpec {
		return ops.ActionSpec{
			Name: name, Service: "web", Kind: ops.ActionCommand, Tier: tier, Counts: ops.CountsRestart, Timeout: time.Minute, Run: []string{fix},
		}
	}
	compose, approved, undoable, limited := spec("apply", ops.Tier2), spec("approved", ops.Tier2), spec("undoable", ops.Tier2), spec("limited", ops.Tier2)
	compose.Kind, compose.Run, compose.Compose = ops.ActionApply, nil, ops.Compose{Repo: "lab", File: "web/compose.yml", Service: "web"}
	approved.Approval = true
	undoable.Run, undoable.Undo = []string{"true"}, []string{fix, "back"}
	limited.Limit = ops.CooldownLimit{Action: "limited", Count: 1, Window: time.Hour}
	web.Actions[0].Tier = ops.Tier2
	web.Actions = append(web.Actions, spec("fix", ops.Tier2), spec("late", ops.Tier3), compose, approved, undoable, limited)
	w.env.Policy.Inventory.Services[2].Actions = []ops.ActionSpec{{
		Name: "fix", Service: "db", Kind: ops.ActionCommand, Tier: ops.Tier1, Counts: ops.CountsRestart, Timeout: time.Minute, Run: []string{fix},
	}}
	a := &abuse{world: w, repo: filepath.Join(w.env.ReposDir, "lab")}
	w.commit(t, "play/web.yml", "good\n")
	w.commit(t, "web/compose.yml", "good\n")
	a.session = w.session(t, ops.Tier2)
	a.evil = filepath.Join(w.env.WorkDir, "evil")
	must(t, os.WriteFile(a.evil, []byte("#!/bin/sh\ntouch "+w.dir+"/owned\n"), 0o700)) //nolint:gosec // it is a program
	return a
}

// run asks for an action as the session.
func (a *abuse) run(t *testing.T, action string, change func(*act.Request)) error {
	t.Helper()
	q := a.ask(a.session, action)
	if change != nil {
		change(&q)
	}
	_, err := a.runner.Run(t.Context(), q)
	return err
}

// proposed is a plan of two steps that the session proposed.
func (a *abuse) proposed(t *testing.T) ops.Approval {
	t.Helper()
	var plan []ops.ApprovedStep
	for _, name := range []string{"approved", "fix"} {
		spec, _ := a.env.Policy.Inventory.Action("web", name)
		plan = append(plan, ops.ApprovedStep{PlanStep: ops.PlanStep{Service: "web", Action: name, Reason: "r"}, Does: spec.Does(), Digest: spec.Digest()})
	}
	ended := a.Ended(*a.session, 0)
	a.Commit(t, ops.Transition{Cycle: a.session.CycleID, At: a.At, Result: ops.Result{Session: &ended}, Step: ops.Step{Kind: ops.StepAwait, Approval: &ops.Approval{
		SessionID: a.session.ID, Tier: ops.Tier3, Handler: "tier3", Plan: plan, PlanHash: ops.PlanHash(a.session.CycleID, a.session.ID, plan),
	}}})
	asked, err := a.Store.People.Approvals(t.Context(), store.ApprovalFilter{})
	must(t, err)
	return asked[0]
}

// planned has a human approve the first of two steps of a plan of the session.
func (a *abuse) planned(t *testing.T) act.Request {
	t.Helper()
	asked := []ops.Approval{a.proposed(t)}
	if _, err := a.Store.People.AnswerPlan(t.Context(), asked[0].ID, "another hash", []int{1}, "ada", "", a.At); err == nil {
		t.Error("another plan than the one that was shown is approved")
	}
	got, err := a.Store.People.AnswerPlan(t.Context(), asked[0].ID, asked[0].PlanHash, []int{1}, "ada", "", a.At)
	must(t, err)
	_, err = a.Store.Journal.Claim(t.Context(), a.Owner, a.session.CycleID, ops.Policy{}, a.At)
	must(t, err)
	return act.Request{Environment: a.env, Service: "web", Action: "approved", Why: "r", Plan: &got, Step: 1}
}

// unanswered runs the first step of a plan that no human approved, as if one had.
func (a *abuse) unanswered(t *testing.T, answer func(id int64) ops.ApprovalStatus) error {
	t.Helper()
	plan := a.proposed(t)
	plan.Status, plan.Steps = answer(plan.ID), []int{1}
	_, err := a.Store.Journal.Claim(t.Context(), a.Owner, a.session.CycleID, ops.Policy{}, a.At)
	if err != nil && !errors.Is(err, ops.ErrConflict) {
		t.Fatal(err)
	}
	_, err = a.runner.Run(t.Context(), act.Request{Environment: a.env, Service: "web", Action: "approved", Why: "r", Plan: &plan, Step: 1})
	return err
}

// step runs a step of the plan after a change.
func (a *abuse) step(t *testing.T, change func(*act.Request)) error {
	t.Helper()
	q := a.planned(t)
	change(&q)
	_, err := a.runner.Run(t.Context(), q)
	return err
}

// asked are requests with a field that an agent chooses.
func asked(rows map[string]attemptField) (out []attempt) {
	for name, f := range rows {
		out = append(out, attempt{name: name, try: func(t *testing.T, a *abuse) error { return a.run(t, f.action, f.change) }, why: f.why})
	}
	return out
}

type attemptField struct {
	action string
	change func(*act.Request)
	why    string
}

func serviceAttempts() []attempt {
	rows := map[string]attemptField{
		"other service":       {"fix", func(q *act.Request) { q.Service = "db" }, "does not belong to this incident"},
		"other environment":   {"fix", func(q *act.Request) { q.Service = "staging/web" }, "No service"},
		"tier too low":        {"late", nil, "needs Tier 3"},
		"missing approval":    {"approved", nil, "needs the approval of a human"},
		"dry run":             {"fix", func(q *act.Request) { q.DryRun = true }, "dry run"},
		"dry environment":     {"fix", func(q *act.Request) { q.Environment.Policy.DryRun = true }, "dry run"},
		"huge reason":         {"fix", func(q *act.Request) { q.Why = strings.Repeat("x", 1<<20) }, "reason of at most"},
		"no reason":           {"fix", func(q *act.Request) { q.Why = "\n\t " }, "needs a reason"},
		"control in a reason": {"fix", func(q *act.Request) { q.Why = "ok\x1b[2J\x1b[1;1Happroved by ada" }, "control characters"},
		"line in a reason":    {"fix", func(q *act.Request) { q.Why = "ok\nPerson: ada" }, "control characters"},
		"branch of no push":   {"fix", func(q *act.Request) { q.Branch = "--upload-pack=x" }, "Only a push has a branch"},
		"plan without a plan": {"approved", func(q *act.Request) { q.Step = 1 }, "needs the approval of a human"},
	}
	for name, service := range map[string]string{
		"option": "--all", "short option": "-a", "path": "../web", "absolute": "/etc/passwd", "line": "web\nweb", "zero": "web\x00", "shell": "web;id",
		"alias with a space": " www", "case": "WEB ", "template": "{{service}}", "empty": "", "huge": strings.Repeat("w", 1<<20),
	} {
		rows["service: "+name] = attemptField{"fix", func(q *act.Request) { q.Service = service }, "No service"}
	}
	for name, action := range map[string]string{
		"option": "--help", "short option": "-c", "path": "../fix", "words": "fix --force", "line": "fix\nlate", "shell": "fix;id", "empty": "", "huge": strings.Repeat("f", 1<<20),
	} {
		rows["action: "+name] = attemptField{action, nil, "has no action"}
	}
	for name, branch := range map[string]string{
		"option": "--upload-pack=touch", "setting": "-c", "force": "+claudeops/x", "refspec": "claudeops/x:refs/heads/main", "up": "claudeops/../main", "absolute": "/etc/x",
		"line": "claudeops/x\nmain", "main": "main", "expression": "claudeops/x@{1}", "glob": "claudeops/*", "shell": "claudeops/$(id)", "huge": "claudeops/" + strings.Repeat("x", 1<<20),
	} {
		rows["branch: "+name] = attemptField{"propose", func(q *act.Request) { q.Branch = branch }, "is not a branch that may be pushed"}
	}
	return asked(rows)
}

// cloneAttempts change what lies in the clone while the session works; the trusted commit is used all the same.
func cloneAttempts() (out []attempt) {
	for name, settings := range map[string][]string{
		"core.fsmonitor": {"core.fsmonitor"}, "core.sshCommand": {"core.sshCommand"}, "hooks elsewhere": {"core.hooksPath"}, "filters": {"filter.x.smudge", "filter.x.process"},
		"pager": {"core.pager"}, "pack hook": {"uploadpack.packObjectsHook"}, "proxy": {"core.gitProxy"}, "archiver": {"tar.tar.command"},
		"alternate refs": {"core.alternateRefsCommand"},
	} {
		out = append(out, attempt{"clone: " + name, func(t *testing.T, a *abuse) error {
			for _, key := range settings {
				git(t, a.repo, "config", key, a.evil)
			}
			return a.run(t, "site", nil)
		}, "", ""})
	}
	for _, hook := range []string{"post-checkout", "reference-transaction", "pre-receive"} {
		out = append(out, attempt{"clone: hook " + hook, func(t *testing.T, a *abuse) error {
			must(t, os.Symlink(a.evil, filepath.Join(a.repo, ".git/hooks", hook)))
			return a.run(t, "site", nil)
		}, "", ""})
	}
	for name, text := range map[string]string{
		"bind": "volumes: ['/:/host']", "privileged": "privileged: true", "image": "image: evil", "extra service": "services: {evil: {}}", "env_file": "env_file: /etc/shadow",
		"extends": "extends: {file: /tmp/x}", "include": "include: [/tmp/x]", "build": "build: .", "anchor": "x: &a [*a]",
	} {
		out = append(out, attempt{"compose: committed " + name, func(t *testing.T, a *abuse) error {
			a.asAgent(t, "claudeops/x", "web/compose.yml", text+"\n")
			return a.run(t, "apply", nil)
		}, "", ""})
	}
	return append(out, attempt{"compose: uncommitted", func(t *testing.T, a *abuse) error {
		must(t, os.WriteFile(filepath.Join(a.repo, "web/compose.yml"), []byte("evil\n"), 0o600))
		return a.run(t, "apply", nil)
	}, "", ""})
}

// linkAttempts put links where the supervisor would read.
func linkAttempts() (out []attempt) {
	for name, part := range map[string]string{
		"the repository": "", ".git": ".git", "objects": ".git/objects", "packs": ".git/objects/pack", "refs": ".git/refs", "branches": ".git/refs/heads", "HEAD": ".git/HEAD",
	} {
		out = append(out, attempt{"link in place of " + name, func(t *testing.T, a *abuse) error {
			git(t, a.repo, "branch", "-q", "claudeops/x")
			from := filepath.Join(a.repo, part)
			to := filepath.Join(a.dir, "private")
			must(t, os.Rename(from, to))
			must(t, os.Symlink(to, from))
			return a.run(t, "propose", func(q *act.Request) { q.Branch = "claudeops/x" })
		}, "is not a", ""})
	}
	for name, file := range map[string]string{"compose file": "web/compose.yml", "folder": "web"} {
		out = append(out, attempt{"committed link in place of the " + name, func(t *testing.T, a *abuse) error {
			path := filepath.Join(a.repo, file)
			must(t, os.RemoveAll(path))
			must(t, os.Symlink("/etc", path))
			git(t, a.repo, "add", "-A")
			git(t, a.repo, "commit", "-q", "-m", "link") // also when a human did it
			return a.run(t, "apply", nil)
		}, "has no file", ""})
	}
	return out
}

// rightAttempts use an approval, a run or a session that is not theirs.
func rightAttempts() []attempt {
	undo := func(t *testing.T, a *abuse, run int64, s *ops.Session, why string) error {
		t.Helper()
		_, err := a.runner.Undo(t.Context(), act.Request{Environment: a.env, Run: run, Why: why, Session: s, Scope: a.ask(s, "").Scope})
		return err
	}
	first := func(t *testing.T, a *abuse) int64 {
		t.Helper()
		out, err := a.runner.Run(t.Context(), a.ask(a.session, "undoable"))
		must(t, err)
		return out.Run.ID
	}
	return []attempt{
		{"step that was not approved", func(t *testing.T, a *abuse) error {
			return a.step(t, func(q *act.Request) { q.Step, q.Action = 2, "fix" })
		}, "was not approved", ""},
		{"step that does not exist", func(t *testing.T, a *abuse) error { return a.step(t, func(q *act.Request) { q.Step = 3 }) }, "was not approved", ""},
		{"steps added after the approval", func(t *testing.T, a *abuse) error {
			return a.step(t, func(q *act.Request) { q.Step, q.Action, q.Plan.Steps = 2, "fix", []int{1, 2} })
		}, "was not approved", ""},
		{"step of another service", func(t *testing.T, a *abuse) error {
			return a.step(t, func(q *act.Request) { q.Service, q.Action = "db", "fix" })
		}, "not configured as it was", ""},
		{"step of another action", func(t *testing.T, a *abuse) error { return a.step(t, func(q *act.Request) { q.Action = "fix" }) }, "not configured as it was", ""},
		{"changed plan", func(t *testing.T, a *abuse) error {
			return a.step(t, func(q *act.Request) {
				spec, _ := a.env.Policy.Inventory.Action("web", "late")
				q.Plan.Plan[0].Action, q.Plan.Plan[0].Digest, q.Action = "late", spec.Digest(), "late"
			})
		}, "is something else", ""},
		{"approval of another cycle", func(t *testing.T, a *abuse) error {
			q := a.planned(t)
			q.Plan.CycleID = a.RunningSession(t, "other").CycleID
			_, err := a.runner.Run(t.Context(), q)
			return err
		}, "does not approve it", ""},
		{"action changed after the approval", func(t *testing.T, a *abuse) error {
			return a.step(t, func(*act.Request) { a.env.Policy.Inventory.Services[0].Actions[5].Run = []string{a.evil} })
		}, "not configured as it was", ""},
		{"approval that nobody gave", func(t *testing.T, a *abuse) error {
			return a.unanswered(t, func(int64) ops.ApprovalStatus { return ops.ApprovalApproved })
		}, "no longer owns the journal", ""},
		{"approval that was denied", func(t *testing.T, a *abuse) error {
			return a.unanswered(t, func(id int64) ops.ApprovalStatus {
				_, err := a.Store.People.Answer(t.Context(), id, ops.ApprovalDenied, "ada", "", a.At)
				must(t, err)
				return ops.ApprovalApproved
			})
		}, "does not approve it", ""},
		{"ended session", func(t *testing.T, a *abuse) error { a.planned(t); return a.run(t, "fix", nil) }, "session", ""},
		{"undo of an ended session", func(t *testing.T, a *abuse) error {
			id := first(t, a)
			a.planned(t)
			return undo(t, a, id, a.session, "x")
		}, "session", ""},
		{"undo of another's run", func(t *testing.T, a *abuse) error {
			other := *a.session
			other.ID++
			return undo(t, a, first(t, a), &other, "x")
		}, "not asked for by this session", ""},
		{"undo without a reason", func(t *testing.T, a *abuse) error { return undo(t, a, first(t, a), a.session, " ") }, "needs a reason", ""},
		{"undo with a huge reason", func(t *testing.T, a *abuse) error {
			return undo(t, a, first(t, a), a.session, strings.Repeat("x", 1<<20))
		}, "reason of at most", ""},
		{"undo of nothing", func(t *testing.T, a *abuse) error { return undo(t, a, -1, a.session, "x") }, "No action has the number", ""},
		{"program where agents write", func(t *testing.T, a *abuse) error {
			a.env.Policy.Inventory.Services[0].Actions[2].Run = []string{a.evil}
			return a.run(t, "fix", nil)
		}, "where agents write", ""},
		{"linked program", func(t *testing.T, a *abuse) error {
			link := filepath.Join(a.dir, "link")
			must(t, os.Symlink(a.evil, link))
			a.env.Policy.Inventory.Services[0].Actions[2].Run = []string{link}
			return a.run(t, "fix", nil)
		}, "where agents write", ""},
	}
}

// heldAttempts ask for a service that a person keeps from being changed. The reasons are those that the journal gives.
func heldAttempts() (out []attempt) {
	for name, held := range map[string]map[string]string{
		"maintenance":  {"web": "it is in maintenance until 18:00"},
		"silenced":     {"web": "a silence covers it"},
		"acknowledged": {"web": "ada works on it"},
	} {
		for _, asked := range []string{"web", "www"} {
			out = append(out, attempt{name: name + " " + asked, why: "web may not be changed now: " + held["web"], try: func(t *testing.T, a *abuse) error {
				return a.run(t, "fix", func(q *act.Request) {
					q.Service = asked
					q.Scope = func(context.Context) (act.Scope, error) { return act.Scope{Services: []string{"web"}, Held: held}, nil }
				})
			}})
		}
	}
	return out
}

// sessionAttempts speak as another session. That its key and socket are worth nothing elsewhere is tested where they are checked.
func sessionAttempts() []attempt {
	as := func(change func(s *ops.Session)) func(t *testing.T, a *abuse) error {
		return func(t *testing.T, a *abuse) error {
			s := *a.session
			change(&s)
			return a.run(t, "fix", func(q *act.Request) { q.Session = &s })
		}
	}
	return []attempt{
		{name: "session that does not exist", try: as(func(s *ops.Session) { s.ID += 1000 }), why: "not found"},
		{name: "fewer permissions than the tier", try: as(func(s *ops.Session) { s.Permissions = ops.Tier1 }), why: "needs Tier 2"},
		{name: "services that cannot be read", try: func(t *testing.T, a *abuse) error {
			return a.run(t, "fix", func(q *act.Request) {
				q.Scope = func(context.Context) (act.Scope, error) { return act.Scope{}, errors.New("no database") }
			})
		}, why: "could not be read"},
		{name: "service of another environment", try: func(t *testing.T, a *abuse) error {
			return a.run(t, "fix", func(q *act.Request) { q.Service = "mail" })
		}, why: "No service"},
		{name: "host without its lease", try: func(t *testing.T, a *abuse) error {
			a.options.May = func() error { return errors.New("the lease is over") }
			a.rebuild()
			defer func() { a.options.May = func() error { return nil }; a.rebuild() }()
			return a.run(t, "fix", nil)
		}, why: "the lease is over"},
		{name: "run of another environment", try: func(t *testing.T, a *abuse) error {
			asked, err := a.Store.Acts.RequestAction(t.Context(), ops.ActionRun{Environment: "staging", Service: "web", Action: "undoable", Person: "ada", Why: "x"}, time.Time{})
			must(t, err)
			_, err = a.runner.Undo(t.Context(), act.Request{Environment: a.env, Run: asked.ID, Why: "x", Session: a.session, Scope: a.ask(a.session, "").Scope})
			return err
		}, why: "No action has the number"},
	}
}

// valueAttempts put into the name of an image what a shell or a program could take for something else. It stays one word.
func valueAttempts() (out []attempt) {
	for name, image := range map[string]string{
		"command": "x;touch owned", "substitution": "$(touch owned)", "backquotes": "`touch owned`", "words": "a b", "glob": "*", "placeholder": "{{service}}", "quote": `'"`,
		"redirection": "a>owned", "variable": "$HOME",
	} {
		out = append(out, attempt{name: "image: " + name, want: "rollback web <" + image + ">", try: func(t *testing.T, a *abuse) error {
			return a.rollback(t, image)
		}})
	}
	return append(out, attempt{name: "image: option", why: "looks like an option", try: func(t *testing.T, a *abuse) error { return a.rollback(t, "--all") }},
		attempt{name: "image: none", why: "No earlier image", try: func(t *testing.T, a *abuse) error { return a.rollback(t, "") }})
}

// rollback runs an action that is given the image that the container had before, which an earlier run recorded.
func (a *abuse) rollback(t *testing.T, image string) error {
	t.Helper()
	program := a.script(t, "rollback", `printf 'rollback %s <%s>' "$1" "$2" >>`+a.dir+`/ran`)
	web := &a.env.Policy.Inventory.Services[0]
	web.Actions = append(web.Actions, ops.ActionSpec{
		Name: "rollback", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: ops.CountsRestart, Timeout: time.Minute,
		Run: []string{program, "{{service}}", "{{previous}}"},
	})
	_, _, err := a.Store.Acts.BeginAction(t.Context(), a.Owner, store.ActionIntent{Run: ops.ActionRun{
		Environment: "home", Service: "web", Action: "redeploy", Kind: ops.ActionRedeploy, Person: "ada", Why: "x", Version: image,
	}, At: a.At})
	must(t, err)
	return a.run(t, "rollback", nil)
}

// Agents try to make an action do more. Nothing of it takes effect, and each refusal says why.
func TestNoWayMakesAnActionDoMore(t *testing.T) {
	t.Parallel()
	// A request that is refused changes nothing, so all of them share one world.
	t.Run("requests", func(t *testing.T) {
		t.Parallel()
		a := newAbuse(t)
		for _, c := range slices.Concat(serviceAttempts(), heldAttempts(), sessionAttempts()) {
			a.tried(t, c)
		}
	})
	all := slices.Concat(cloneAttempts(), linkAttempts(), rightAttempts(), valueAttempts())
	if len(all) < 40 {
		t.Fatalf("%d attempts", len(all))
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newAbuse(t)
			a.tried(t, c)
		})
	}
}

// tried makes an attempt and checks that nothing came of it.
func (a *abuse) tried(t *testing.T, c attempt) {
	t.Helper()
	err := c.try(t, a)
	if _, bad := os.Stat(filepath.Join(a.dir, "owned")); bad == nil {
		t.Errorf("%s: a program of the agent ran", c.name)
	}
	want := ""
	if c.why == "" {
		if want = c.want; want == "" {
			want = "good"
		}
		must(t, err)
	} else if err == nil || !strings.Contains(err.Error(), c.why) {
		t.Errorf("%s: refused with %v, want %q", c.name, err, c.why)
	}
	if got := a.read(t, "ran"); got != want {
		t.Errorf("%s: it ran %q, want %q", c.name, got, want)
	}
	refs, err := os.ReadDir(filepath.Join(a.dir, "origin.git/refs/heads"))
	must(t, err)
	if _, packed := os.Stat(filepath.Join(a.dir, "origin.git/packed-refs")); packed == nil || len(refs) > 0 {
		t.Errorf("%s: pushed %v", c.name, refs)
	}
}

// What is right once is not right twice.
func TestARightIsUsedOnce(t *testing.T) {
	t.Parallel()
	a := newAbuse(t)
	must(t, a.run(t, "limited", nil))
	if err := a.run(t, "limited", nil); err == nil || !strings.Contains(err.Error(), "do not try it another way") {
		t.Errorf("the cooldown: %v", err)
	}
	out, err := a.runner.Run(t.Context(), a.ask(a.session, "undoable"))
	must(t, err)
	undo := act.Request{Environment: a.env, Run: out.Run.ID, Why: "x", Session: a.session, Scope: a.ask(a.session, "").Scope}
	_, err = a.runner.Undo(t.Context(), undo)
	must(t, err)
	if _, err := a.runner.Undo(t.Context(), undo); err == nil || !strings.Contains(err.Error(), "is undone") {
		t.Errorf("the undo: %v", err)
	}
	step := a.planned(t)
	_, err = a.runner.Run(t.Context(), step)
	must(t, err)
	if _, err := a.runner.Run(t.Context(), step); err == nil || !strings.Contains(err.Error(), "has been used") {
		t.Errorf("the approval: %v", err)
	}
	a.restart()
	if _, err := a.runner.Run(t.Context(), step); err == nil || !strings.Contains(err.Error(), "has been used") {
		t.Errorf("the approval after a restart: %v", err)
	}
	if got := a.read(t, "ran"); got != "fix\nfix back\nfix" && got != "fix \nfix back\nfix" {
		t.Errorf("ran %q", got)
	}
}

// A used-up cooldown stays used up at every tier, whatever an agent does around it.
func TestNoWayAroundACooldown(t *testing.T) {
	t.Parallel()
	for _, tier := range []ops.Tier{ops.Tier2, ops.Tier3} {
		t.Run(tier.String(), func(t *testing.T) {
			t.Parallel()
			a := newAbuse(t)
			a.session.Tier, a.session.Permissions = tier, tier
			limited := &a.env.Policy.Inventory.Services[0].Actions[7]
			limited.Undo = []string{"true"}
			var wg sync.WaitGroup
			var ran, run atomic.Int64
			for range 8 { // all at once
				wg.Go(func() {
					if out, err := a.runner.Run(t.Context(), a.ask(a.session, "limited")); err == nil {
						ran.Add(1)
						run.Store(out.Run.ID)
					}
				})
			}
			wg.Wait()
			if ran.Load() != 1 {
				t.Fatalf("%d of 8 requests ran", ran.Load())
			}
			_, err := a.runner.Undo(t.Context(), act.Request{Environment: a.env, Run: run.Load(), Why: "x", Session: a.session, Scope: a.ask(a.session, "").Scope})
			must(t, err)
			for name, change := range map[string]func(*act.Request){
				"after an undo":    func(*act.Request) {},
				"by another name":  func(q *act.Request) { q.Service = "www" },
				"as a higher tier": func(q *act.Request) { s := *a.session; s.Tier, s.Permissions = ops.Tier3, ops.Tier3; q.Session = &s },
			} {
				if err := a.run(t, "limited", change); err == nil || !strings.Contains(err.Error(), "do not try it another way") {
					t.Errorf("%s: %v", name, err)
				}
			}
			a.restart()
			if err := a.run(t, "limited", nil); err == nil {
				t.Error("it ran after a restart of the supervisor")
			}
			if err := a.run(t, "approved", nil); err == nil || !strings.Contains(err.Error(), "needs the approval of a human") {
				t.Errorf("without approval: %v", err)
			}
			if got := a.read(t, "ran"); strings.Count(got, "fix") != 1 {
				t.Errorf("ran %q", got)
			}
		})
	}
}

// emptyEngine is a Docker engine that has no containers.
func emptyEngine(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "act-") //nolint:usetesting // the folders of a test have long names
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	must(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) }))
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return filepath.Join(dir, "s")
}
