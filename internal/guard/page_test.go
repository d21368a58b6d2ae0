package guard

import (
	"strings"
	"testing"
)

func TestThePageListsEveryCommandWithItsVerdict(t *testing.T) {
	rules, err := ParseRules([]byte(goodRules), "rules.yaml")
	must(t, err)
	g, err := New(rules)
	must(t, err)
	page := g.Page()
	for _, want := range []string{
		"## Containers", "| docker restart | 2 | restart |", "| docker system prune, reset | never (never.docker-prune) |", "ansible-playbook | 3 |",
		"-f --force refused (it rewrites what others have)", "## Rules of the operator", "allow-pihole-gravity", "## Environment variables", "LD_\\*", "## Files", ".vault_pass",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "|") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 6 {
			t.Errorf("not a row of five cells: %s", line)
		}
	}
	for _, r := range g.Rules() {
		if r.Command == "" || r.Section == "" {
			t.Errorf("an empty row: %+v", r)
		}
		if r.Tier == 0 && r.Rule != "" && r.Note == "" {
			t.Errorf("%s is refused without a reason", r.Command)
		}
	}
}

func TestTablesAreWellFormed(t *testing.T) {
	for text, want := range map[string]string{
		"foo : tier 4":                     "not a tier",
		"foo : wibble":                     "unknown attribute",
		"foo : args read":                  "has no tier",
		"foo":                              "no attributes",
		"foo : tier 1\nfoo : tier 2":       "listed twice",
		"  -x : value":                     "without a command",
		"foo : tier 1\n  -x : wibble":      "unknown option attribute",
		"foo : tier 1\n  -x\n  -x : value": "twice",
		"foo : tier 1\n  x : value":        "no dash",
		"foo : args wibble, tier 1":        "unknown role",
		"foo : tier 1\n  -x : tier 9":      "not a tier",
		"foo : tier 1, , read":             "empty attribute",
	} {
		tab := &tables{rows: map[string]*row{}}
		if err := tab.read("x.rules", text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "x.rules:") {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	all := newGuard(t).tables
	for _, r := range all.order {
		if r.alias == "" && r.tier >= never && r.note == "" {
			t.Errorf("%s is refused without a reason", r.cmd)
		}
		for _, f := range r.options {
			if r.tier >= never && len(r.variants) == 0 {
				t.Errorf("%s is refused and lists options", r.cmd)
			}
			for _, n := range f.names {
				if strings.HasSuffix(n, "_") || strings.ContainsAny(n, "|=,") {
					t.Errorf("%s: odd option %q", r.cmd, n)
				}
			}
		}
		if head, _, ok := cutLast(r.cmd, " "); ok {
			if p := all.find(head); p == nil || !p.group {
				t.Errorf("%s: %s is not a group", r.cmd, head)
			}
		}
	}
}
