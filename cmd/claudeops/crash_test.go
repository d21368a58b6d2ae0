package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// TestKillAtEveryWrite kills the supervisor with SIGKILL at every other place around the journal writes and the effects of a
// three-tier chain, starts it again, and looks at what the journal says.
func TestKillAtEveryWrite(t *testing.T) {
	log := filepath.Join(t.TempDir(), "points")
	b := newBox(t, chain())
	if r := b.runWith([]string{"CLAUDEOPS_FAILPOINT=none:1", "CLAUDEOPS_FAILPOINT_LOG=" + log}, "once"); r.code != 0 {
		t.Fatalf("the chain itself exits %d\n%s", r.code, r.stderr)
	}
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	points := strings.Fields(string(raw))
	if len(points) < 30 {
		t.Fatalf("only %d points: %v", len(points), points)
	}
	passed := map[string]int{}
	for n, name := range points {
		passed[name]++
		point := place{name, passed[name]}
		if n%2 == 1 {
			continue // `make fault` kills at every one of them, many times
		}
		t.Run(fmt.Sprintf("%02d-%s", n+1, name), func(t *testing.T) {
			t.Parallel()
			killAt(t, point, newBox(t, andThenHealthy(chain(), agenttest.Healthy(0.01))))
		})
		if n%8 == 0 { // the write order is the same; some points are enough to see that a conversation is continued as well
			t.Run(fmt.Sprintf("%02d-%s-resume", n+1, name), func(t *testing.T) {
				t.Parallel()
				killAt(t, point, resumeBox(t, andThenHealthy(conversation(), speaks(1, 0.01, ops.OutcomeHealthy))))
			})
		}
	}
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
		cycles, err := s.Cycles(context.Background(), store.CycleFilter{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cycles {
			checkAfterCrash(t, c, starts)
		}
		if flaws, err := s.Verify(context.Background(), true); err != nil || len(flaws) > 0 {
			t.Errorf("flaws %+v, %v", flaws, err)
		}
	})
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
