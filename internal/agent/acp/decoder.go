package acp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// decoder reads the output of one session and leads its conversation.
type decoder struct {
	*client

	prices ops.Prices
	places places
	told   map[string]bool // the calls that were passed on
}

// Line reads one line of output, and answers it.
func (d *decoder) Line(text string) agent.Progress {
	d.calls.changed = false
	before := d.phase
	d.line(text)
	p := agent.Progress{Changed: d.calls.changed || before != d.phase, Open: d.calls.open, Ending: d.phase == over}
	p.Ran, d.calls.ran = d.calls.ran, nil
	return p
}

// Activities are what a line tells.
func (d *decoder) Activities(line string) (out []ops.Activity) {
	if d.phase != running && d.phase != over {
		return nil // what a conversation that is continued did is history
	}
	for _, a := range activities(line) {
		switch {
		case a.Kind == ops.ActivityCall && d.told[a.UseID]:
			continue
		case a.Kind == ops.ActivityCall:
			d.told[a.UseID] = true
			if c := d.calls.byID[a.UseID]; c != nil && len(c.judged) > 0 { // the question need not hold all of it
				a.Tool, a.Input = c.judged[0].Tool, string(c.judged[0].Input)
			}
		case a.Kind == ops.ActivityResult && !d.told[a.UseID] && !a.Failed:
			// It ran unasked.
			d.told[a.UseID] = true
			out = append(out, ops.Activity{Kind: ops.ActivityCall, UseID: a.UseID, Tool: a.Tool, Input: "{}"})
		}
		out = append(out, a)
	}
	if own := d.ownCost(); own != nil && *own > 0 && strings.Contains(line, `"usage_update"`) {
		out = append(out, ops.Activity{Kind: ops.ActivityUsage, Model: d.spec.Session.Model, CostUSD: *own})
	}
	return out
}

// ownCost is what this run has cost so far; nil when that is not known.
func (d *decoder) ownCost() *float64 {
	switch {
	case d.cost == nil:
		return nil
	case !d.resumed || !d.profile.Adds:
		return d.cost
	case d.spec.SpentUSD == nil:
		return nil
	}
	return ops.Ptr(max(*d.cost-*d.spec.SpentUSD, 0))
}

// Finish adds what the CLI reported.
func (d *decoder) Finish(res *ops.RunResult, _ string) {
	d.wire.close()
	res.CLIVersion, res.Model = d.version, d.spec.Session.Model
	res.Text = strings.TrimSpace(d.said.String())
	d.figures(res)
	d.conversation(res)
	if err := d.wire.broken(); err != nil && d.phase != over && res.Stop == ops.StopNone && *res.ExitCode == 0 {
		d.failure = &failure{class: ops.FailureAgent, text: fmt.Sprintf("%s stopped reading its input: %v", d.profile.Name, err)}
	}
	res.ResultRead = d.reason != "" || d.failure != nil
	if f := d.failure; f != nil {
		res.IsError, res.Failure, res.Err = true, f.class, f.text
		if res.Stop == ops.StopNone {
			res.APIStatus = f.status
		}
	}
	if res.ResultRead && !res.IsError && d.spec.OutcomeJSON != "" {
		res.Structured = outcomeIn(d.said.String())
	}
	for _, w := range d.warnings {
		res.Warnings = append(res.Warnings, d.profile.Name+" does not keep to the protocol: "+w)
	}
	if d.garbage > 0 {
		res.Warnings = append(res.Warnings, fmt.Sprintf("%s printed %d lines that are no messages of the protocol", d.profile.Name, d.garbage))
	}
	if d.trial != nil {
		d.trial.finish(*res)
	}
}

// figures are the numbers of this run.
func (d *decoder) figures(res *ops.RunResult) {
	if d.turns > 0 {
		res.NumTurns = ops.Ptr(int64(d.turns))
	}
	if d.used > 0 {
		res.ContextTokens = ops.Ptr(d.used)
	}
	if d.size > 0 {
		res.ContextWindow = ops.Ptr(d.size)
	}
	if u := d.usage; u != nil {
		res.InputTokens, res.OutputTokens = ops.Ptr(u.Input), ops.Ptr(u.Output)
		res.CacheReadTokens, res.CacheWriteTokens = ops.Ptr(u.CacheRead), ops.Ptr(u.CacheWrite)
	}
	res.ReportedUSD, res.CostUSD = d.cost, d.ownCost()
	if p, ok := price(d.prices, d.spec.Session.Model); ok && res.CostUSD == nil && d.usage != nil {
		const million = 1_000_000
		u := d.usage
		res.CostUSD = ops.Ptr((float64(u.Input)*p.Input + float64(u.Output)*p.Output +
			float64(u.CacheRead)*p.CacheRead + float64(u.CacheWrite)*p.CacheWrite) / million)
	}
}

// conversation names the conversation, if it can be continued.
func (d *decoder) conversation(res *ops.RunResult) {
	if d.profile.Record == "" || !agent.ValidConversationID(d.session) || d.trial != nil {
		return
	}
	pattern := strings.ReplaceAll(d.places.fill(d.profile.Record), "{id}", d.session)
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		return
	}
	// Opening something else, such as a pipe, could wait without end.
	if info, err := os.Lstat(found[0]); err != nil || !info.Mode().IsRegular() {
		return
	}
	res.CLISessionID, res.Conversation = d.session, agent.FingerprintOf(found[0])
}
