package story_test

import (
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/story"
)

func TestToldMeansDelivered(t *testing.T) {
	phone := ops.Notice{Status: ops.NoticeSent, Deliveries: []ops.Delivery{{Route: "route night", To: "ntfy at ntfy.sh", At: at(3)}}}
	skipped := ops.Notice{Status: ops.NoticeSkipped, Error: ops.SkippedNoTarget}
	muted := ops.Notice{Status: ops.NoticeSkipped, Error: ops.SkippedMuted}
	dead := ops.Notice{Status: ops.NoticeDead, Error: "HTTP 500"}
	tried := ops.Notice{Status: ops.NoticePending, Error: "HTTP 500"}
	half := ops.Notice{Status: ops.NoticePending, Error: "HTTP 500", Deliveries: phone.Deliveries}
	old := ops.Notice{Status: ops.NoticeSent}
	for name, c := range map[string]struct {
		notices []ops.Notice
		want    string
	}{
		"nothing":             {nil, ""},
		"delivered":           {[]ops.Notice{phone}, "Told: ntfy at ntfy.sh, by route night, at 2026-09-28 14:00:03 UTC"},
		"delivered twice":     {[]ops.Notice{phone, phone}, "Told: ntfy at ntfy.sh, by route night, at 2026-09-28 14:00:03 UTC (2 deliveries)"},
		"no target":           {[]ops.Notice{skipped}, "Nobody was told: no notification target"},
		"target removed":      {[]ops.Notice{phone, skipped}, "Nobody was told: no notification target"},
		"target added":        {[]ops.Notice{skipped, phone}, "Told: ntfy at ntfy.sh, by route night, at 2026-09-28 14:00:03 UTC"},
		"given up":            {[]ops.Notice{dead}, "Nobody was told: the notice could not be delivered: HTTP 500"},
		"tried":               {[]ops.Notice{tried}, "Nobody was told yet: the notice could not be delivered and is tried again: HTTP 500"},
		"one of two targets":  {[]ops.Notice{half}, "Told: ntfy at ntfy.sh, by route night, at 2026-09-28 14:00:03 UTC"},
		"muted":               {[]ops.Notice{muted}, "Nobody was told: the route of the notice has no target"},
		"muted after a call":  {[]ops.Notice{phone, muted}, "Told: ntfy at ntfy.sh, by route night, at 2026-09-28 14:00:03 UTC"},
		"before it was noted": {[]ops.Notice{old}, ""},
	} {
		if got := story.ToldBy(c.notices).Words(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A report says that nobody was told, and never that somebody was called.
func TestTheReportSaysThatNobodyWasTold(t *testing.T) {
	s := waiting()
	s.Notices = []ops.Notice{{Title: "Claude Ops: web is down", Status: ops.NoticeSkipped, Error: ops.SkippedNoTarget, CreatedAt: at(20)}}
	text := story.Markdown(s, nil, at(300))
	if !strings.Contains(text, "- **Nobody was told: no notification target**") || strings.Contains(text, "called") {
		t.Errorf("the report says:\n%s", text)
	}
}
