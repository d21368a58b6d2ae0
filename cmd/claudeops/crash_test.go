package main_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// TestKillAtEveryWrite kills the supervisor with SIGKILL at every other place around the journal writes and the effects of a
// three-tier chain, starts it again, and looks at what the journal says. In the short form it takes every twelfth place.
func TestKillAtEveryWrite(t *testing.T) {
	log := filepath.Join(t.TempDir(), "points")
	untried := func(t *testing.T, s agenttest.Scenario) *box { // the agent is tried as well
		b := emptyBox(t, s)
		b.furnish()
		return b
	}
	b := untried(t, chain())
	if r := b.runWith([]string{"CLAUDEOPS_FAILPOINT=none:1", "CLAUDEOPS_FAILPOINT_LOG=" + log}, "once"); r.code != 0 {
		t.Fatalf("the chain itself exits %d\n%s", r.code, r.stderr)
	}
	raw, err := os.ReadFile(log)
	must(t, err)
	points := strings.Fields(string(raw))
	if len(points) < 30 {
		t.Fatalf("only %d points: %v", len(points), points)
	}
	every := 2 // `make fault` kills at every one of them, many times
	if testing.Short() {
		every = 12
	}
	passed := map[string]int{}
	for n, name := range points {
		passed[name]++
		point := place{name, passed[name]}
		if n%every > 0 {
			continue
		}
		t.Run(fmt.Sprintf("%02d-%s", n+1, name), func(t *testing.T) {
			t.Parallel()
			killAt(t, point, untried(t, andThenHealthy(chain(), agenttest.Healthy(0.01))))
		})
		if n%(4*every) == 0 { // the write order is the same; some points are enough to see that a conversation is continued as well
			t.Run(fmt.Sprintf("%02d-%s-resume", n+1, name), func(t *testing.T) {
				t.Parallel()
				killAt(t, point, resumeBox(t, andThenHealthy(conversation(), speaks(1, 0.01, ops.OutcomeHealthy))))
			})
		}
	}
}

// sparse is of how many places one is taken: of three in the short form.
func sparse() int {
	if testing.Short() {
		return 3
	}
	return 1
}

// andThenHealthy is a scenario in which only the first cycle finds something: the next start looks as well, and need not
// play the whole story again.
func andThenHealthy(s agenttest.Scenario, healthy agenttest.Play) agenttest.Scenario {
	for i := range s.Plays {
		s.Plays[i].Cycle = 1
	}
	s.Plays = append(s.Plays, healthy)
	return s
}

// place is the how manieth passing of a failpoint.
type place struct {
	name string
	time int
}

func killAt(t *testing.T, at place, b *box) {
	r := b.runWith([]string{fmt.Sprintf("CLAUDEOPS_FAILPOINT=%s:%d", at.name, at.time)}, "once")
	switch {
	case r.code == -1:
	case r.code == 0 && at.time > 1:
		// Output comes in as many batches as the machine makes of it: this time there was one less.
		t.Logf("%s was passed fewer than %d times", at.name, at.time)
	default:
		t.Fatalf("the supervisor was not killed: exit %d\n%s", r.code, r.stderr)
	}
	if r := b.run("once"); r.code != 0 {
		t.Fatalf("the next start exits %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	b.nothingLeft()
	b.noHandoff()
	starts := map[string]int{}
	for _, c := range b.calls() {
		id, _ := c.Var("CLAUDEOPS_SESSION_ID")
		starts[id]++
	}
	b.read(func(s *store.Store) {
		cycles, err := s.Reports.Cycles(context.Background(), store.CycleFilter{Limit: 10})
		must(t, err)
		for _, c := range cycles {
			checkAfterCrash(t, c, starts)
		}
		if flaws, err := s.Journal.Verify(context.Background(), true); err != nil || len(flaws) > 0 {
			t.Errorf("flaws %+v, %v", flaws, err)
		}
	})
	b.replay()
}

func checkAfterCrash(t *testing.T, c store.CycleSummary, starts map[string]int) {
	t.Helper()
	if !c.Status.Ended() {
		t.Errorf("cycle %d is still %s", c.ID, c.Status)
	}
	completed := map[ops.Tier]int{}
	interrupted := false
	for _, s := range c.Sessions {
		if !s.Status.Ended() {
			t.Errorf("session %d is still %s", s.ID, s.Status)
		}
		if got := starts[strconv.FormatInt(int64(s.ID), 10)]; got > 1 {
			t.Errorf("session %d was started %d times", s.ID, got)
		}
		if s.Status == ops.SessionCompleted {
			completed[s.Tier]++
		}
		interrupted = interrupted || s.Status == ops.SessionInterrupted
	}
	for tier, times := range completed {
		if times > 1 {
			t.Errorf("%s finished %d times in cycle %d", tier, times, c.ID)
		}
	}
	// A repair that was in flight is not repeated; everything else comes to its end.
	want := []ops.CycleStatus{ops.CycleResolved}
	if c.ID > 1 {
		want = []ops.CycleStatus{ops.CycleHealthy}
	}
	if interrupted {
		want = append(want, ops.CycleFailed)
	}
	if !slices.Contains(want, c.Status) {
		t.Errorf("cycle %d ended %s (%s)", c.ID, c.Status, c.Reason)
	}
}

// countingBox is a box with a service that is healthy while a file exists, two actions that note each of their runs, and an agent that
// looks first. The second action makes the file. It returns the folder of the files.
func countingBox(t *testing.T, agent func(dir string) string, more string) (*box, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"first": "echo first >>" + dir + "/ran", "second": "echo second >>" + dir + "/ran; touch " + dir + "/web",
		// It ends its supervisor while it runs, once.
		"deadly": "echo second >>" + dir + "/ran; [ -e " + dir + "/killed ] || { touch " + dir + "/killed; kill -9 $PPID; sleep 60; }; touch " + dir + "/web",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	return planBox(t, agent(dir), fmt.Sprintf(`%[2]sservices:
  - name: web
    probes: [{type: command, command: [test, -e, %[1]s/web]}]
    actions: [{name: first, run: [%[1]s/first]}, {name: second, run: [%[1]s/second]}, {name: deadly, run: [%[1]s/deadly]}]
`, dir, more)), dir
}

// looking is an agent that finds the service healthy when it is. Otherwise Tier 1 hands it on, and Tier 2 asks for the action.
func looking(action string) func(dir string) string {
	const text = `#!/bin/sh
cat >/dev/null
good='[{"service":"web","check_type":"service","status":"healthy","error":""}]'
bad='[{"service":"web","check_type":"service","status":"down","error":"no file"}]'
rest='"actions":[],"events":[],"memories":[]'
if [ "$CLAUDEOPS_TIER" = 1 ]; then
  if [ -e DIR/web ]; then echo '{"schema_version":1,"outcome":"healthy","summary":"ok","check_results":'"$good,$rest"'}'; exit 0; fi
  echo '{"schema_version":1,"outcome":"escalate","summary":"down","check_results":'"$bad"',"handoff":{"schema_version":1,"recommended_tier":2,"reason":"down","services_affected":["web"],"check_results":'"$bad"',"cooldown_state":{}},'"$rest"'}'
  exit 0
fi
claudeops-act run web ACTION --why gone
echo '{"schema_version":1,"outcome":"resolved","summary":"repaired","check_results":'"$good,$rest"'}'
`
	return func(dir string) string {
		path := filepath.Join(dir, "agent")
		script := strings.NewReplacer("DIR", dir, "ACTION", action).Replace(text)
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil { //nolint:gosec // a program
			panic(err)
		}
		return path
	}
}

// actionPlaces runs a box and lists the places around the writes and effects of actions that it passes.
func actionPlaces(b *box) (out []place) {
	b.t.Helper()
	log := filepath.Join(b.t.TempDir(), "points")
	b.runWith([]string{"CLAUDEOPS_FAILPOINT=none:1", "CLAUDEOPS_FAILPOINT_LOG=" + log}, "once")
	raw, err := os.ReadFile(log)
	must(b.t, err)
	passed := map[string]int{}
	for _, name := range strings.Fields(string(raw)) {
		passed[name]++
		if strings.Contains(name, "action") && !strings.HasPrefix(name, "interrupt_") { // there is nothing to interrupt yet
			out = append(out, place{name, passed[name]})
		}
	}
	return out
}

// TestKillAtEveryWriteOfAnAction kills the supervisor at every place around an action that a session asked for, and inside of it. The
// action is never done twice: the probes of the next start decide whether it is needed.
func TestKillAtEveryWriteOfAnAction(t *testing.T) {
	t.Parallel()
	b, _ := countingBox(t, looking("second"), "")
	places := actionPlaces(b)
	if len(places) < 9 {
		t.Fatalf("only %d places: %v", len(places), places)
	}
	kill := func(t *testing.T, action, failpoint string) {
		t.Parallel()
		b, dir := countingBox(t, looking(action), "")
		if r := b.runWith([]string{"CLAUDEOPS_FAILPOINT=" + failpoint}, "once"); r.code != -1 {
			t.Fatalf("the supervisor was not killed: exit %d\n%s", r.code, r.stderr)
		}
		before := b.ran(dir)
		if r := b.run("once"); r.code != 0 {
			t.Fatalf("the next start exits %d\n%s%s", r.code, r.stdout, r.stderr)
		}
		// What was interrupted did not make the file: the next cycle finds the service down and asks once more, for a new run.
		want := "second\n"
		if action == "deadly" {
			want = "second\nsecond\n"
		}
		if got := b.ran(dir); got != want {
			t.Errorf("it ran %q at first, and then %q", before, got)
		}
		b.actionsEnded()
		b.nothingLeft()
	}
	for i, p := range places {
		if i%sparse() > 0 {
			continue
		}
		t.Run(fmt.Sprintf("%s-%d", p.name, p.time), func(t *testing.T) { kill(t, "second", fmt.Sprintf("%s:%d", p.name, p.time)) })
	}
	t.Run("inside", func(t *testing.T) { kill(t, "deadly", "none:1") })
}

// ran is what the actions noted.
func (b *box) ran(dir string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "ran"))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return string(text)
}

// actionsEnded checks that no run of an action is open.
func (b *box) actionsEnded() {
	b.t.Helper()
	for _, r := range b.actionRuns() {
		if !r.Status.Ended() {
			b.t.Errorf("action %d is still %s", r.ID, r.Status)
		}
	}
}

// TestKillAtEveryWriteOfAPlan does the same inside an approved plan of two steps.
func TestKillAtEveryWriteOfAPlan(t *testing.T) {
	t.Parallel()
	approved := func(t *testing.T, last string) (*box, string) {
		t.Helper()
		b, dir := countingBox(t, func(string) string {
			return planner(t, []string{"web"}, []map[string]string{step("web", "first"), step("web", last)})
		}, "")
		b.once(6)
		if r := b.run("approvals", "approve", "1"); r.code != 0 {
			t.Fatalf("approve exits %d: %s%s", r.code, r.stdout, r.stderr)
		}
		return b, dir
	}
	b, dir := approved(t, "second")
	places := actionPlaces(b)
	if got := b.ran(dir); got != "first\nsecond\n" || len(places) < 18 {
		t.Fatalf("it ran %q, and %d places: %v", got, len(places), places)
	}
	kill := func(t *testing.T, last, failpoint string) {
		t.Parallel()
		b, dir := approved(t, last)
		if r := b.runWith([]string{"CLAUDEOPS_FAILPOINT=" + failpoint}, "once"); r.code != -1 {
			t.Fatalf("the supervisor was not killed: exit %d\n%s", r.code, r.stderr)
		}
		if last == "deadly" { // the start that finds the interrupted step dies as well
			if r := b.runWith([]string{"CLAUDEOPS_FAILPOINT=interrupt_actions.after:1"}, "once"); r.code != -1 {
				t.Fatalf("the second supervisor was not killed: exit %d\n%s", r.code, r.stderr)
			}
		}
		r := b.run("once")
		got := b.ran(dir)
		if strings.Count(got, "first") > 1 || strings.Count(got, "second") > 1 {
			t.Errorf("it ran %q\n%s", got, r.stderr)
		}
		c := b.firstCycle()
		// A step that was interrupted ends the plan. What the probes say then decides whether Tier 3 is needed.
		healthy := c.Cycle.Status == ops.CycleResolved && len(c.Journal.Sessions) == 2
		if _, err := os.Stat(filepath.Join(dir, "web")); (err == nil) != healthy {
			t.Errorf("the cycle is %s with %d sessions (%s), it ran %q", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason, got)
		}
		if !c.Cycle.Status.Ended() {
			t.Errorf("the cycle is %s", c.Cycle.Status)
		}
		b.actionsEnded()
		b.nothingLeft()
	}
	for i, p := range places {
		if i%sparse() > 0 || p.time == 1 && strings.HasPrefix(p.name, "action.") {
			continue // of the first step only the transactions themselves
		}
		t.Run(fmt.Sprintf("%s-%d", p.name, p.time), func(t *testing.T) { kill(t, "second", fmt.Sprintf("%s:%d", p.name, p.time)) })
	}
	t.Run("inside", func(t *testing.T) { kill(t, "deadly", "none:1") })
}

// interruptedRepair is a box whose daemon was killed while Tier 2 worked. The service is well while the file exists.
func interruptedRepair(t *testing.T, recovery string, next ...agenttest.Play) (b *box, file string) {
	t.Helper()
	gate := gateFile(t)
	file = filepath.Join(t.TempDir(), "web-is-up")
	b = climbing(t, slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, append([]agenttest.Play{held(agenttest.Claims(0.1, "web"), gate)}, next...)...)),
		"CLAUDEOPS_RECOVERY="+recovery)
	b.configured(fmt.Sprintf("services:\n  - name: web\n    probes: [{type: command, command: [test, -e, %s], fail_after: 1, recover_after: 1, interval: 1s}]\n", file))
	d := b.ready()
	d.until("Tier 2 works", func() bool {
		c, ok := b.newest()
		return ok && len(c.Journal.Sessions) == 2 && c.Journal.Last().Status == ops.SessionRunning && len(b.calls()) == 2
	})
	must(t, d.cmd.Process.Kill())
	<-d.done
	d.done <- nil
	return b, file
}

// goOn starts the daemon again and returns how the interrupted cycle ended.
func goOn(b *box, id ops.CycleID) ops.Claimed {
	b.t.Helper()
	d := b.ready()
	d.until("the cycle is finished", func() bool { return b.load(id).Cycle.Status.Ended() })
	c := b.load(id)
	if s := c.Journal.Sessions[1]; s.Status != ops.SessionInterrupted || s.StopCause != ops.StopCrash || s.Tier != ops.Tier2 {
		b.t.Errorf("the interrupted session is %s by %s", s.Status, s.StopCause)
	}
	b.nothingLeft()
	return c
}

// A repair that took effect before the supervisor was killed is not repeated: the probes run first.
func TestInterruptedRepair_ThatWorkedIsNotRepeated(t *testing.T) {
	t.Parallel()
	b, file := interruptedRepair(t, "on")
	must(t, os.WriteFile(file, nil, 0o600))
	c := goOn(b, b.cycle().Cycle.ID)
	if c.Cycle.Status != ops.CycleResolved || len(c.Journal.Sessions) != 2 || len(b.calls()) != 2 {
		t.Errorf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
}

// A repair that did not take effect is asked for again at the same tier, by a session that is told about the first.
func TestInterruptedRepair_ThatDidNotWorkIsAskedForAgain(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	b, file := interruptedRepair(t, "on", held(agenttest.Claims(0.1, "web"), gate))
	d := b.ready()
	id := b.cycle().Cycle.ID
	d.until("Tier 2 is asked again", func() bool { return len(b.calls()) > 2 })
	for _, name := range []string{file, gate} { // it repairs the service now
		must(t, os.WriteFile(name, nil, 0o600))
	}
	d.until("the cycle is finished", func() bool { return b.load(id).Cycle.Status.Ended() })
	c := b.load(id)
	third := c.Journal.Sessions[2]
	if c.Cycle.Status != ops.CycleResolved || third.Tier != ops.Tier2 || third.RetryOf == nil || *third.RetryOf != c.Journal.Sessions[1].ID {
		t.Errorf("the cycle is %s (%s), the next session %+v", c.Cycle.Status, c.Cycle.Reason, third)
	}
	if got := c.Journal.Recoveries; len(got) != 1 || got[0].Level != ops.RecoveryReplan { // what it had said is gone with the supervisor
		t.Errorf("recoveries %+v", got)
	}
	if said := strings.Join(b.calls()[2].Args, "\n"); !strings.Contains(said, "interrupted") {
		t.Errorf("it is not told:\n%s", said)
	}
}

// Without the ladder a repair is never repeated: people are told.
func TestInterruptedRepair_WithoutRecoveryEndsTheCycle(t *testing.T) {
	t.Parallel()
	b, _ := interruptedRepair(t, "off")
	c := goOn(b, b.cycle().Cycle.ID)
	if c.Cycle.Status != ops.CycleFailed || len(c.Journal.Sessions) != 2 || len(b.events(ops.LevelCritical)) == 0 || len(b.notices()) == 0 {
		t.Errorf("the cycle is %s with %d sessions (%s), %d critical events, %d notices", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason,
			len(b.events(ops.LevelCritical)), len(b.notices()))
	}
}

// TestFaults makes a short selection of what `make fault` makes in full: kills at places where an effect has happened and its
// record has not, at random moments, and a storm of children.
func TestFaults(t *testing.T) {
	t.Parallel()
	// The program without the race detector: with it a start takes five times as long, and the other tests have it.
	harness, plain := filepath.Join(t.TempDir(), "fault"), filepath.Join(t.TempDir(), "claudeops")
	for path, args := range map[string][]string{harness: {"claudeops/test/fault"}, plain: {"-tags", "failpoint", "."}} {
		build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-o", path}, args...)...)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, harness, "-binary", plain, "-only", "kill,random,storm", "-seed", "1", "-random", "2", "-times", "1",
		"-parallel", "2", "-courses", "serve,ladder", "-points", `^(spawn\.after|gate\.close\.before|record\.queue\.before|record_guard\.after)$`)
	c.Dir = t.TempDir()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, group := range []string{"| kill | 4 | 0 | 0 |", "| random | 2 |", "| storm | 1 | 0 | 0 |"} {
		if !strings.Contains(out.String(), group) {
			t.Errorf("the report does not hold %q:\n%s", group, out.String())
		}
	}
}
