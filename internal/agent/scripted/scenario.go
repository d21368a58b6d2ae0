package scripted

import (
	"bytes"
	_ "embed" // the built-in scenario
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// builtin names the scenario of the demo where a file name is expected.
const builtin = "builtin:demo"

//go:embed scenarios/demo.yaml
var demo []byte

// Scenario is what the agent does at each tier, and in other roles than work.
type Scenario struct {
	Name  string              `yaml:"name"`
	Tiers map[ops.Tier]Script `yaml:"tiers"`
	Roles map[ops.Role]Script `yaml:"roles"`
}

// Script is one session.
type Script struct {
	CostUSD float64 `yaml:"cost_usd"` // what the session reports as its cost
	Steps   []Step  `yaml:"steps"`
	Ending  Ending  `yaml:",inline"`
}

// Ending is how a session ends.
type Ending struct {
	Outcome document `yaml:"outcome"` // structured output; its handoff is written to a file where no structured output was asked for
	Result  string   `yaml:"result"`  // the last words; empty: what was said last
	IsError bool     `yaml:"is_error"`
}

// document is any YAML value, as JSON.
type document []byte

// UnmarshalYAML keeps a value as JSON.
func (d *document) UnmarshalYAML(n *yaml.Node) error {
	var v any
	err := n.Decode(&v)
	if err == nil {
		*d, err = json.Marshal(v)
	}
	return err
}

// Step is one thing the agent does: one of its first six fields.
type Step struct {
	Say    string        `yaml:"say"`    // text of the agent
	Act    *Act          `yaml:"act"`    // an action that the agent asks the supervisor for
	Bash   string        `yaml:"bash"`   // a command that really runs
	Pause  time.Duration `yaml:"pause"`  // makes the agent slow enough to be watched
	When   *When         `yaml:"when"`   // chooses between two ways to go on
	Finish *Ending       `yaml:"finish"` // ends the script here, in its own way

	Steps []Step `yaml:"steps"` // of When
	Else  []Step `yaml:"else"`  // of When
}

// Act is an action that the agent asks the supervisor for.
type Act struct {
	Service string `yaml:"service" json:"service"`
	Action  string `yaml:"action"  json:"action"`
	Why     string `yaml:"why"     json:"why"`
}

// Look is what the agent asks the supervisor to look at.
type Look struct {
	What   string `yaml:"what"   json:"what"`
	Target string `yaml:"target" json:"target"`
}

// When is a condition: a command or a look ends with this code, and prints this text.
type When struct {
	Bash   string `yaml:"bash"`
	Look   *Look  `yaml:"look"`
	Exit   int    `yaml:"exit"`
	Prints string `yaml:"prints"`
}

// load reads the scenario that a command line names.
func load(name string) (Scenario, error) {
	if name == builtin {
		return Parse(demo, name)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w (the only built-in one is %s)", err, builtin)
	}
	return Parse(data, name)
}

// notKnown finds what the YAML library says about an unknown key, in which it names a type of ours.
var notKnown = ops.Pattern(`field (\S+) not found in type \S+`)

// Parse reads a scenario strictly: an unknown key, a doubled key or a wrong value is an error that names the file and the line or step.
func Parse(data []byte, file string) (Scenario, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var s Scenario
	err := decoder.Decode(&s)
	if errors.Is(err, io.EOF) {
		err = errors.New("the scenario is empty")
	}
	if err == nil {
		err = s.check()
	}
	if err == nil {
		return s, nil
	}
	if types, ok := errors.AsType[*yaml.TypeError](err); ok {
		err = errors.New(notKnown().ReplaceAllString(strings.Join(types.Errors, " "), "unknown key $1"))
	}
	return Scenario{}, fmt.Errorf("%s: %w", file, err)
}

func (s Scenario) check() error {
	if len(s.Tiers)+len(s.Roles) == 0 {
		return errors.New(`the scenario needs "tiers" with at least one tier`)
	}
	for _, tier := range slices.Sorted(maps.Keys(s.Tiers)) {
		if !tier.Known() {
			return fmt.Errorf("there is no tier %d, only 1, 2 and 3", tier)
		}
		if err := checkSteps(s.Tiers[tier].Steps); err != nil {
			return fmt.Errorf("%s: %w", tier, err)
		}
	}
	for role, script := range s.Roles {
		if role != ops.RoleManager && role != ops.RolePlanner && role != ops.RoleJudge {
			return fmt.Errorf("there is no role %q, only judge, manager and planner", role)
		}
		if err := checkSteps(script.Steps); err != nil {
			return fmt.Errorf("role %s: %w", role, err)
		}
	}
	return nil
}

func checkSteps(steps []Step) error {
	for i, s := range steps {
		kinds := 0
		for _, given := range []bool{s.Say != "", s.Act != nil, s.Bash != "", s.Pause > 0, s.When != nil, s.Finish != nil} {
			if given {
				kinds++
			}
		}
		var err error
		switch {
		case kinds != 1:
			err = errors.New("a step is one of act, bash, finish, pause, say and when, and has a value")
		case s.Act != nil && (s.Act.Service == "" || s.Act.Action == "" || s.Act.Why == ""):
			err = errors.New(`act needs "service", "action" and "why"`)
		case s.When != nil && (s.When.Bash == "") == (s.When.Look == nil):
			err = errors.New(`when needs "bash" or "look"`)
		case s.When == nil && (s.Steps != nil || s.Else != nil):
			err = errors.New("steps and else belong to when")
		default:
			err = errors.Join(checkSteps(s.Steps), checkSteps(s.Else))
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

// script finds what a session does: the script of its role, or for work that of its tier.
func (s Scenario) script(tier, role string) (Script, error) {
	if role != "" && role != string(ops.RoleWork) {
		if script, ok := s.Roles[ops.Role(role)]; ok {
			return script, nil
		}
		return Script{}, fmt.Errorf("the scenario has no role %q", role)
	}
	for t, script := range s.Tiers {
		if fmt.Sprint(int(t)) == tier {
			return script, nil
		}
	}
	return Script{}, fmt.Errorf("the scenario has no tier %q", tier)
}
