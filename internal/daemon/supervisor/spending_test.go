package supervisor

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// costs is a store of what was spent.
type costs struct {
	spent    ops.Spending
	silences []ops.Silence
	notices  []ops.Notice
	events   []ops.Event
}

func (c *costs) Spending(context.Context, string, time.Duration, time.Time) (ops.Spending, error) {
	return c.spent, nil
}

func (c *costs) SilencesSince(context.Context, string, time.Time) ([]ops.Silence, error) {
	return c.silences, nil
}

func (c *costs) AddNoticeOnce(_ context.Context, n ops.Notice, e ops.Event, since time.Time) (bool, error) {
	for _, old := range c.notices {
		if old.Key == n.Key && !old.CreatedAt.Before(since) {
			return false, nil
		}
	}
	c.notices, c.events = append(c.notices, n), append(c.events, e)
	return true, nil
}

func TestPeopleAreToldOnceADayThatTheBudgetWillNotLast(t *testing.T) {
	now := time.Date(2026, 11, 16, 11, 55, 0, 0, time.UTC)
	c := &costs{spent: ops.Spending{TodayUSD: 10, RecentUSD: 12}}
	changed := 0
	s := &Spending{
		Costs: c, Silences: c, Notices: c, Environments: []ops.Environment{{Name: "free"}, {Name: "home", Policy: ops.Policy{BudgetDayUSD: 25}}},
		Changed: func() { changed++ }, Clock: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
	}
	look := func(want int) {
		t.Helper()
		if err := s.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(c.notices) != want || changed != want {
			t.Fatalf("%d notices, %d wake-ups, want %d", len(c.notices), changed, want)
		}
	}
	c.silences = []ops.Silence{{Service: "budget", From: now, Until: now.Add(time.Minute)}}
	look(0)
	now = now.Add(time.Minute)
	s.Environments[1].Policy.DryRun = true
	look(0)
	s.Environments[1].Policy.DryRun = false
	look(1)
	now = now.Add(7 * time.Hour)
	c.spent.TodayUSD = 20
	look(1) // the same crossing
	s.Environments[1].Policy.BudgetDayUSD = 30
	look(2) // another budget
	now = now.Add(12 * time.Hour)
	c.spent.TodayUSD = 9
	look(3) // another day
	n := c.notices[0]
	if n.Kind != ops.NoticeBudget || n.Level != ops.LevelWarning || n.Environment != "home" || !strings.Contains(n.Title, "will not last") ||
		!strings.Contains(n.Body, "is gone at 15:41 UTC") || c.events[0].Level != ops.LevelWarning {
		t.Errorf("%+v %+v", n, c.events[0])
	}
	if first, _, _ := strings.Cut(n.Title, "\n"); len(first) > 80 {
		t.Errorf("the first line is long: %s", first)
	}
}
