package config

import (
	"time"

	"claudeops/internal/ops"
)

const mostMegabytes = 1 << 30

func retentionSettings() []setting {
	return []setting{
		{
			key: "retention.transcripts", env: "CLAUDEOPS_RETENTION_TRANSCRIPTS", def: "720h", kind: waitKind(),
			doc: "How long the output of sessions is kept after they ended; 0 means for ever. Cycles, sessions and decisions themselves are always kept. See [operations.md](operations.md#what-is-kept-and-for-how-long).",
		},
		{
			key: "retention.transcripts_max_mb", env: "CLAUDEOPS_RETENTION_TRANSCRIPTS_MAX_MB", def: "2048", kind: wholeKind(0, mostMegabytes),
			doc: "Megabytes of output of all ended sessions together; the oldest goes first. 0 means no limit.",
		},
		{
			key: "retention.checks", def: "336h", kind: waitKind(),
			doc: "How long single results of probes are kept; 0 means for ever. The health bars count them by the hour and the day and do not need them.",
		},
		{
			key: "retention.health_hours", def: "2160h", kind: waitKind(),
			doc: "How long health is known by the hour; 0 means for ever. By the day it is always known.",
		},
		{
			key: "retention.events", def: "2160h", kind: waitKind(),
			doc: "How long events, and the results of probes that belong to a cycle, are kept; 0 means for ever.",
		},
		{
			key: "retention.guard", def: "2160h", kind: waitKind(),
			doc: "How long the guard's judgements are kept; 0 means for ever.",
		},
		{
			key: "retention.notices", def: "2160h", kind: waitKind(),
			doc: "How long notices that were delivered or given up are kept; 0 means for ever.",
		},
		{
			key: "retention.alerts", def: "720h", kind: waitKind(),
			doc: "How long alerts, and the causes they had, are kept when they are over; 0 means for ever.",
		},
		{
			key: "retention.max_rows", def: "5000000", kind: wholeKind(0, mostMegabytes),
			doc: "Most results of probes, events and judgements, of each so many; the oldest go first. 0 means no limit.",
		},
	}
}

func (c *Config) retention() ops.Retention {
	k := c.values
	return ops.Retention{
		Transcripts: get[time.Duration](k, "retention.transcripts"), TranscriptBytes: int64(get[int](k, "retention.transcripts_max_mb")) << 20,
		Checks: get[time.Duration](k, "retention.checks"), Hours: get[time.Duration](k, "retention.health_hours"),
		Events: get[time.Duration](k, "retention.events"), Guard: get[time.Duration](k, "retention.guard"),
		Notices: get[time.Duration](k, "retention.notices"), Alerts: get[time.Duration](k, "retention.alerts"),
		Rows: int64(get[int](k, "retention.max_rows")),
	}
}
