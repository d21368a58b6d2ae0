package ops_test

import (
	"testing"
	"time"

	"claudeops/internal/ops"
)

func at(hour, minute int) time.Time { return time.Date(2026, 11, 16, hour, minute, 0, 0, time.UTC) }

func TestForecast(t *testing.T) {
	for name, c := range map[string]struct {
		budget, today, recent float64
		now                   time.Time
		gone                  string
	}{
		"at this rate":              {25, 10, 12, at(11, 55), "15:40"},
		"slow enough":               {25, 10, 3, at(12, 0), ""},
		"just before midnight":      {25, 13.1, 3, at(12, 0), "23:54"},
		"exactly at midnight":       {25, 13, 3, at(12, 0), ""},
		"no limit":                  {0, 10, 12, at(12, 0), ""},
		"used up already":           {25, 25, 12, at(12, 0), ""},
		"more than the budget":      {25, 30, 12, at(12, 0), ""},
		"nothing spent lately":      {25, 24, 0, at(12, 0), ""},
		"only yesterday, just over": {25, 0, 300, at(0, 5), "00:20"},
	} {
		f := ops.ForecastOf(c.budget, ops.Spending{TodayUSD: c.today, RecentUSD: c.recent}, c.now)
		got := ""
		if f.GoneAt != nil {
			got = f.GoneAt.Format("15:04")
		}
		if got != c.gone {
			t.Errorf("%s: gone at %q, want %q", name, got, c.gone)
		}
		if (f.Sentence(c.now) == "") != (c.gone == "") {
			t.Errorf("%s: %q", name, f.Sentence(c.now))
		}
	}
	f := ops.ForecastOf(25, ops.Spending{TodayUSD: 10, RecentUSD: 12}, at(11, 55))
	if got := f.Sentence(at(11, 55)); got != "At this rate ($4.00 per hour) the day's budget of $25.00 is gone at 15:40 UTC." {
		t.Error(got)
	}
}

func TestPeopleAreToldOnlyWhenItMatters(t *testing.T) {
	now := at(11, 55)
	high := ops.Spending{TodayUSD: 10, RecentUSD: 12}
	silence := func(q ops.Silence) []ops.Silence {
		q.From, q.Until = now.Add(-time.Hour), now.Add(time.Hour)
		return []ops.Silence{q}
	}
	over := silence(ops.Silence{Service: "*"})
	over[0].Until = now
	for name, c := range map[string]struct {
		spending ops.Spending
		dryRun   bool
		silences []ops.Silence
		want     bool
	}{
		"a high rate":                    {high, false, nil, true},
		"the budget lasts":               {ops.Spending{TodayUSD: 10, RecentUSD: 1}, false, nil, false},
		"too early in the day":           {ops.Spending{TodayUSD: 6, RecentUSD: 12}, false, nil, false},
		"dry run":                        {high, true, nil, false},
		"everything is silenced":         {high, false, silence(ops.Silence{Service: "*"}), false},
		"the budget is silenced":         {high, false, silence(ops.Silence{Service: "budget", Environment: "home"}), false},
		"silenced in another place":      {high, false, silence(ops.Silence{Service: "*", Environment: "other"}), true},
		"another service is silenced":    {high, false, silence(ops.Silence{Service: "web"}), true},
		"a silence of alerts":            {high, false, silence(ops.Silence{Labels: map[string]string{"a": "*"}}), true},
		"a silence that has just ended":  {high, false, over, true},
		"a silence of a group or probes": {high, false, silence(ops.Silence{Group: "media"}), true},
	} {
		if got := ops.ForecastOf(25, c.spending, now).Alarm("home", c.dryRun, c.silences, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	one, other := ops.ForecastOf(25, high, now), ops.ForecastOf(30, high, now)
	if one.Key("home", now) == other.Key("home", now) || one.Key("home", now) == one.Key("home", now.AddDate(0, 0, 1)) ||
		one.Key("home", now) != one.Key("home", now.Add(time.Hour)) {
		t.Error("a crossing is not told apart by its day and its budget")
	}
}

// A page, a command and a message say the same amount.
func TestAnAmountIsSpelledOneWay(t *testing.T) {
	of := func(usd float64) *float64 { return &usd }
	for usd, want := range map[*float64]string{nil: "unknown", of(0): "$0.00", of(0.0042): "$0.0042", of(0.01): "$0.01", of(12.345): "$12.35"} {
		if got := ops.Dollars(usd); got != want {
			t.Errorf("said %s, want %s", got, want)
		}
	}
}
