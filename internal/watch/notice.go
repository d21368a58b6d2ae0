package watch

import (
	"fmt"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/watch/health"
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

func flappingNotice(environment string, flapping []health.Flapping, now time.Time) ops.Notice {
	first := flapping[0]
	names := make([]string, len(flapping))
	for i, f := range flapping {
		names[i] = f.Service
	}
	text := notice.Flapping(environment, names, first.Since, first.Calm, first.Error)
	return ops.Notice{
		Kind: ops.NoticeNeedsHuman, Level: ops.LevelWarning, Title: text.Title, Body: text.Body, Environment: environment, Service: first.Service,
		Key:    fmt.Sprintf("flapping:%s:%s:%d", environment, first.Service, first.Since.Unix()),
		Status: ops.NoticePending, NextAt: now, CreatedAt: now,
	}
}
