package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// An alias can make a small file endless, so nesting and number of steps are bounded.
const (
	maxNesting = 16
	maxSteps   = 10_000
	maxRepeat  = 1000
)

// yamlPosition finds the line in the messages of the YAML library, which has no typed position.
var yamlPosition = regexp.MustCompile(`^yaml: (?:unmarshal errors:\s*)?line (\d+): `)

// Parse reads a scenario strictly: an unknown key, a doubled key or a wrong value is an error that names file and line.
func Parse(data []byte, file string) (Scenario, error) {
	d := &decoder{file: file}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return Scenario{}, fmt.Errorf("%s: the scenario is empty", file)
		}
		return Scenario{}, d.library(err, 1)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Scenario{}, fmt.Errorf("%s: only one YAML document is allowed", file)
	}
	return d.scenario(doc.Content[0])
}

// decoder walks YAML nodes itself, because the library loses strictness and positions inside nested types.
type decoder struct {
	file  string
	steps int
}

func (d *decoder) fail(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", d.file, n.Line, fmt.Sprintf(format, args...))
}

func (d *decoder) library(err error, line int) error {
	text := err.Error()
	if m := yamlPosition.FindStringSubmatch(text); m != nil {
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			line = n
		}
		text = strings.TrimPrefix(text, m[0])
	}
	return fmt.Errorf("%s:%d: %s", d.file, line, strings.TrimPrefix(text, "yaml: "))
}

// object reads a mapping, key by key in the order of the file. The functions are named by their keys.
func (d *decoder) object(n *yaml.Node, what string, keys map[string]func(*yaml.Node) error) error {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return d.fail(n, "%s must be a mapping", what)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		set, known := keys[key.Value]
		if !known {
			return d.fail(key, "unknown key %q in %s; known are: %s",
				key.Value, what, strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
		}
		if seen[key.Value] {
			return d.fail(key, "the key %q appears twice in %s", key.Value, what)
		}
		seen[key.Value] = true
		if err := set(resolve(value)); err != nil {
			return err
		}
	}
	return nil
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// scalar makes a function that reads one plain value; want names it in the message.
func scalar[T any](d *decoder, into *T, want string, valid func(T) bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		var v T
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Decode(&v) != nil || (valid != nil && !valid(v)) {
			return d.fail(n, "want %s, found %s", want, describe(n))
		}
		*into = v
		return nil
	}
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return strconv.Quote(n.Value)
	}
}

func (d *decoder) text(into *string) func(*yaml.Node) error {
	return scalar(d, into, "a text", func(s string) bool { return strings.TrimSpace(s) != "" })
}

func (d *decoder) flag(into *bool) func(*yaml.Node) error {
	return scalar(d, into, "true or false", nil)
}

func (d *decoder) exitCode(into *int) func(*yaml.Node) error {
	return scalar(d, into, "an exit code from 0 to 255", func(v int) bool { return v >= 0 && v <= 255 })
}

// value makes a function that keeps a free YAML value as indented JSON.
func (d *decoder) value(into *json.RawMessage) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		var v any
		if err := n.Decode(&v); err != nil {
			return d.library(err, n.Line)
		}
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return d.fail(n, "not expressible as JSON: %v", err)
		}
		*into = data
		return nil
	}
}

func (d *decoder) scenario(n *yaml.Node) (Scenario, error) {
	var s Scenario
	err := d.object(n, "the scenario", map[string]func(*yaml.Node) error{
		"name": d.text(&s.Name),
		"tiers": func(n *yaml.Node) error {
			var err error
			s.Tiers, err = d.tiers(n)
			return err
		},
		"handlers": func(n *yaml.Node) error {
			var err error
			s.Handlers, err = d.handlers(n)
			return err
		},
		"roles": func(n *yaml.Node) error {
			var err error
			s.Roles, err = d.roles(n)
			return err
		},
	})
	if err != nil {
		return Scenario{}, err
	}
	if len(s.Tiers)+len(s.Handlers)+len(s.Roles) == 0 {
		return Scenario{}, d.fail(n, `the scenario needs "tiers" with at least one tier`)
	}
	return s, nil
}

func (d *decoder) tiers(n *yaml.Node) (map[ops.Tier]Script, error) {
	out := map[ops.Tier]Script{}
	keys := map[string]func(*yaml.Node) error{}
	for tier := ops.Tier1; tier.Known(); tier++ {
		keys[strconv.Itoa(int(tier))] = func(n *yaml.Node) error {
			script, err := d.scripts(n, tier.String())
			out[tier] = script
			return err
		}
	}
	if err := d.object(n, "tiers", keys); err != nil {
		return nil, err
	}
	return out, nil
}

func (d *decoder) roles(n *yaml.Node) (map[ops.Role]Script, error) {
	out := map[ops.Role]Script{}
	keys := map[string]func(*yaml.Node) error{}
	for _, role := range []ops.Role{ops.RoleManager, ops.RolePlanner, ops.RoleJudge} {
		keys[string(role)] = func(n *yaml.Node) error {
			script, err := d.scripts(n, "role "+string(role))
			out[role] = script
			return err
		}
	}
	if err := d.object(n, "roles", keys); err != nil {
		return nil, err
	}
	return out, nil
}

// handlers reads scripts by the ids of handlers, which may be anything.
func (d *decoder) handlers(n *yaml.Node) (map[string]Script, error) {
	out := map[string]Script{}
	keys := map[string]func(*yaml.Node) error{}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		id := n.Content[i].Value
		keys[id] = func(n *yaml.Node) error {
			script, err := d.scripts(n, "handler "+id)
			out[id] = script
			return err
		}
	}
	if err := d.object(n, "handlers", keys); err != nil {
		return nil, err
	}
	return out, nil
}

// scripts reads a script, or the scripts of one attempt after the other.
func (d *decoder) scripts(n *yaml.Node, what string) (Script, error) {
	list := value(n, "attempts")
	if list == nil {
		return d.script(n, what)
	}
	var s Script
	err := d.object(n, what+" with attempts", map[string]func(*yaml.Node) error{"attempts": func(n *yaml.Node) error {
		if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
			return d.fail(n, "attempts must be a list of scripts, found %s", describe(n))
		}
		for i, item := range n.Content {
			script, err := d.script(resolve(item), fmt.Sprintf("attempt %d of %s", i+1, what))
			if err != nil {
				return err
			}
			s.Attempts = append(s.Attempts, script)
		}
		return nil
	}})
	return s, err
}

// value returns the value of a key of a mapping, nil when it is not there.
func value(n *yaml.Node, key string) *yaml.Node {
	n = resolve(n)
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func (d *decoder) script(n *yaml.Node, what string) (Script, error) {
	var s Script
	keys := d.endingKeys(&s.Ending)
	keys["model"] = d.text(&s.Model)
	keys["cost_usd"] = scalar(d, &s.CostUSD, "an amount of 0 or more", func(v float64) bool {
		return v >= 0 && !math.IsInf(v, 0) // NaN is not >= 0
	})
	keys["steps"] = func(n *yaml.Node) error {
		var err error
		s.Steps, err = d.list(n, 1)
		return err
	}
	if err := d.object(n, what, keys); err != nil {
		return Script{}, err
	}
	return s, nil
}

func (d *decoder) endingKeys(e *Ending) map[string]func(*yaml.Node) error {
	return map[string]func(*yaml.Node) error{
		"handoff": d.value(&e.Handoff),
		"outcome": d.value(&e.Outcome),
		"result":  d.text(&e.Result),
		"exit": func(n *yaml.Node) error {
			e.Exit = new(int)
			return d.exitCode(e.Exit)(n)
		},
		"stderr":      d.text(&e.Stderr),
		"api_status":  scalar(d, &e.APIStatus, "an HTTP status from 400 to 599", func(v int) bool { return v >= 400 && v <= 599 }),
		"retry_after": scalar(d, &e.RetryAfter, "a duration such as 3s", func(v time.Duration) bool { return v > 0 }),
		"subtype": scalar(d, &e.Subtype, "a subtype that begins with error_", func(v string) bool {
			return strings.HasPrefix(v, "error_")
		}),
		"is_error":  d.flag(&e.IsError),
		"no_result": d.flag(&e.NoResult),
		"hang":      d.flag(&e.Hang),
		"linger":    d.flag(&e.Linger),
	}
}

func (d *decoder) list(n *yaml.Node, depth int) ([]Step, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, d.fail(n, "steps must be a list, found %s", describe(n))
	}
	if depth > maxNesting {
		return nil, d.fail(n, "steps are nested more than %d deep", maxNesting)
	}
	steps := make([]Step, 0, len(n.Content))
	for _, item := range n.Content {
		if d.steps++; d.steps > maxSteps {
			return nil, d.fail(item, "the scenario has more than %d steps", maxSteps)
		}
		step, err := d.step(resolve(item), depth)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// step reads one step: exactly one of the keys that name its kind, with the keys that belong to that kind.
func (d *decoder) step(n *yaml.Node, depth int) (Step, error) {
	if n.Kind != yaml.MappingNode {
		return nil, d.fail(n, "a step must be a mapping, found %s", describe(n))
	}
	kinds := d.stepKinds(depth)
	kind := ""
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if _, ok := kinds[key]; !ok {
			continue
		}
		if kind != "" && kind != key {
			return nil, d.fail(n.Content[i], "one step cannot be both %q and %q: make two of it", kind, key)
		}
		kind = key
	}
	if kind == "" {
		return nil, d.fail(n, "a step needs one of: %s", strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	return kinds[kind](n)
}
