package cycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"claudeops/internal/handoff"
	"claudeops/internal/ops"
	"claudeops/internal/outcome"
	"claudeops/prompts"
)

// preparation is one thing that makes a spec ready to run.
type preparation func(*draft) error

// draft is a spec in the making.
type draft struct {
	env      ops.Environment
	now      ops.Claimed
	spec     ops.SessionSpec
	warnings []string
}

// prepare turns a queued session into what its agent needs, and says what the operator should know about it.
func (a *Advancer) prepare(env ops.Environment, now ops.Claimed, s ops.Session) (ops.SessionSpec, []string, error) {
	d := &draft{env: env, now: now, spec: ops.SessionSpec{
		Session: s, Environment: env.Name, StateDir: env.StateDir, WorkDir: env.WorkDir,
		DryRun: now.Cycle.Policy.DryRun, Env: env.AgentEnv, Limits: env.Limits, Tools: env.Tools[s.Tier],
	}}
	for _, step := range []preparation{folders, cooldownSnapshot, report, conversation, prompt, started, environmentPrompt, escalationContext} {
		if err := step(d); err != nil {
			return ops.SessionSpec{}, d.warnings, fmt.Errorf("prepare session %d: %w", s.ID, err)
		}
	}
	return d.spec, d.warnings, nil
}

func folders(d *draft) error {
	if err := os.MkdirAll(d.spec.WorkDir, 0o700); err != nil {
		return fmt.Errorf("create working folder: %w", err)
	}
	return nil
}

// cooldownSnapshot tells the agent what is left of each action; the truth stays in the database.
func cooldownSnapshot(d *draft) error {
	cooldowns := d.now.Journal.Cooldowns
	if cooldowns == nil {
		cooldowns = []ops.Cooldown{}
	}
	raw, err := json.MarshalIndent(map[string]any{
		"limits":    map[string]string{"restart": "2 per service in 4 h", "redeployment": "1 per service in 24 h"},
		"cooldowns": cooldowns,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cooldown snapshot: %w", err)
	}
	path := filepath.Join(d.spec.StateDir, "cooldown.json")
	if err := replaceFile(path, raw); err != nil {
		return fmt.Errorf("write cooldown snapshot: %w", err)
	}
	return nil
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

// report says in which form the session has to answer.
func report(d *draft) error {
	if d.spec.Session.Structured {
		d.spec.OutcomeJSON = outcome.Inline()
	}
	return nil
}

// conversation names the one to continue.
func conversation(d *draft) error {
	s := d.spec.Session
	if s.ContextMode != ops.ContextResume {
		return nil
	}
	parent := d.now.Journal.Parent(s)
	if parent == nil || parent.CLISessionID == "" {
		return fmt.Errorf("find conversation to continue: %w", ops.ErrNotFound)
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
	if before == nil || before.OpenTool == "" {
		return nil
	}
	d.spec.Prompt = strings.TrimRight(d.spec.Prompt, "\n") + fmt.Sprintf(
		"\n\n## A command that was cut off\n\nAn earlier session was stopped while this was running. It was started and may have taken effect; look before you repeat it.\n\n%s\n",
		handoff.Quote(before.OpenTool))
	return nil
}

func prompt(d *draft) error {
	data := promptData(d)
	tier := d.spec.Session.Tier
	custom := d.env.Prompts[tier].Fresh
	if d.spec.Resume != "" {
		custom = d.env.Prompts[tier].Escalation
	}
	var err error
	switch {
	case custom == "" && d.spec.Resume != "":
		d.spec.Prompt, err = prompts.Escalation(tier, data)
	case custom == "":
		d.spec.Prompt, err = prompts.Fresh(tier, data)
	case tier == ops.Tier1:
		// A resumed conversation keeps the prompt but not the system prompt: the facts must stand in both.
		var facts string
		if facts, err = prompts.Facts(data); err == nil {
			d.spec.Prompt = strings.TrimRight(custom, "\n") + "\n\n" + facts
			if data.Task != "" {
				d.spec.Prompt += "\n## What the operator asks this time\n\n" + data.Task + "\n"
			}
		}
	default:
		d.spec.Prompt = custom
	}
	return err
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
	parent := d.now.Journal.Session(*s.ParentID)
	if parent == nil {
		return fmt.Errorf("read parent session %d: %w", *s.ParentID, ops.ErrNotFound)
	}
	p := proposalOf(*parent).known(d.now.Cycle.Policy.Inventory)
	if p.handoff == nil {
		return fmt.Errorf("read handoff of session %d: %s", parent.ID, strings.Join(p.problems, "; "))
	}
	source := handoff.Source{Tier: parent.Tier, Handler: parent.Handler, Model: parent.Model}
	text, truncated := handoff.Context(*p.handoff, source, earlierChecks(d.now.Journal, *parent))
	for _, t := range truncated {
		d.warnings = append(d.warnings, "handoff context was truncated: "+t)
	}
	d.spec.SystemPrompt += "\n" + text
	return nil
}

// earlierChecks collects what the tiers before the parent measured; Tier 2 need not copy it to pass it on.
func earlierChecks(j ops.Journal, parent ops.Session) []ops.CheckResult {
	var out []ops.CheckResult
	for id := parent.ParentID; id != nil; {
		s := j.Session(*id)
		if s == nil {
			break
		}
		if h := proposalOf(*s).handoff; h != nil {
			out = append(out, h.CheckResults...)
		}
		id = s.ParentID
	}
	return out
}

func promptData(d *draft) prompts.Data {
	tier := d.spec.Session.Tier
	data := prompts.Data{
		Environment: d.env.Name, StateDir: d.env.StateDir, ReposDir: d.env.ReposDir, Notes: d.env.Notes,
		DryRun: d.spec.DryRun, HandoffFile: !d.spec.Session.Structured, Services: d.env.Policy.Inventory.Services,
		Example: handoff.Example(tier),
	}
	if tier == ops.Tier1 {
		data.Task = d.now.Cycle.Prompt
		data.Checks = measured(d.now.Journal.Checks)
	}
	return data
}

// measured renders our own checks as the same objects a handoff reports, so that they can be passed on as they are.
func measured(checks []ops.Check) string {
	if len(checks) == 0 {
		return ""
	}
	var out []ops.CheckResult
	for _, c := range checks {
		out = append(out, ops.CheckResult{
			Service: c.Service, CheckType: c.Type, Status: c.Status, Error: c.Error, ResponseTimeMS: ops.Ptr(c.ResponseTimeMS),
		})
	}
	return handoff.Fence(out)
}
