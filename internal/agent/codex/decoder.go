package codex

import (
	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// decoder reads the output of one session.
type decoder struct {
	stream

	tail    tail
	spec    ops.SessionSpec
	home    string // CODEX_HOME
	version string
	prices  ops.Prices
	before  *usage // what the continued conversation had used; nil when that is not known
}

func newDecoder(spec ops.SessionSpec, home, version string, prices ops.Prices) *decoder {
	d := &decoder{spec: spec, home: home, version: version, prices: prices, before: before(spec, home)}
	if gate := gateOf(spec); gate != "" {
		d.gates = []string{shells(gate) + "/", systemShell}
	}
	d.tail = tail{home: home, model: spec.Session.Model, st: &d.stream}
	return d
}

// Line reads one line of output.
func (d *decoder) Line(text string) agent.Progress {
	changed := d.line(text)
	p := agent.Progress{Changed: changed, Open: d.open, Ran: d.ungated}
	d.ungated = nil
	return p
}

// Activities are what a line tells, after what the record of the conversation tells by now.
func (d *decoder) Activities(line string) []ops.Activity {
	return append(d.tail.usage(), activities(line)...)
}

// Finish adds what Codex reported.
func (d *decoder) Finish(res *ops.RunResult, lastError string) {
	st := &d.stream
	res.Warnings = append(res.Warnings, st.warnings...)
	res.CLIVersion, res.Model = d.version, d.spec.Session.Model
	if agent.ValidConversationID(st.thread) {
		res.CLISessionID = st.thread
		path := findRecord(d.home, st.thread)
		res.Conversation = agent.FingerprintOf(path)
		d.figures(res, readRecord(path))
	}
	res.ResultRead, res.IsError = st.completed || st.failed, st.failed
	res.Text = st.said
	if d.spec.OutcomeJSON != "" && st.completed {
		res.Structured = normalized(d.spec.OutcomeJSON, st.said)
	}
	d.judge(res, lastError)
}
