package ops

import "time"

// Retention says how long records are kept, and how much of them. Zero means for ever, or without a limit. The journal itself is
// always kept: cycles, sessions, decisions, recoveries. Nothing of an unfinished cycle or of an open incident is ever removed.
type Retention struct {
	Transcripts     time.Duration // output of sessions, counted from their end
	TranscriptBytes int64         // all transcripts together; the oldest go first
	SessionBytes    int64         // the output of one session; the beginning and the end stay
	Checks          time.Duration // results of probes that belong to no cycle; their counts by the hour and the day stay
	Hours           time.Duration // those counts by the hour
	Events          time.Duration // events, and of cycles the results of probes and what their steps were decided from
	Guard           time.Duration // judgements of tool calls
	Notices         time.Duration // notices that were delivered or given up
	Alerts          time.Duration // alerts and causes that are over
	Rows            int64         // results, events, steps and judgements: at most so many of each
}

// Record is a kind of record that is removed when it is old.
type Record string

// The kinds, in the order in which they are removed: what is large comes first.
const (
	RecordTranscripts Record = "transcripts"
	RecordChecks      Record = "checks"
	RecordEvents      Record = "events"
	RecordGuard       Record = "guard decisions"
	RecordNotices     Record = "notices"
	RecordAlerts      Record = "alerts"
	RecordHours       Record = "health by the hour"
)

// Records lists the kinds.
func Records() []Record {
	return []Record{
		RecordTranscripts, RecordChecks, RecordEvents, RecordGuard, RecordNotices, RecordAlerts, RecordHours,
	}
}
