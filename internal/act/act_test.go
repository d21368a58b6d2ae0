package act_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/act"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnActionRunsTheOperatorsProgramAndIsRecorded(t *testing.T) {
	t.Setenv("CLAUDEOPS_API_TOKEN", "a-secret-of-the-supervisor")
	w := newWorld(t)
	fix := w.script(t, "fix", `echo "password hunter2 for $1"; echo "$0 $*" >>`+w.dir+`/ran; env >`+w.dir+`/env; touch `+w.health+`/web`)
	w.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{{
		Name: "fix", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute, Run: []string{fix, "{{service}}", "$(id)"},
	}}
	w.breakIt(t, "web")
	session := w.session(t, ops.Tier2)
	request := w.ask(session, "fix")
	request.Service = "www" // an alias
	out, err := w.runner.Run(t.Context(), request)
	must(t, err)
	run := out.Run
	if run.Status != ops.ActionDone || run.Before[0].Status != ops.Down || run.After[0].Status != ops.Healthy || out.Undo != nil {
		t.Errorf("%+v", out)
	}
	if run.Output != "password [redacted] for web\n" || run.Why != "it hangs" || run.Service != "web" || *run.SessionID != session.ID {
		t.Errorf("%+v", run)
	}
	if got := w.read(t, "ran"); got != fix+" web $(id)" {
		t.Errorf("ran %q", got)
	}
	stored, err := w.Store.Acts.ActionRun(t.Context(), run.ID)
	must(t, err)
	if env := w.read(t, "env"); strings.Contains(env, "CLAUDEOPS_API_TOKEN") || !strings.Contains(env, "CLAUDEOPS_SESSION_KEY="+act.Key(stored)+"\n") {
		t.Errorf("environment: %s", env)
	}
	cooldowns, err := w.Store.Acts.Cooldowns(t.Context(), "home", w.options.Limits, time.Now())
	must(t, err)
	if len(cooldowns) != 1 || cooldowns[0].Left != 19 || cooldowns[0].Action != "restart" {
		t.Errorf("cooldowns %+v", cooldowns)
	}
	effects, err := w.Store.Acts.Effects(t.Context(), session.ID)
	must(t, err)
	if !effects.Mutating || len(effects.Done) != 1 || effects.Done[0].Gate != ops.GateAction {
		t.Errorf("effects %+v", effects)
	}
}

func TestWhatMayNotBeAskedForIsRefusedWithAnAlternative(t *testing.T) {
	t.Parallel()
	spec := ops.ActionSpec{Name: "fix", Run: []string{"true"}}
	for name, c := range map[string]struct {
		change  func(*world, *act.Request, *ops.ActionSpec)
		rule    string
		instead string
	}{
		"unknown service":  {func(_ *world, q *act.Request, _ *ops.ActionSpec) { q.Service = "mail" }, "action.outside", "Services: web, shop, db"},
		"unknown action":   {func(_ *world, q *act.Request, _ *ops.ActionSpec) { q.Action = "wipe" }, "action.unknown", "Actions of web: fix"},
		"option as action": {func(_ *world, q *act.Request, _ *ops.ActionSpec) { q.Action = "--help" }, "action.unknown", "Actions of web"},
		"outside":          {func(w *world, _ *act.Request, _ *ops.ActionSpec) { w.scope.Services = []string{"db"} }, "action.outside", "Services of this incident: db"},
		"tier too low":     {func(_ *world, _ *act.Request, a *ops.ActionSpec) { a.Tier = ops.Tier3 }, "action.tier", "Escalate to Tier 3"},
		"no reason":        {func(_ *world, q *act.Request, _ *ops.ActionSpec) { q.Why = "  " }, "action.reason", "Say in one or two sentences"},
		"dry run":          {func(_ *world, q *act.Request, _ *ops.ActionSpec) { q.DryRun = true }, "action.dry-run", "Report what you would do"},
		"dry environment":  {func(_ *world, q *act.Request, _ *ops.ActionSpec) { q.Environment.Policy.DryRun = true }, "action.dry-run", "Report"},
		"silenced": {func(w *world, _ *act.Request, _ *ops.ActionSpec) {
			w.scope.Held = map[string]string{"web": "silenced by ada"}
		}, "action.held", "Leave it alone"},
		"needs approval":      {func(_ *world, _ *act.Request, a *ops.ActionSpec) { a.Approval = true }, "action.approval", "plan of your handoff"},
		"branch of no push":   {func(_ *world, q *act.Request, _ *ops.ActionSpec) { q.Branch = "x" }, "action.branch", "Leave it out"},
		"program of an agent": {func(w *world, _ *act.Request, a *ops.ActionSpec) { a.Run = []string{w.env.WorkDir + "/x"} }, "action.input", "configuration"},
		"cooldown": {func(_ *world, _ *act.Request, a *ops.ActionSpec) {
			a.Limit = ops.CooldownLimit{Action: "fix", Window: time.Hour}
		}, "cooldown", "Escalate or report"},
		"no lease": {func(w *world, _ *act.Request, _ *ops.ActionSpec) {
			w.options.May = func() error { return errors.New("the lease is lost") }
			w.runner = act.New(w.options)
		}, "action.lease", "Report it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spec)
			session := w.session(t, ops.Tier2)
			q := w.ask(session, "fix")
			c.change(w, &q, &w.env.Policy.Inventory.Services[0].Actions[0])
			_, err := w.runner.Run(t.Context(), q)
			var no *act.Refusal
			if !errors.As(err, &no) || no.Rule != c.rule || !strings.Contains(no.Error(), c.instead) {
				t.Fatalf("error %v, want %s with %q", err, c.rule, c.instead)
			}
			runs, err := w.Store.Acts.ActionRuns(t.Context(), store.ActionFilter{})
			must(t, err)
			if len(runs) != 0 {
				t.Errorf("runs %+v", runs)
			}
			judged, err := w.Store.Acts.GuardDecisions(t.Context(), session.ID)
			must(t, err)
			if len(judged) != 1 || judged[0].Allowed || judged[0].Rule != c.rule {
				t.Errorf("recorded %+v", judged)
			}
		})
	}
}

func TestARefusedUndoOfASessionIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ops.ActionSpec{Name: "fix", Run: []string{"true"}})
	session := w.session(t, ops.Tier2)
	_, err := w.runner.Undo(t.Context(), act.UndoRequest{Environment: w.env, Run: 7, Why: "it did not help", Session: session})
	var no *act.Refusal
	if !errors.As(err, &no) {
		t.Fatalf("error %v", err)
	}
	judged, err := w.Store.Acts.GuardDecisions(t.Context(), session.ID)
	must(t, err)
	if len(judged) != 1 || judged[0].Allowed || judged[0].Rule != "action.unknown" || judged[0].Input != "undo 7" {
		t.Errorf("recorded %+v", judged)
	}
}

func TestWhatMadeThingsWorseIsUndone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks, undo string
		worse        string
		undone       bool
	}{
		"the service":  {"web", "back", "web", true},
		"a dependent":  {"shop", "back", "shop", true},
		"no way back":  {"web", "", "web", false},
		"undo fails":   {"web", "false", "web", false},
		"nothing":      {"none", "back", "", false},
		"other's file": {"db", "back", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := ops.ActionSpec{Name: "fix", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute}
			spec.Run = []string{w.script(t, "fix", "rm -f "+w.health+"/"+c.breaks)}
			switch c.undo {
			case "back":
				spec.Undo = []string{w.script(t, "back", "echo again >>"+w.dir+"/undone; touch "+w.health+"/web "+w.health+"/shop")}
			case "false":
				spec.Undo = []string{"false"}
			}
			w.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{spec}
			out, err := w.runner.Run(t.Context(), w.ask(w.session(t, ops.Tier2), "fix"))
			must(t, err)
			if strings.Join(out.Worse, ",") != c.worse || (out.Run.Status == ops.ActionUndone) != c.undone {
				t.Errorf("%+v", out)
			}
			if c.undone && (out.Undo == nil || out.Undo.Status != ops.ActionDone || !out.Undo.Automatic || w.read(t, "undone") != "again") {
				t.Errorf("undo %+v", out.Undo)
			}
			notices, err := w.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
			must(t, err)
			if (len(notices) > 0) != (c.worse != "") {
				t.Errorf("notices %+v", notices)
			}
		})
	}
}

func TestAnAutomaticUndoDoesNotWaitForWhatWasDownBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Settle, w.options.Round = func(context.Context, string, []string) time.Duration { return time.Hour }, time.Hour
	w.runner = act.New(w.options)
	w.breakIt(t, "web")
	spec := ops.ActionSpec{Name: "fix", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute}
	spec.Run = []string{w.script(t, "fix", "rm "+w.health+"/shop; exit 1")}
	spec.Undo = []string{w.script(t, "back", "touch "+w.health+"/shop")}
	w.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{spec}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := w.runner.Run(ctx, w.ask(w.session(t, ops.Tier2), "fix"))
	must(t, err)
	if out.Run.Status != ops.ActionUndone || out.Undo == nil || out.Undo.Status != ops.ActionDone || len(out.Undo.After) != 2 {
		t.Errorf("%+v, undo %+v", out, out.Undo)
	}
	must(t, ctx.Err())
}

func TestAPersonUndoesARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{
		{Name: "fix", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute, Run: []string{"true"}, Undo: []string{w.script(t, "back", "echo x >>"+w.dir+"/undone")}},
		{Name: "once", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute, Run: []string{"true"}},
	}
	run := func(action string) ops.ActionRun {
		out, err := w.runner.Run(t.Context(), w.person(t, action))
		must(t, err)
		return out.Run
	}
	undo := func(id int64) (act.Outcome, error) {
		r, err := w.Store.Acts.RequestAction(t.Context(), ops.ActionRun{Environment: "home", Service: "web", Action: "fix", Person: "ada", Why: "wrong", UndoOf: id}, time.Time{})
		if err != nil {
			return act.Outcome{}, err
		}
		return w.runner.Undo(t.Context(), act.UndoRequest{Environment: w.env, Run: id, Why: "wrong", Person: "ada", ID: r.ID})
	}
	first, other := run("fix"), run("once")
	out, err := undo(first.ID)
	must(t, err)
	if out.Run.Person != "ada" || out.Run.UndoOf != first.ID || w.read(t, "undone") != "x" {
		t.Errorf("%+v", out)
	}
	for name, id := range map[string]int64{"again": first.ID, "no way back": other.ID, "an undo": out.Run.ID} {
		if _, err := undo(id); err == nil {
			t.Errorf("%s: it is undone", name)
		}
	}
	second := run("fix")
	changed := w.env
	changed.Policy.Inventory.Services = append([]ops.Service{}, changed.Policy.Inventory.Services...)
	changed.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{{Name: "fix", Service: "web", Kind: ops.ActionCommand, Run: []string{"true"}, Undo: []string{"rm"}}}
	if _, err := w.runner.Undo(t.Context(), act.UndoRequest{Environment: changed, Run: second.ID, Why: "x", Person: "ada"}); err == nil {
		t.Error("it is undone with another program")
	}
	seen := w.person(t, "fix")
	seen.Digest, seen.Environment = second.Digest, changed
	if _, err := w.runner.Run(t.Context(), seen); err == nil || !strings.Contains(err.Error(), "not configured as it was when it was asked for") {
		t.Errorf("another program is run than a person saw: %v", err)
	}
	session := w.session(t, ops.Tier2)
	asked := act.UndoRequest{Environment: w.env, Run: second.ID, Why: "x", Session: session, Scope: w.ask(session, "fix").Scope}
	if _, err := w.runner.Undo(t.Context(), asked); err == nil || !strings.Contains(err.Error(), "not asked for by this session") {
		t.Errorf("a session undoes what a person did: %v", err)
	}
}

func TestAnActionHasATimeLimitForAllItsProcesses(t *testing.T) {
	t.Parallel()
	pid := ""
	for limit := 200 * time.Millisecond; pid == ""; limit *= 2 { // a busy machine needs longer to start the processes
		w := newWorld(t)
		spec := ops.ActionSpec{
			Name: "slow", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: "restart", Timeout: limit,
			Run: []string{w.script(t, "slow", `(trap "" TERM; sleep 600 & echo $! >`+w.dir+`/child; wait) & wait`)},
		}
		w.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{spec}
		out, err := w.runner.Run(t.Context(), w.ask(w.session(t, ops.Tier2), "slow"))
		must(t, err)
		if out.Run.Status != ops.ActionFailed || !strings.Contains(out.Run.Error, "longer than "+limit.String()) {
			t.Fatalf("%+v", out.Run)
		}
		pid = w.read(t, "child")
	}
	// It was killed. When the kernel is done with it is not ours to say.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { //nolint:forbidigo // it waits for another process
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(text), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s still runs: %s", pid, text)
		}
	}
}

func TestAStoppedActionIsInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := ops.ActionSpec{
		Name: "slow", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute,
		Run: []string{w.script(t, "slow", `touch `+w.dir+`/started; sleep 60`)},
	}
	w.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{spec}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(w.dir, "started")); err == nil {
				cancel(errors.New("the supervisor is shutting down"))
				return
			}
			time.Sleep(time.Millisecond) //nolint:forbidigo // it waits for another process
		}
	}()
	out, err := w.runner.Run(ctx, w.ask(w.session(t, ops.Tier2), "slow"))
	must(t, err)
	if out.Run.Status != ops.ActionInterrupted || !strings.Contains(out.Run.Error, "shutting down") || len(out.Run.After) == 0 {
		t.Errorf("%+v", out.Run)
	}
}

func TestUnitsAreChangedBySystemctl(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Systemctl = w.script(t, "systemctl", `echo "$*" >>`+w.dir+`/ran`)
	w.runner = act.New(w.options)
	var specs []ops.ActionSpec
	for _, kind := range []ops.ActionKind{ops.ActionRestart, ops.ActionStart, ops.ActionStop} {
		specs = append(specs, ops.ActionSpec{
			Name: string(kind), Service: "web", Kind: kind, Tier: ops.Tier2, Counts: "restart", Timeout: time.Minute, Unit: "web.service",
		})
	}
	w.env.Policy.Inventory.Services[0].Actions = specs
	session := w.session(t, ops.Tier3)
	for _, kind := range []string{"restart", "stop", "start"} {
		out, err := w.runner.Run(t.Context(), w.ask(session, kind))
		must(t, err)
		if out.Run.Status != ops.ActionDone {
			t.Errorf("%+v", out.Run)
		}
	}
	want := "--no-ask-password restart -- web.service\n--no-ask-password stop -- web.service\n--no-ask-password start -- web.service"
	if got := w.read(t, "ran"); got != want {
		t.Errorf("ran %q", got)
	}
}

func TestAStoppedServiceIsDownOnPurpose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Systemctl = w.script(t, "systemctl", `case "$2" in stop) rm -f `+w.health+`/web $BREAK;; start) touch `+w.health+`/web `+w.health+`/shop;; esac`)
	w.runner = act.New(w.options)
	spec := ops.ActionSpec{Name: "stop", Service: "web", Kind: ops.ActionStop, Tier: ops.Tier3, Counts: "redeployment", Timeout: time.Minute, Unit: "web.service"}
	w.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{spec}
	out, err := w.runner.Run(t.Context(), w.ask(w.session(t, ops.Tier3), "stop"))
	must(t, err)
	if out.Undo != nil || out.Run.Status != ops.ActionDone {
		t.Errorf("%+v", out)
	}
}

// A plan of a human is not what an agent can change.
func TestAnApprovedStepRunsAsItWasApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fix := w.script(t, "fix", "echo ran >>"+w.dir+"/ran")
	spec := ops.ActionSpec{
		Name: "fix", Service: "web", Kind: ops.ActionCommand, Tier: ops.Tier3, Counts: "restart", Timeout: time.Minute, Run: []string{fix}, Approval: true,
	}
	w.env.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{spec}
	request := w.approvedFor(t, "fix", "r")

	changed := request
	changed.Environment.Policy.Inventory.Services = append([]ops.Service{}, w.env.Policy.Inventory.Services...)
	other := spec
	other.Run = []string{fix, "--force"}
	changed.Environment.Policy.Inventory.Services[0].Actions = []ops.ActionSpec{other}
	if _, err := w.runner.Run(t.Context(), changed); err == nil {
		t.Error("it runs with another argument")
	}
	if out, err := w.runner.Run(t.Context(), request); err != nil || out.Run.ApprovalID != request.Plan.ID || !out.Run.Automatic {
		t.Errorf("%+v %v", out, err)
	}
	if _, err := w.runner.Run(t.Context(), request); err == nil {
		t.Error("it runs twice")
	}
	if got := w.read(t, "ran"); got != "ran" {
		t.Errorf("ran %q", got)
	}
}
