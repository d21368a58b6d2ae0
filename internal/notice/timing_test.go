package notice_test

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func clock(hour, minute int) time.Duration {
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
}

func TestQuietHoursHoldWhatIsNotUrgent(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	night := &ops.QuietHours{From: clock(22, 0), To: clock(7, 0), Zone: berlin}
	noon := &ops.QuietHours{From: clock(12, 30), To: clock(14, 0), Zone: berlin}
	info, critical := ops.Notice{Level: ops.LevelInfo}, ops.Notice{Level: ops.LevelCritical}
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 9, day, hour, minute, 0, 0, berlin) }
	for name, c := range map[string]struct {
		quiet *ops.QuietHours
		n     ops.Notice
		now   time.Time
		want  time.Time
	}{
		"before":               {night, info, at(28, 21, 59), at(28, 21, 59)},
		"at the begin":         {night, info, at(28, 22, 0), at(29, 7, 0)},
		"after midnight":       {night, info, at(29, 3, 15), at(29, 7, 0)},
		"at the end":           {night, info, at(29, 7, 0), at(29, 7, 0)},
		"in UTC":               {night, info, at(29, 3, 15).UTC(), at(29, 7, 0)},
		"within one day":       {noon, info, at(28, 13, 0), at(28, 14, 0)},
		"outside of one day":   {noon, info, at(28, 15, 0), at(28, 15, 0)},
		"critical":             {night, critical, at(29, 3, 0), at(29, 3, 0)},
		"approval":             {night, ops.Notice{Kind: ops.NoticeApproval, Level: ops.LevelWarning}, at(29, 3, 0), at(29, 3, 0)},
		"review":               {night, ops.Notice{Kind: ops.NoticeReview, Level: ops.LevelWarning}, at(29, 3, 0), at(29, 3, 0)},
		"for a second person":  {night, ops.Notice{Target: ops.TargetSecond, Level: ops.LevelInfo}, at(29, 3, 0), at(29, 3, 0)},
		"clocks are put back":  {night, info, time.Date(2026, 10, 24, 23, 0, 0, 0, berlin), time.Date(2026, 10, 25, 7, 0, 0, 0, berlin)},
		"clocks are put ahead": {night, info, time.Date(2026, 3, 28, 23, 0, 0, 0, berlin), time.Date(2026, 3, 29, 7, 0, 0, 0, berlin)},
	} {
		got := notice.SendAt(c.quiet, c.n, c.now)
		if !got.Equal(c.want) {
			t.Errorf("%s: sent at %s, want %s", name, got.In(berlin), c.want)
		}
		if again := notice.SendAt(c.quiet, c.n, got); !again.Equal(got) {
			t.Errorf("%s: at its time it waits again, until %s", name, again)
		}
	}
}

func TestAQuestionFitsTheLineThatAPhoneShows(t *testing.T) {
	long := ops.Message{
		Handler: "tier3", Tier: ops.Tier3, Expires: at(12), Now: at(2),
		Services: []string{"web", "a-service-with-a-very-long-name", "db"}, Environment: "default", Cycle: 1,
		What: "the upstream answered 502 Bad Gateway for the last twenty minutes and the container restarts again and again",
	}
	plan := long
	plan.Plan = []ops.ApprovedStep{{PlanStep: ops.PlanStep{Service: "web", Action: "restart"}, Does: "docker restart web"}}
	for _, text := range []notice.Text{
		say(ops.MessageApproval, long), say(ops.MessageApproval, plan), say(ops.MessageReview, long), say(ops.MessageApproval, ops.Message{Tier: ops.Tier3}),
	} {
		if first, _, _ := strings.Cut(text.Body, "\n"); len([]rune(first)) > 80 || first == "" {
			t.Errorf("the first line has %d characters: %s", len([]rune(first)), first)
		}
	}
}
