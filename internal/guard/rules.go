package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"claudeops/internal/ops"
)

// Rule is one rule of an operator. It names a program that the tables do not know and gives it a tier, or refuses a
// command, or adds to the facts.
type Rule struct {
	ID      string     `yaml:"id"`
	Program string     `yaml:"program"`
	Args    []string   `yaml:"args"` // whole words; * is any one word, a last ... any further words
	Tier    ops.Tier   `yaml:"tier"`
	Deny    bool       `yaml:"deny"`
	Effect  EffectKind `yaml:"cooldown"`
	Service string     `yaml:"service"` // what the cooldown counts for; the program's name when it is missing
	Reason  string     `yaml:"reason"`

	Match    []string `yaml:"match"`
	NotMatch []string `yaml:"not_match"`

	Services     []string `yaml:"services"`
	Hosts        []string `yaml:"hosts"`
	Repositories []string `yaml:"repositories"`
	Protected    []string `yaml:"protected"`

	line int
}

// ParseRules reads an operator's rule file and runs the examples of every rule. One failing example refuses the file.
func ParseRules(data []byte, file string) ([]Rule, error) {
	var doc struct {
		Rules []yaml.Node `yaml:"rules"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s: read rules: %w", file, err)
	}
	var rules []Rule
	for _, n := range doc.Rules {
		r, err := decodeRule(n)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n.Line, err)
		}
		rules = append(rules, r)
	}
	g, err := New(rules)
	if err != nil {
		return nil, err
	}
	var problems []error
	seen := map[string]bool{}
	for _, r := range rules {
		if seen[r.ID] {
			problems = append(problems, fmt.Errorf("%s:%d: the id %q is used twice", file, r.line, r.ID))
		}
		seen[r.ID] = true
		for _, p := range g.problems(r) {
			problems = append(problems, fmt.Errorf("%s:%d: rule %s: %s", file, r.line, r.ID, p))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return rules, nil
}

// decodeRule reads one rule strictly.
func decodeRule(n yaml.Node) (Rule, error) {
	raw, err := yaml.Marshal(&n)
	if err != nil {
		return Rule{}, fmt.Errorf("read rule: %w", err)
	}
	r := Rule{line: n.Line}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&r); err != nil {
		return Rule{}, fmt.Errorf("read rule: %w", err)
	}
	return r, nil
}

// problems says what is wrong with a rule, its examples included.
func (g *Guard) problems(r Rule) []string {
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if r.ID == "" || !serviceName(r.ID) || builtInRule(r.ID) {
		note("the id must be a plain name of its own")
	}
	if r.Program == "" {
		if len(r.Services)+len(r.Hosts)+len(r.Repositories)+len(r.Protected) == 0 {
			note("it names neither a program nor services, hosts, repositories or protected files")
		}
		return out
	}
	known := g.tables.find(r.Program)
	switch {
	case r.Deny == (r.Tier != 0):
		note("it needs either a tier or deny: true")
	case !r.Deny && !r.Tier.Known():
		note("tier must be 1, 2 or 3")
	case !r.Deny && known != nil:
		note("%s is a known program: a rule may refuse it, but not change its tier", r.Program)
	case !serviceName(r.Program) || ownName(r.Program):
		note("%q is not the name of a program a rule may speak of", r.Program)
	}
	if r.Effect != "" && r.Effect != EffectRestart && r.Effect != EffectRedeployment {
		note("cooldown must be restart or redeployment")
	}
	if r.Reason == "" {
		note("it has no reason")
	}
	if len(r.Match) == 0 || len(r.NotMatch) == 0 {
		note("it needs examples under match and not_match")
	}
	if len(out) > 0 {
		return out
	}
	return g.examples(r)
}

// builtInRule reports ids that the guard itself uses.
func builtInRule(id string) bool {
	return strings.HasPrefix(id, "never.") || strings.HasPrefix(id, "tool.") || len(id) > 1 && id[0] == 'R' && isDigits(id[1:])
}

// examples runs the examples of a rule.
func (g *Guard) examples(r Rule) []string {
	var out []string
	facts := Facts{Cwd: "/repos/example", ReposDir: "/repos", StateDir: "/state", TempDir: "/tmp"}
	check := func(tier ops.Tier, command string) Decision {
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			return Decision{Verdict: Deny, Reason: err.Error()}
		}
		return g.Check(tier, "Bash", input, facts)
	}
	for _, m := range r.Match {
		tier := r.Tier
		if r.Deny {
			tier = ops.LastTier
		}
		d := check(tier, m)
		switch {
		case r.Deny && (d.Verdict != Deny || d.Rule != r.ID):
			out = append(out, fmt.Sprintf("match %q is not refused by it (%s: %s)", m, d.Rule, d.Reason))
		case !r.Deny && (d.Verdict != Allow || d.Rule != r.ID):
			out = append(out, fmt.Sprintf("match %q is not allowed by it at %s (%s: %s)", m, tier, d.Rule, d.Reason))
		case !r.Deny && tier > ops.Tier1 && check(tier-1, m).Verdict == Allow:
			out = append(out, fmt.Sprintf("match %q is allowed below %s", m, tier))
		}
	}
	for _, m := range r.NotMatch {
		if d := check(ops.LastTier, m); d.Rule == r.ID {
			out = append(out, fmt.Sprintf("not_match %q is decided by it", m))
		}
	}
	return out
}

// matches compares the words of a command with the rule.
func (r Rule) matches(program string, args []field) bool {
	if r.Program == "" || r.Program != program {
		return false
	}
	for i, want := range r.Args {
		if want == "..." && i == len(r.Args)-1 {
			return true
		}
		if i >= len(args) {
			return false
		}
		text, plain := args[i].literal()
		if !plain && !r.Deny || want != "*" && want != text {
			return false
		}
	}
	return len(args) == len(r.Args)
}

// operatorDenies applies the operator's refusals.
func (j *judge) operatorDenies(program string, args []field) bool {
	for _, r := range j.g.rules {
		if r.Deny && r.matches(program, args) {
			j.refuse(r.ID, program, strings.TrimSuffix(r.Reason, "."), "")
			return true
		}
	}
	return false
}

// operatorAllows applies the operator's tier of a program the tables do not know.
func (j *judge) operatorAllows(s *scope, program string, args []field) bool {
	i := slices.IndexFunc(j.g.rules, func(r Rule) bool { return !r.Deny && r.matches(program, args) })
	if i < 0 {
		return false
	}
	r := j.g.rules[i]
	if slices.ContainsFunc(args, func(f field) bool { _, plain := f.literal(); return !plain }) {
		j.refuse(ruleRunTime, program, "its arguments are known only at run time", "write them out")
		return true
	}
	j.need(s, r.Tier, r.ID, program)
	if r.Effect != "" {
		name, _ := j.facts.service(cmpOr(r.Service, program))
		j.effect(Effect{Kind: r.Effect, Service: name})
	}
	j.named = r.ID
	return true
}
