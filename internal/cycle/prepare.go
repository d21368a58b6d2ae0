package cycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/prompts"
)

// preparation is one thing that makes a spec ready to run.
type preparation func(*draft) error

// draft is a spec in the making.
type draft struct {
	env      ops.Environment // its repositories are those that the session works in
	repos    string          // the operator's
	now      ops.Claimed
	handler  ops.Handler
	brief    decide.Brief
	gated    bool     // every call is judged
	changes  []string // since what is affected was last healthy
	notes    []ops.Notes
	memories []ops.Memory
	calls    []ops.Call // what the session did that a judge is asked about
	spec     ops.SessionSpec
	warnings []string
}

// prepare turns a queued session into what its agent needs, and says what the operator should know about it.
func (a *Advancer) prepare(ctx context.Context, env ops.Environment, now ops.Claimed, s ops.Session) (ops.SessionSpec, []string, error) {
	handler, _ := now.Cycle.Policy.Handler(s.Handler)
	brief := decide.BriefFor(notice.Steps{}, now, s, a.Clock())
	d := &draft{env: env, now: now, handler: handler, brief: brief, gated: a.Gates.Judge(), spec: ops.SessionSpec{
		Session: s, Environment: env.Name, StateDir: env.StateDir, WorkDir: env.WorkDir, Command: handler.Command,
		DryRun: now.Cycle.Policy.DryRun, Env: env.AgentEnv, Limits: handler.Limits.Or(env.Limits), Tools: env.Tools[s.May()],
	}}
	d.repos = a.Environments[env.Name].ReposDir
	if s.Works() && s.ContextMode != ops.ContextResume {
		d.memories = a.recall(ctx, d) // a conversation that goes on has been told
		d.changes = a.Knowledge.Changes(ctx, env, d.brief.Services())
		d.notes = a.Knowledge.Notes(ctx, env)
	}
	if s.Role == ops.RoleJudge {
		d.calls = a.calls(ctx, d)
	}
	d.spec.Deadline = d.brief.Deadline()
	for _, step := range steps(s) {
		if err := step(d); err != nil {
			return ops.SessionSpec{}, d.warnings, fmt.Errorf("prepare session %d: %w", s.ID, err)
		}
	}
	return d.spec, d.warnings, nil
}

func steps(s ops.Session) []preparation {
	if !s.Works() {
		return []preparation{folders, question}
	}
	return []preparation{
		folders, cooldownSnapshot, formOfAnswer, conversation, prompt, leaveAlone, planDone, anotherAttempt, started,
		environmentPrompt, escalationContext,
	}
}

// recall reads what earlier sessions learnt about the services at hand. Memory helps; without it the session runs too.
func (a *Advancer) recall(ctx context.Context, d *draft) []ops.Memory {
	found, err := a.Knowledge.Recall(ctx, d.env.Name, d.brief.Services())
	if err != nil {
		d.warnings = append(d.warnings, fmt.Sprintf("memory could not be read: %v", err))
	}
	return found
}

// calls reads what the session in question did, from its stored output.
func (a *Advancer) calls(ctx context.Context, d *draft) []ops.Call {
	about := d.now.Journal.Parent(d.spec.Session)
	if about == nil {
		return nil
	}
	past, ok := a.Runners[about.Agent]
	if !ok {
		return nil // its agent is not configured any more
	}
	lines, err := a.Knowledge.Transcript(ctx, about.ID)
	if err != nil {
		d.warnings = append(d.warnings, fmt.Sprintf("the output of session %d could not be read for the judge: %v", about.ID, err))
		return nil
	}
	refusals, err := a.Record.Refusals(ctx, about.ID)
	if err != nil {
		d.warnings = append(d.warnings, fmt.Sprintf("what was refused in session %d could not be read for the judge: %v", about.ID, err))
		return nil
	}
	var out []ops.Call
	at := map[string]int{}
	for _, line := range lines {
		for _, act := range past.Activities(line.Text) {
			switch i, open := at[act.UseID]; {
			case act.Kind == ops.ActivityCall && act.Tool != ops.ToolOutcome:
				at[act.UseID] = len(out)
				out = append(out, ops.Call{UseID: act.UseID, Tool: act.Tool, Input: act.Input})
			case act.Kind == ops.ActivityResult && open:
				out[i].Output, out[i].Failed, out[i].Returned = act.Output, act.Failed, true
			}
		}
	}
	for i, c := range out {
		if g, refused := refusals.Of(c.UseID, c.Input, c.Output); refused {
			out[i].Refused = g.Reason
		}
	}
	return out
}

func folders(d *draft) error {
	return ops.Wrapped(os.MkdirAll(d.spec.WorkDir, 0o700), "create working folder")
}

// formOfAnswer says in which form the session has to answer.
func formOfAnswer(d *draft) error {
	if d.spec.Session.Structured {
		d.spec.OutcomeJSON = report.Inline(d.spec.Session.Tier)
	}
	return nil
}

// errElsewhere: what a CLI keeps of a conversation stays on its host; it holds text that nobody has redacted.
var errElsewhere = errors.New("conversations do not leave their host")

// conversation names the one to continue.
func conversation(d *draft) error {
	s := d.spec.Session
	if s.ContextMode != ops.ContextResume {
		return nil
	}
	parent := d.now.Journal.Parent(s)
	if s.RecoveryLevel == ops.RecoveryNudge && s.RetryOf != nil {
		parent = d.now.Journal.Session(*s.RetryOf) // the same conversation goes on, at the same tier
	}
	if parent == nil || parent.CLISessionID == "" {
		return fmt.Errorf("find conversation to continue: %w", ops.ErrNotFound)
	}
	if host := d.now.Cycle.Owner.Host; host != "" && parent.Owner != "" && parent.Owner != host {
		return fmt.Errorf("session %d ran on host %s, and %w", parent.ID, parent.Owner, errElsewhere)
	}
	d.spec.Resume, d.spec.Conversation, d.spec.SpentUSD = parent.CLISessionID, parent.Conversation, parent.ReportedUSD
	return nil
}

// started tells of a command that was cut off: the CLI drops it from the conversation, but it may have run.
func started(d *draft) error {
	s := d.spec.Session
	before := d.now.Journal.Parent(s)
	if s.RetryOf != nil {
		before = d.now.Journal.Session(*s.RetryOf)
	}
	if before == nil || before.OpenTool == "" || s.RecoveryLevel > ops.RecoveryRetry {
		return nil // the ladder's own words name it already
	}
	d.spec.Prompt = strings.TrimRight(d.spec.Prompt, "\n") + fmt.Sprintf(
		"\n\n## A command that was cut off\n\nAn earlier session was stopped while this was running. "+
			"It was started and may have taken effect; look before you repeat it.\n\n%s\n",
		report.Quote(before.OpenTool),
	)
	return nil
}

// environmentPrompt puts the environment facts where every tool of the CLI sees them.
func environmentPrompt(d *draft) error {
	if d.spec.Resume != "" {
		return nil // they stand in the conversation already
	}
	facts, err := prompts.Facts(promptData(d))
	if err != nil {
		return err
	}
	d.spec.SystemPrompt = fmt.Sprintf("Environment: %s\n\n%s", d.env.Name, facts)
	return nil
}

// escalationContext passes on what the parent found.
func escalationContext(d *draft) error {
	s := d.spec.Session
	if s.ContextMode != ops.ContextHandoff || s.ParentID == nil {
		return nil
	}
	facts, err := d.brief.Handoff()
	if err != nil {
		return err
	}
	parent := d.now.Journal.Parent(s)
	source := report.Source{Tier: parent.Tier, Handler: parent.Handler, Model: parent.Model}
	text, truncated := report.Context(facts, source, d.brief.EarlierChecks())
	for _, t := range truncated {
		d.warnings = append(d.warnings, "handoff context was truncated: "+t)
	}
	d.spec.SystemPrompt += "\n" + text
	return nil
}

// leaveAlone names the services that are held back, and why.
func leaveAlone(d *draft) error {
	alone := d.brief.LeaveAlone()
	if d.spec.Session.Tier == ops.Tier1 {
		alone = d.brief.Unseen() // it changes nothing
	}
	lines := ops.Map(alone, func(h ops.Hold) string { return fmt.Sprintf("- %s: %s", h.Service, h.Why) })
	if len(lines) > 0 {
		d.append("Leave these alone",
			"These services are held back. Do not touch them, and do not report on their state:\n\n"+strings.Join(lines, "\n"))
	}
	return nil
}

// planDone says what the supervisor did of an approved plan before it started this session.
func planDone(d *draft) error {
	var lines []string
	for _, r := range d.now.Journal.Runs {
		if r.ApprovalID == 0 || r.UndoOf != 0 {
			continue
		}
		line := fmt.Sprintf("- %s of %s: %s", r.Action, r.Service, r.Status)
		if r.Error != "" {
			line += " (" + r.Error + ")"
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		d.append("What the supervisor did before you",
			"A human approved these actions, and they did not solve the problem:\n\n"+strings.Join(lines, "\n"))
	}
	return nil
}

// append adds a section to the prompt.
func (d *draft) append(title, text string) {
	d.spec.Prompt = strings.TrimRight(d.spec.Prompt, "\n") + "\n\n## " + title + "\n\n" + strings.TrimRight(text, "\n") + "\n"
}

// anotherAttempt tells the session what was tried before it and why it did not help.
func anotherAttempt(d *draft) error {
	title, text, err := d.brief.Attempt(minimal(d.spec.Session))
	switch {
	case err != nil || text == "":
		return err
	case title == "":
		d.spec.Prompt = text // a nudge: the conversation goes on
	default:
		d.append(title, text)
	}
	return nil
}

// question prepares a session that answers the supervisor and changes nothing.
func question(d *draft) error {
	var err error
	if d.spec.Session.Role == ops.RoleManager {
		d.spec.Tools = ops.ToolLists{Tools: []string{"Read"}, Allowed: []string{"Read"}, Disallowed: d.spec.Tools.Disallowed}
	}
	d.spec.Prompt, d.spec.OutcomeJSON, err = d.brief.Question(d.calls)
	return err
}

// minimal is a valid answer in the form the session has to give it.
func minimal(s ops.Session) string {
	if !s.Structured {
		return report.HandoffExample(s.Tier)
	}
	kind := ops.OutcomeEscalate
	if s.Tier == ops.LastTier {
		kind = ops.OutcomeNeedsHuman
	}
	return report.OutcomeExample(s.Tier, kind)
}

// cooldownSnapshot tells the agent what is left of each action; the truth stays in the database.
func cooldownSnapshot(d *draft) error {
	cooldowns := d.now.Journal.Cooldowns
	if cooldowns == nil {
		cooldowns = []ops.Cooldown{}
	}
	raw, err := json.MarshalIndent(map[string]any{
		"limits":    cooldownLimits(d.now.Cycle.Policy.Cooldowns),
		"cooldowns": cooldowns,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cooldown snapshot: %w", err)
	}
	path := filepath.Join(d.spec.StateDir, "cooldown.json")
	return ops.Wrapped(replaceFile(path, raw), "write cooldown snapshot")
}

// cooldownLimits says in words how often what may be done to a service.
func cooldownLimits(limits []ops.CooldownLimit) map[string]string {
	if len(limits) == 0 { // nobody counts, and the rule stands all the same
		return map[string]string{"restart": "2 per service in 4 h", "redeployment": "1 per service in 24 h"}
	}
	out := map[string]string{}
	for _, l := range limits {
		name := l.Action
		if l.Service != "" {
			name += " of " + l.Service
		}
		out[name] = fmt.Sprintf("%d per service in %s", l.Count, l.Window)
	}
	return out
}

// replaceFile swaps the file in one step, so that no reader sees half of it and no link planted there is followed.
func replaceFile(path string, raw []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".snapshot-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
