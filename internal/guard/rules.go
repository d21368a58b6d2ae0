package guard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// Rule is one rule of an operator. It allows a command at a tier, refuses one, or adds to the facts.
type Rule struct {
	ID      string     `yaml:"id"`
	Program string     `yaml:"program"`
	Args    []string   `yaml:"args"`    // whole words; * is any one word, a last ... any further words
	Options []string   `yaml:"options"` // options that may stand anywhere; --name= takes a value
	Tier    ops.Tier   `yaml:"tier"`
	Deny    bool       `yaml:"deny"`
	Effect  EffectKind `yaml:"cooldown"`
	Service string     `yaml:"service"` // what the cooldown counts for; the program's name when it is missing
	Reason  string     `yaml:"reason"`
	// Writable are folders and files that the command may change, where it has a wall of its own.
	Writable []string `yaml:"writable"`

	Match    []string `yaml:"match"`
	NotMatch []string `yaml:"not_match"`

	Services     []string `yaml:"services"`
	Hosts        []string `yaml:"hosts"`
	Repositories []string `yaml:"repositories"`
	Protected    []string `yaml:"protected"`
	Volumes      []string `yaml:"volumes"`
	WebHosts     []string `yaml:"web_hosts"`
	MCPTools     []string `yaml:"mcp_tools"` // allowed at the tier of the rule

	line int
}

// Line is where the rule begins in its file.
func (r Rule) Line() int { return r.line }

// adds are the facts of a rule that names no program.
func (r Rule) adds() []string {
	return slices.Concat(r.Services, r.Hosts, r.Repositories, r.Protected, r.Volumes, r.WebHosts, r.MCPTools)
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
	err = dec.Decode(&r)
	return ops.Returning(r, err, "read rule")
}

// problems says what is wrong with a rule and how to mend it, its examples included.
func (g *Guard) problems(r Rule) []string {
	var out []string
	note := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	note(r.ID == "" || !serviceName(r.ID) || builtInRule(r.ID), "the id must be a plain name of its own")
	note(len(r.Writable) > 0 && (r.Program == "" || r.Deny || r.Tier == ops.Tier1),
		"writable is for a command from Tier 2 on: add a program and tier: 2 or 3, or remove writable")
	for _, p := range r.Writable {
		note(!path.IsAbs(p) || path.Clean(p) != p || p == "/",
			"writable: %q is not the full path of a folder or file: write it from / on, without a slash at its end", p)
	}
	if r.Program == "" {
		note(len(r.adds()) == 0,
			"it names neither a program nor services, hosts, repositories, protected files, volumes, web hosts or MCP tools: add one")
		note(len(r.MCPTools) > 0 && !r.Tier.Known(), "mcp_tools need a tier: add tier: 1, 2 or 3")
		return out
	}
	note(r.Deny == (r.Tier != 0), "it needs either a tier or deny: true")
	note(!r.Deny && r.Tier != 0 && !r.Tier.Known(), "tier must be 1, 2 or 3")
	note(!serviceName(r.Program) || ownName(r.Program), "%q is not the name of a program that a rule may name: write its plain name",
		r.Program)
	note(r.Effect != "" && r.Effect != EffectRestart && r.Effect != EffectRedeployment, "cooldown must be restart or redeployment")
	note(r.Reason == "", "it has no reason: say why it is safe")
	note(len(r.Match) == 0 || len(r.NotMatch) == 0, "it needs examples under match and not_match")
	for _, o := range r.Options {
		note(len(o) < 2 || o[0] != '-', "the option %q has no dash", o)
	}
	if !r.Deny {
		out = append(out, g.reaches(r)...)
	}
	if len(out) > 0 {
		return out
	}
	return g.examples(r)
}

// reaches says which part of a rule would allow what no rule may allow.
func (g *Guard) reaches(r Rule) []string {
	known := g.tables.find(r.Program)
	if known == nil {
		return nil
	}
	if slices.Contains(r.Args, "...") {
		return []string{fmt.Sprintf("%s is a known program: list its words one by one instead of ...", r.Program)}
	}
	for _, word := range append([]string{""}, r.Args...) {
		if next := g.tables.find(known.cmd + " " + word); word != "" && next != nil {
			known = next
		}
		if known.tier >= never && fixedRule(known.rule) {
			return []string{fmt.Sprintf("%s is a known program that no rule may allow (%s: %s): remove the rule", known.cmd, known.rule, known.note)}
		}
	}
	if slices.Contains(known.judges, "interpreter") || slices.Contains(known.judges, "shell") {
		return []string{fmt.Sprintf("%s is a known program that runs code: allow a script of a repository instead", known.cmd)}
	}
	for _, o := range slices.Concat(r.Options, r.Args) {
		f := known.flags[strings.TrimSuffix(o, "=")]
		if f != nil && f.tier >= never && fixedRule(f.rule) {
			return []string{fmt.Sprintf("%s %s is an option that no rule may allow (%s): remove it", known.cmd, o, f.rule)}
		}
	}
	return nil
}

// builtInRule reports ids that the guard itself uses.
func builtInRule(id string) bool {
	return strings.HasPrefix(id, "never.") || strings.HasPrefix(id, "tool.") || len(id) > 1 && id[0] == 'R' && isDigits(id[1:])
}

// fixedRule reports refusals that no rule of an operator lifts: all but that a command is not on the list.
func fixedRule(id string) bool { return id != ruleBash && id != ruleUnknown }

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

// matches compares the words of a command with the rule. Free are the words that the rule leaves open.
func (r Rule) matches(program string, args []field) (free []field, ok bool) {
	if r.Program == "" || r.Program != program {
		return nil, false
	}
	var words []field
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i].text, "=")
		switch {
		case slices.Contains(r.Options, args[i].text):
		case joined && slices.Contains(r.Options, name+"="):
			free = append(free, args[i].withText(value))
		case slices.Contains(r.Options, name+"=") && i+1 < len(args):
			i++
			free = append(free, args[i])
		default:
			words = append(words, args[i])
		}
	}
	for i, want := range r.Args {
		if want == "..." && i == len(r.Args)-1 {
			return append(free, words[i:]...), true
		}
		if i >= len(words) {
			return nil, false
		}
		text, plain := words[i].literal()
		switch {
		case !plain && !r.Deny || want != "*" && want != text:
			return nil, false
		case want == "*" && strings.HasPrefix(text, "-") && !r.Deny:
			return nil, false // an option that the rule does not list
		case want == "*":
			free = append(free, words[i])
		}
	}
	return free, len(words) == len(r.Args)
}

// operatorDenies applies the operator's refusals.
func (j *judge) operatorDenies(program string, args []field) bool {
	for _, r := range j.g.rules {
		if _, ok := r.matches(program, args); ok && r.Deny {
			j.refuse(r.ID, program, strings.TrimSuffix(r.Reason, "."), "")
			return true
		}
	}
	return false
}

// operatorAllows applies the operator's tier of a command. What the rule leaves open is judged all the same.
func (j *judge) operatorAllows(s *scope, program string, args []field) bool {
	for _, r := range j.g.rules {
		free, ok := r.matches(program, args)
		if !ok || r.Deny {
			continue
		}
		if slices.ContainsFunc(args, func(f field) bool { _, plain := f.literal(); return !plain }) {
			j.refuse(ruleRunTime, program, "its arguments are known only at run time", "write them out")
			return true
		}
		j.suspicious(s, program, free, true)
		if known := j.g.tables.find(program); known != nil && j.barred(s, known, program, args) {
			return true
		}
		j.need(s, r.Tier, r.ID, program)
		if r.Effect != "" {
			name, _ := j.facts.service(cmp.Or(r.Service, program))
			j.effect(Effect{Kind: r.Effect, Service: name})
		}
		j.named = r.ID
		return true
	}
	return false
}

// lends are the places that the command of a rule may change. It must be all there is of the script: a wall is put around the whole of it,
// so whatever runs beside the command could change them too.
func (g *Guard) lends(f *syntax.File, id string) []string {
	i := slices.IndexFunc(g.rules, func(r Rule) bool { return r.ID == id })
	if i < 0 || len(g.rules[i].Writable) == 0 || len(f.Stmts) != 1 {
		return nil
	}
	stmt := f.Stmts[0]
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(stmt.Redirs)+len(call.Assigns) > 0 || stmt.Background || stmt.Coprocess || call.Args[0].Lit() != g.rules[i].Program {
		return nil
	}
	return g.rules[i].Writable
}

// barred judges a known command by the tables and reports whether it reaches what no rule may allow; that stays refused.
func (j *judge) barred(s *scope, known *row, program string, args []field) bool {
	before := *j
	j.worst, j.forbidden = nil, nil
	j.dispatch(s.sub(), known, append([]field{lit(program)}, args...))
	forbidden := j.forbidden
	rest := j.rest
	*j = before
	j.rest = rest
	if forbidden != nil {
		j.add(*forbidden)
	}
	return forbidden != nil
}

// nameList are names by their verdict, with the reason of each verdict.
type nameList struct {
	names map[string][]string
	why   map[string]string
	order []string
}

// readNames reads an embedded list.
func readNames(name string) (nameList, error) {
	l := nameList{names: map[string][]string{}, why: map[string]string{}}
	data, err := tableFiles.ReadFile("tables/" + name)
	if err != nil {
		return l, fmt.Errorf("read list: %w", err)
	}
	verdict := ""
	for n, line := range strings.Split(string(data), "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || strings.HasPrefix(trimmed, "//"):
		case line[0] == ' ' && verdict != "":
			l.names[verdict] = append(l.names[verdict], strings.Fields(trimmed)...)
		default:
			head, reason, ok := strings.Cut(trimmed, " : ")
			if !ok || l.why[head] != "" {
				return l, fmt.Errorf("%s:%d: want `verdict : reason`", name, n+1)
			}
			verdict, l.why[head] = head, reason
			l.order = append(l.order, head)
		}
	}
	return l, nil
}

// variableTable says what may be done with variables.
type variableTable struct {
	exact    map[string]string
	prefixes map[string]string
	suffixes map[string]string
}

func newVariableTable(names map[string][]string) variableTable {
	t := variableTable{map[string]string{}, map[string]string{}, map[string]string{}}
	for verdict, list := range names {
		for _, n := range list {
			switch {
			case strings.HasPrefix(n, "*"):
				t.suffixes[n[1:]] = verdict
			case strings.HasSuffix(n, "*"):
				t.prefixes[strings.TrimSuffix(n, "*")] = verdict
			default:
				t.exact[n] = verdict
			}
		}
	}
	return t
}

// verdict looks a variable up: its whole name, its longest beginning, its ending.
func (t variableTable) verdict(name string) string {
	if v, ok := t.exact[name]; ok {
		return v
	}
	for i := len(name); i > 0; i-- {
		if v, ok := t.prefixes[name[:i]]; ok {
			return v
		}
	}
	for suffix, v := range t.suffixes {
		if strings.HasSuffix(name, suffix) {
			return v
		}
	}
	return ""
}

// readOnlySQL and readOnlyMySQL make a session refuse changes, whatever the scanner made of a statement.
const (
	readOnlySQL   = "SET default_transaction_read_only=on"
	readOnlyMySQL = "SET SESSION TRANSACTION READ ONLY"
)

// safeMode are the words behind a program's name that switch off what it could do beyond its task, and whether other
// builds of the program, such as those in containers, know them too.
func safeMode(program string) (words []string, everywhere bool) {
	switch program {
	case "sed", "gsed":
		return []string{"--sandbox"}, false
	case "sqlite3":
		return []string{"-readonly", "-safe"}, true
	case "psql":
		return []string{"-X", "-q", "-c", readOnlySQL}, true
	case "mysql", "mariadb":
		return []string{"--local-infile=0", "--init-command=" + readOnlyMySQL}, true
	case "curl":
		return []string{"--proto", "=http,https"}, true
	case "git":
		return []string{
			"-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "safe.bareRepository=explicit",
		}, true
	}
	return nil, false
}

// inSafeMode notes the words to add when the judged tree is printed. Text for other hosts is left as it is.
func (c *call) inSafeMode() {
	program, _, _ := strings.Cut(c.row.cmd, " ")
	c.addSafeMode(c.program.at, program)
}

// addSafeMode notes the words to add behind a word.
func (c *call) addSafeMode(at *syntax.Word, program string) {
	words, everywhere := safeMode(program)
	if at == nil || c.s.remote || c.s.container && (!everywhere || program == "git") {
		return
	}
	if c.j.added == nil {
		c.j.added = map[*syntax.Word][]string{}
	}
	c.j.added[at] = words
}

// addWords puts words behind and before others in the commands of a tree. Words that are there already are left. Those before others
// must find their place: in the text of another shell they would have none.
func addWords(f *syntax.File, added, before map[*syntax.Word][]string) *finding {
	placed := 0
	syntax.Walk(f, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		for i := 0; i < len(call.Args); i++ {
			at, words := i, before[call.Args[i]]
			if len(words) > 0 {
				placed++
			} else {
				at, words = i+1, added[call.Args[i]]
			}
			if len(words) == 0 || slices.Equal(peek(call.Args[i+1:min(i+1+len(words), len(call.Args))]), words) {
				continue
			}
			more := ops.Map(words, func(w string) *syntax.Word { return quotedWord(w, call.Args[i].End()) })
			call.Args = slices.Insert(call.Args, at, more...)
			i += len(more)
		}
		return true
	})
	if placed < len(before) {
		return &finding{
			need: never, rule: ruleRunTime, what: "a program in the text of another shell", why: "the supervisor cannot start it there",
			hint: "run it by itself, without sh -c",
		}
	}
	return nil
}

// quotedWord makes a word of plain text.
func quotedWord(text string, at syntax.Pos) *syntax.Word {
	if strings.ContainsAny(text, " ") {
		return &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Left: at, Right: at, Value: text}}}
	}
	return &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{ValuePos: at, ValueEnd: at, Value: text}}}
}
