package watch

import (
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

func openedNotice(c ops.Cause, checks []ops.Check, dryRun bool, now time.Time) *ops.Notice {
	level := ops.LevelWarning
	if c.Level == ops.Down {
		level = ops.LevelCritical
	}
	text := notice.Opened(c, checks, dryRun)
	return &ops.Notice{
		Kind: ops.NoticeOpened, Level: level, Title: text.Title, Body: text.Body, Environment: c.Environment, Service: c.Services[0],
		Key: "opened:" + c.Environment + ":" + c.Key, Status: ops.NoticePending, NextAt: now, CreatedAt: now,
	}
}

func resolvedNotice(c ops.Cause, how string, now time.Time) *ops.Notice {
	text := notice.Recovered(c, how, now)
	return &ops.Notice{
		Kind: ops.NoticeResolved, Level: ops.LevelInfo, Title: text.Title, Body: text.Body, Environment: c.Environment, Service: c.Services[0],
		Key: "resolved:" + c.Environment + ":" + c.Key, Status: ops.NoticePending, NextAt: now, CreatedAt: now,
	}
}
