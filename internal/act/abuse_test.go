package act_test

import (
	"os"
	"path/filepath"
	"strings"
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
	w.options.Docker = func(ops.Environment) string { return filepath.Join(w.dir, "no.sock") }
	gates, err := os.MkdirTemp("/tmp", "act-") //nolint:usetesting // the folders of a test have long names
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(gates) })
	w.options.Gates = gates
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

// planned has a human approve the first of two steps of a plan of the session.
func (a *abuse) planned(t *testing.T) act.Request {
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
	asked, err := a.Store.Approvals(t.Context(), store.ApprovalFilter{})
	must(t, err)
	if _, err := a.Store.AnswerPlan(t.Context(), asked[0].ID, "another hash", []int{1}, "ada", "", a.At); err == nil {
		t.Error("another plan than the one that was shown is approved")
	}
	got, err := a.Store.AnswerPlan(t.Context(), asked[0].ID, asked[0].PlanHash, []int{1}, "ada", "", a.At)
	must(t, err)
	_, err = a.Store.Claim(t.Context(), a.Owner, a.session.CycleID, ops.Policy{}, a.At)
	must(t, err)
	return act.Request{Environment: a.env, Service: "web", Action: "approved", Why: "r", Plan: &got, Step: 1}
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
		out = append(out, attempt{name, func(t *testing.T, a *abuse) error { return a.run(t, f.action, f.change) }, f.why})
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
		"pager": {"core.pager"}, "pack hook": {"uploadpack.packObjectsHook"}, "proxy": {"core.gitProxy"}, "archiver": {"tar.tar.command"}, "include": {"include.path"},
		"alternate refs": {"core.alternateRefsCommand"},
	} {
		out = append(out, attempt{"clone: " + name, func(t *testing.T, a *abuse) error {
			a.asAgent(t, func() {
				for _, key := range settings {
					git(t, a.repo, "config", key, a.evil)
				}
			})
			return a.run(t, "site", nil)
		}, ""})
	}
	for _, hook := range []string{"post-checkout", "reference-transaction", "pre-receive"} {
		out = append(out, attempt{"clone: hook " + hook, func(t *testing.T, a *abuse) error {
			a.asAgent(t, func() { must(t, os.Symlink(a.evil, filepath.Join(a.repo, ".git/hooks", hook))) })
			return a.run(t, "site", nil)
		}, ""})
	}
	for name, text := range map[string]string{
		"bind": "volumes: ['/:/host']", "privileged": "privileged: true", "image": "image: evil", "extra service": "services: {evil: {}}", "env_file": "env_file: /etc/shadow",
		"extends": "extends: {file: /tmp/x}", "include": "include: [/tmp/x]", "build": "build: .", "anchor": "x: &a [*a]",
	} {
		out = append(out, attempt{"compose: committed " + name, func(t *testing.T, a *abuse) error {
			a.asAgent(t, func() { a.commit(t, "web/compose.yml", text+"\n") })
			return a.run(t, "apply", nil)
		}, ""})
	}
	return append(out, attempt{"compose: uncommitted", func(t *testing.T, a *abuse) error {
		a.asAgent(t, func() { must(t, os.WriteFile(filepath.Join(a.repo, "web/compose.yml"), []byte("evil\n"), 0o600)) })
		return a.run(t, "apply", nil)
	}, ""})
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
		}, "is not a"})
	}
	for name, file := range map[string]string{"playbook": "play/web.yml", "compose file": "web/compose.yml", "folder": "web"} {
		out = append(out, attempt{"committed link in place of the " + name, func(t *testing.T, a *abuse) error {
			path := filepath.Join(a.repo, file)
			must(t, os.RemoveAll(path))
			must(t, os.Symlink("/etc", path))
			git(t, a.repo, "add", "-A")
			git(t, a.repo, "commit", "-q", "-m", "link") // also when a human did it
			if strings.HasPrefix(file, "play") {
				return a.run(t, "site", nil)
			}
			return a.run(t, "apply", nil)
		}, "has no file"})
	}
	return out
}

// rightAttempts use an approval, a run or a session that is not theirs.
func rightAttempts() []attempt {
	undo := func(t *testing.T, a *abuse, run int64, s *ops.Session, why string) error {
		t.Helper()
		_, err := a.runner.Undo(t.Context(), act.UndoRequest{Environment: a.env, Run: run, Why: why, Session: s, Scope: a.ask(s, "").Scope})
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
		}, "was not approved"},
		{"step that does not exist", func(t *testing.T, a *abuse) error { return a.step(t, func(q *act.Request) { q.Step = 3 }) }, "was not approved"},
		{"steps added after the approval", func(t *testing.T, a *abuse) error {
			return a.step(t, func(q *act.Request) { q.Step, q.Action, q.Plan.Steps = 2, "fix", []int{1, 2} })
		}, "was not approved"},
		{"step of another service", func(t *testing.T, a *abuse) error {
			return a.step(t, func(q *act.Request) { q.Service, q.Action = "db", "fix" })
		}, "not configured as it was"},
		{"step of another action", func(t *testing.T, a *abuse) error { return a.step(t, func(q *act.Request) { q.Action = "fix" }) }, "not configured as it was"},
		{"changed plan", func(t *testing.T, a *abuse) error {
			return a.step(t, func(q *act.Request) {
				spec, _ := a.env.Policy.Inventory.Action("web", "late")
				q.Plan.Plan[0].Action, q.Plan.Plan[0].Digest, q.Action = "late", spec.Digest(), "late"
			})
		}, "is something else"},
		{"approval of another cycle", func(t *testing.T, a *abuse) error {
			q := a.planned(t)
			q.Plan.CycleID = a.RunningSession(t, "other").CycleID
			_, err := a.runner.Run(t.Context(), q)
			return err
		}, "does not approve it"},
		{"action changed after the approval", func(t *testing.T, a *abuse) error {
			return a.step(t, func(*act.Request) { a.env.Policy.Inventory.Services[0].Actions[5].Run = []string{a.evil} })
		}, "not configured as it was"},
		{"ended session", func(t *testing.T, a *abuse) error { a.planned(t); return a.run(t, "fix", nil) }, "session"},
		{"undo of an ended session", func(t *testing.T, a *abuse) error {
			id := first(t, a)
			a.planned(t)
			return undo(t, a, id, a.session, "x")
		}, "session"},
		{"undo of another's run", func(t *testing.T, a *abuse) error {
			other := *a.session
			other.ID++
			return undo(t, a, first(t, a), &other, "x")
		}, "not asked for by this session"},
		{"undo without a reason", func(t *testing.T, a *abuse) error { return undo(t, a, first(t, a), a.session, " ") }, "needs a reason"},
		{"undo with a huge reason", func(t *testing.T, a *abuse) error {
			return undo(t, a, first(t, a), a.session, strings.Repeat("x", 1<<20))
		}, "reason of at most"},
		{"undo of nothing", func(t *testing.T, a *abuse) error { return undo(t, a, -1, a.session, "x") }, "No action has the number"},
		{"program where agents write", func(t *testing.T, a *abuse) error {
			a.env.Policy.Inventory.Services[0].Actions[2].Run = []string{a.evil}
			return a.run(t, "fix", nil)
		}, "where agents write"},
		{"linked program", func(t *testing.T, a *abuse) error {
			link := filepath.Join(a.dir, "link")
			must(t, os.Symlink(a.evil, link))
			a.env.Policy.Inventory.Services[0].Actions[2].Run = []string{link}
			return a.run(t, "fix", nil)
		}, "where agents write"},
	}
}

// Agents try to make an action do more. Nothing of it takes effect, and each refusal says why.
func TestNoWayMakesAnActionDoMore(t *testing.T) {
	var all []attempt
	for _, some := range [][]attempt{serviceAttempts(), cloneAttempts(), linkAttempts(), rightAttempts()} {
		all = append(all, some...)
	}
	if len(all) < 40 {
		t.Fatalf("%d attempts", len(all))
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			a := newAbuse(t)
			err := c.try(t, a)
			if _, bad := os.Stat(filepath.Join(a.dir, "owned")); bad == nil {
				t.Error("a program of the agent ran")
			}
			want := ""
			if c.why == "" {
				want = "good"
				must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("refused with %v, want %q", err, c.why)
			}
			if got := a.read(t, "ran"); got != want {
				t.Errorf("it ran %q, want %q", got, want)
			}
			if refs := git(t, filepath.Join(a.dir, "origin.git"), "for-each-ref"); refs != "" {
				t.Errorf("pushed %q", refs)
			}
		})
	}
}

// What is right once is not right twice.
func TestARightIsUsedOnce(t *testing.T) {
	a := newAbuse(t)
	must(t, a.run(t, "limited", nil))
	if err := a.run(t, "limited", nil); err == nil || !strings.Contains(err.Error(), "do not try it another way") {
		t.Errorf("the cooldown: %v", err)
	}
	out, err := a.runner.Run(t.Context(), a.ask(a.session, "undoable"))
	must(t, err)
	undo := act.UndoRequest{Environment: a.env, Run: out.Run.ID, Why: "x", Session: a.session, Scope: a.ask(a.session, "").Scope}
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
	if got := a.read(t, "ran"); got != "fix\nfix back\nfix" && got != "fix \nfix back\nfix" {
		t.Errorf("ran %q", got)
	}
}
