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

// proberOptions are what every prober of this host works with. A probe only looks, so with the guard on its command must not
// be one that is known to change something. A command that may not is an error of the configuration.
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

// CheckProbes says which probes a start would refuse, without starting anything; also what is wrong with the operator's own
// rules. The error is one of the configuration.
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
		c.places = append(c.places, probePlace{e, facts})
	}
	return c
}

// probeCommands judges the commands of probes.
type probeCommands struct {
	judge  *guard.Guard
	places []probePlace
}

// probePlace is an environment and what the guard knows of it.
type probePlace struct {
	env   ops.Environment
	facts guard.Facts
}

// check judges everything that is configured, so that an operator learns it at start and not from a check that is never made.
func (c *probeCommands) check(from *config.Config) error {
	var problems []config.Problem
	for _, p := range c.places {
		for i, spec := range p.env.Probes {
			if spec.Type != "command" || len(spec.Command) == 0 {
				continue
			}
			if err := c.judged(spec.Command, p.facts); err != nil {
				where, key := from.ProbePlace(p.env.Name, i)
				problems = append(problems, config.Problem{
					Where: where, Key: key, Message: fmt.Sprintf("the probe %q of %s is not run: %s", probe.Describe(spec), spec.Service, err),
					Fix: "give it a command that only looks, or switch the guard off (guard.enabled)",
				})
			}
		}
	}
	if len(problems) > 0 {
		return &config.Error{Problems: problems}
	}
	return nil
}

// allow judges a command once more before it is run: what its paths lead to may have changed since the start. It must be
// allowed wherever it is configured, and one that is configured nowhere must be allowed everywhere.
func (c *probeCommands) allow(argv []string) error {
	var errs []error
	known := false
	for _, p := range c.places {
		if p.runs(argv) {
			known = true
			errs = append(errs, c.judged(argv, p.facts))
		}
	}
	if !known {
		for _, p := range c.places {
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

func (p probePlace) runs(argv []string) bool {
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

// vouchedFor: the operator wrote the command down himself, so a program or a script of his own that the guard does not know
// is his business. What it does know as a change, and what nobody may do, stays refused.
func vouchedFor(rule string) bool { return slices.Contains([]string{"R4", "R6", "R8"}, rule) }

// commandLine prints words as a shell would have to read them to run exactly these.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}
