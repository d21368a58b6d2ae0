package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/config"
	"claudeops/internal/guard"
	"claudeops/internal/ops"
	"claudeops/internal/watch/probe"
)

// proberOptions are what every prober of this host needs. A probe only reads, so if the guard is enabled, a command that is known to change
// something is an error of the configuration.
func (h *Host) proberOptions() (probe.Options, error) {
	o := probe.Options{Clock: h.Clock}
	if !h.Config.Guard.Enabled {
		return o, nil
	}
	judge, err := h.judge()
	if err != nil {
		return o, err
	}
	commands := newProbeCommands(judge, h.Options, h.envs)
	o.Allow = commands.allow
	return o, commands.check(h.Config)
}

// CheckProbes reports the probes that a start would refuse, and errors in the operator's own rules, without starting anything. The error
// is one of the configuration.
func CheckProbes(o Options) error {
	if !o.Config.Guard.Enabled {
		return nil
	}
	judge, err := newJudge(o.Config)
	if err != nil {
		return err
	}
	return newProbeCommands(judge, o, o.Config.Environments()).check(o.Config)
}

func newProbeCommands(judge *guard.Guard, o Options, envs []ops.Environment) *probeCommands {
	c := &probeCommands{judge: judge}
	for _, e := range envs {
		facts := Facts(o.Config, e)
		facts.Cwd = "/" // where probes run
		facts.OwnPaths = append(facts.OwnPaths, o.Self, gateDir(o.Config))
		c.environments = append(c.environments, probeEnvironment{e, facts})
	}
	return c
}

// probeCommands checks the commands of probes.
type probeCommands struct {
	judge        *guard.Guard
	environments []probeEnvironment
}

// probeEnvironment is an environment and what the guard knows about it.
type probeEnvironment struct {
	env   ops.Environment
	facts guard.Facts
}

// check checks all configured commands, so that an error is found at start.
func (c *probeCommands) check(from *config.Config) error {
	var problems []config.Problem
	for _, p := range c.environments {
		for i, spec := range p.env.Probes {
			if spec.Type != "command" || len(spec.Command) == 0 {
				continue
			}
			if err := c.judged(spec.Command, p.facts); err != nil {
				where, key := from.ProbePlace(p.env.Name, i)
				problems = append(problems, config.Problem{
					Where: where, Key: key, Message: fmt.Sprintf("the probe %q of %s is not run: %s", probe.Describe(spec), spec.Service, err),
					Fix: "give it a command that only reads, or disable the guard (guard.enabled)",
				})
			}
		}
	}
	if len(problems) > 0 {
		return &config.Error{Problems: problems}
	}
	return nil
}

// allow checks a command again before it runs: the targets of its paths may have changed since the start. It must be allowed in every
// environment that configures it; one that none configures must be allowed in all.
func (c *probeCommands) allow(argv []string) error {
	var errs []error
	known := false
	for _, p := range c.environments {
		if p.runs(argv) {
			known = true
			errs = append(errs, c.judged(argv, p.facts))
		}
	}
	if !known {
		for _, p := range c.environments {
			errs = append(errs, c.judged(argv, p.facts))
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p probeEnvironment) runs(argv []string) bool {
	return slices.ContainsFunc(p.env.Probes, func(s ops.ProbeSpec) bool { return s.Type == "command" && slices.Equal(s.Command, argv) })
}

func (c *probeCommands) judged(argv []string, facts guard.Facts) error {
	input, err := json.Marshal(map[string]string{"command": commandLine(argv)})
	if err != nil {
		return fmt.Errorf("print command: %w", err)
	}
	d := c.judge.Check(ops.Tier1, "Bash", input, facts)
	if !d.Allowed() && !vouchedFor(d.Rule) {
		return errors.New("the guard refuses it: " + strings.TrimSuffix(d.Reason, "."))
	}
	return nil
}

// vouchedFor: the operator configured the command, so a program that the guard does not know is allowed. What the guard knows to be a
// change, and what is never allowed, stays refused.
func vouchedFor(rule string) bool { return slices.Contains([]string{"R4", "R6", "R8"}, rule) }

// commandLine quotes words so that a shell runs exactly these.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}
