package claude

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// decoder reads the output of one session.
type decoder struct {
	stream

	name    string
	planned string          // the id the conversation was to have
	resumed bool            // it continues a conversation
	before  ops.Fingerprint // the record of that conversation
	spent   *float64        // what that conversation had cost
	config  string          // the CLI's configuration folder
	version string          // as asked before the session; the stream's own counts more
	retries bool            // the CLI is known to repeat a call of the model that failed
	clock   ops.Clock
}

func newDecoder(spec ops.SessionSpec, name, config string, can abilities, clock ops.Clock) *decoder {
	return &decoder{
		stream: stream{held: spec.Gate != nil && spec.Gate.Allowed != nil},
		name:   name, planned: spec.Session.PlannedID, resumed: spec.Resume != "", before: spec.Conversation, spent: spec.SpentUSD,
		config: config, version: can.version, retries: can.retries, clock: clock,
	}
}

// Line reads one line of output.
func (d *decoder) Line(text string) agent.Progress {
	p := agent.Progress{Changed: d.line(text)}
	p.Ending = d.ending
	if p.Changed {
		for _, c := range d.open {
			p.Open = append(p.Open, c.Call)
		}
	}
	p.Ran, d.ran = d.ran, nil
	return p
}

// Activities reads from a line what the session did.
func (d *decoder) Activities(line string) []ops.Activity { return activities(line) }

// Finish adds what the CLI reported.
func (d *decoder) Finish(res *ops.RunResult, lastError string) {
	st := &d.stream
	res.CLISessionID, res.CLIVersion, res.Model = st.sessionID, st.version, st.model
	res.CLIVersion = cmp.Or(res.CLIVersion, d.version)
	res.Model = cmp.Or(res.Model, st.lastModel)
	res.Conversation = findRecord(d.config, res.CLISessionID)
	res.Figures = st.figures()
	if r := st.result; r != nil {
		res.ReportedUSD = price(r.total())
		if d.resumed && st.own == nil {
			d.ownShare(res)
		}
		res.ResultRead, res.IsError = true, r.failed()
		res.Text, res.Structured, res.Denials = r.words(), r.structured(), r.Denials
	}
	switch {
	case d.resumeRefused(lastError):
		res.Failure = ops.FailureResumeRefused
		res.Err = agent.WithDetail(d.name+" could not continue the conversation", d.refusal(lastError))
	case res.IsError:
		res.Failure, res.Err = d.reported()
	}
	if res.Stop == ops.StopNone && res.IsError {
		res.APIStatus, res.RetryAfter = d.apiStatusCode(), d.retryAfter()
	}
	res.Warnings = append(res.Warnings, st.warnings...)
	if d.planned != "" && res.CLISessionID != "" && res.CLISessionID != d.planned {
		res.Warnings = append(res.Warnings, fmt.Sprintf("the CLI used session id %s instead of %s", res.CLISessionID, d.planned))
	}
}

// findRecord looks for the record the CLI keeps of a conversation. Its folder is named after the working folder by a rule of
// the CLI's own; the id is unique, so it is looked for in all of them.
func findRecord(configDir, id string) ops.Fingerprint {
	if !agent.ValidConversationID(id) {
		return ops.Fingerprint{}
	}
	found, err := filepath.Glob(filepath.Join(configDir, "projects", "*", id+".jsonl"))
	if err != nil || len(found) != 1 {
		return ops.Fingerprint{}
	}
	return agent.FingerprintOf(found[0])
}

// longOutputs is where the CLI keeps outputs of tools that are too long for the record, which names the files.
func longOutputs(record string) string {
	return filepath.Join(strings.TrimSuffix(record, ".jsonl"), "tool-results")
}

// resumeRefused reports whether the CLI did not know the conversation it was to continue, before it did anything.
func (d *decoder) resumeRefused(lastError string) bool {
	if !d.resumed {
		return false
	}
	const unknown = "No conversation found"
	if strings.Contains(lastError, unknown) {
		return true
	}
	r := d.result
	if r == nil || !r.failed() {
		return false
	}
	turns := whole(r.NumTurns)
	return strings.Contains(r.words(), unknown) || (r.Subtype == "error_during_execution" && (turns == nil || *turns == 0))
}

// refusal is what the CLI said when it did not continue a conversation.
func (d *decoder) refusal(lastError string) string {
	if r := d.result; r != nil && r.words() != "" {
		return agent.FirstLine(r.words())
	}
	return lastError
}
