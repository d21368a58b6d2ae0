package guard

import (
	"reflect"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

const goodRules = `rules:
  - id: allow-pihole-gravity
    program: pihole
    args: ["-g"]
    tier: 2
    cooldown: restart
    reason: "Gravity update is safe remediation."
    match: ["pihole -g", "timeout 60 pihole -g"]
    not_match: ["pihole -r", "sh -c \"pihole uninstall\""]
  - id: upsmon-any
    program: upsmon
    args: ["status", "*", "..."]
    tier: 1
    reason: "It only looks."
    match: ["upsmon status a", "upsmon status a b c"]
    not_match: ["upsmon status", "upsmon stop a"]
  - id: no-logs
    program: docker
    args: ["logs", "..."]
    deny: true
    reason: "Logs hold personal data here."
    match: ["docker logs web", "ssh ie09 docker logs web"]
    not_match: ["docker ps"]
  - id: more-facts
    services: [traefik]
    hosts: [ie09]
    repositories: [/srv/stack]
    protected: [secrets-map.yaml]
`

func TestOperatorRulesDecideWhatTheySay(t *testing.T) {
	rules, err := ParseRules([]byte(goodRules), "rules.yaml")
	must(t, err)
	g, err := New(rules)
	must(t, err)
	for _, c := range []struct{ want, rule, command string }{
		{"daa", "allow-pihole-gravity", "pihole -g"},
		{"daa", "allow-pihole-gravity", "ssh ie01 'pihole -g'"},
		{"ddd", "tool.Bash", "pihole -r"},
		{"aaa", "upsmon-any", "upsmon status a"},
		{"ddd", "R6", "upsmon status $x"},
		{"ddd", "no-logs", "docker logs web"},
		{"ddd", "no-logs", "docker logs $(docker ps -q)"},
		{"ddd", "R5", "for i in 1 2; do pihole -g; done"},
		{"ddd", "never.docker-prune", "pihole -g; docker system prune"},
		{"aaa", "tool.Bash", "ssh ie09 uptime"},
		{"daa", "tool.Bash", "echo x > /srv/stack/x.md"},
		{"ddd", "never.inventory", "echo x > secrets-map.yaml"},
	} {
		got, rule := "", ""
		for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
			d := g.Check(tier, "Bash", bashInput(t, c.command), testFacts())
			got += string(d.Verdict)[:1]
			rule = d.Rule
		}
		if got != c.want || rule != c.rule {
			t.Errorf("%q: %s by %s, want %s by %s", c.command, got, rule, c.want, c.rule)
		}
	}
	d := g.Check(ops.Tier2, "Bash", bashInput(t, "pihole -g"), testFacts())
	if want := []Effect{{Kind: EffectRestart, Service: "pihole"}}; !reflect.DeepEqual(d.Effects, want) {
		t.Errorf("effects %+v, want %+v", d.Effects, want)
	}
}

func TestABadRuleRefusesTheWholeFile(t *testing.T) {
	rule := func(body string) string {
		return "rules:\n  - id: first\n    hosts: [a]\n  - id: second\n    " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n    ") + "\n"
	}
	ok := "reason: x\nmatch: [\"foo a\"]\nnot_match: [\"foo b\"]\n"
	for name, c := range map[string]struct{ file, want string }{
		"match fails":        {rule("program: foo\nargs: [a]\ntier: 2\nreason: x\nmatch: [\"foo c\"]\nnot_match: [\"foo b\"]"), `match "foo c" is not allowed`},
		"not_match fires":    {rule("program: foo\nargs: [\"*\"]\ntier: 2\n" + ok), `not_match "foo b" is decided by it`},
		"deny does not fire": {rule("program: foo\nargs: [b]\ndeny: true\n" + ok), `match "foo a" is not refused`},
		"known program":      {rule("program: docker\nargs: [system, prune]\ntier: 3\nreason: x\nmatch: [\"docker system prune\"]\nnot_match: [\"docker ps\"]"), "known program"},
		"never list":         {rule("program: rm\nargs: [\"-rf\", \"/\"]\ntier: 3\nreason: x\nmatch: [\"rm -rf /\"]\nnot_match: [\"rm x\"]"), "is not allowed by it"},
		"interpreter":        {rule("program: python3\nargs: [\"...\"]\ntier: 3\nreason: x\nmatch: [\"python3 -c 1\"]\nnot_match: [\"ls\"]"), "known program"},
		"sudo":               {rule("program: sudo\nargs: [\"...\"]\ntier: 3\nreason: x\nmatch: [\"sudo ls\"]\nnot_match: [\"ls\"]"), "known program"},
		"own binary":         {rule("program: claudeops\nargs: [run]\ntier: 3\nreason: x\nmatch: [\"claudeops run\"]\nnot_match: [\"ls\"]"), "not the name of a program"},
		"a path":             {rule("program: /tmp/foo\nargs: [a]\ntier: 3\n" + ok), "not the name of a program"},
		"no examples":        {rule("program: foo\nargs: [a]\ntier: 2\nreason: x"), "needs examples"},
		"no reason":          {rule("program: foo\nargs: [a]\ntier: 2\nmatch: [\"foo a\"]\nnot_match: [\"foo b\"]"), "no reason"},
		"no tier":            {rule("program: foo\nargs: [a]\n" + ok), "either a tier or deny"},
		"tier and deny":      {rule("program: foo\nargs: [a]\ntier: 2\ndeny: true\n" + ok), "either a tier or deny"},
		"tier 4":             {rule("program: foo\nargs: [a]\ntier: 4\n" + ok), "tier must be"},
		"bad cooldown":       {rule("program: foo\nargs: [a]\ntier: 2\ncooldown: daily\n" + ok), "cooldown must be"},
		"unknown key":        {rule("program: foo\nargs: [a]\ntier: 2\nregex: x\n" + ok), "field regex not found"},
		"nothing":            {rule("reason: x"), "neither a program nor"},
		"taken id":           {"rules:\n  - id: never.rm-root\n    hosts: [a]\n", "plain name of its own"},
		"numbered id":        {"rules:\n  - id: R3\n    hosts: [a]\n", "plain name of its own"},
		"twice":              {"rules:\n  - id: a\n    hosts: [a]\n  - id: a\n    hosts: [b]\n", "used twice"},
		"not yaml":           {"rules: [", "read rules"},
		"unknown top level":  {"rulez: []", "field rulez not found"},
		"dynamic match":      {rule("program: foo\nargs: [\"*\"]\ntier: 2\nreason: x\nmatch: [\"foo $x\"]\nnot_match: [\"ls\"]"), "is not allowed"},
		"allowed below":      {rule("program: foo\nargs: [a]\ntier: 3\nreason: x\nmatch: [\"ls\"]\nnot_match: [\"foo b\"]"), "is not allowed by it"},
	} {
		rules, err := ParseRules([]byte(c.file), "rules.yaml")
		if err == nil || !strings.Contains(err.Error(), c.want) || rules != nil {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
			continue
		}
		if strings.Contains(c.file, "second") && !strings.HasPrefix(err.Error(), "rules.yaml:4: ") {
			t.Errorf("%s: %q does not say rules.yaml:4", name, err)
		}
	}
}

func TestAnEmptyRuleFileIsNoRules(t *testing.T) {
	if rules, err := ParseRules([]byte("rules: []\n"), "rules.yaml"); err != nil || len(rules) != 0 {
		t.Errorf("got %v, %v", rules, err)
	}
}

const moreRules = `rules:
  - id: cordon
    program: kubectl
    args: [cordon, "*"]
    options: ["--dry-run=", -v=]
    tier: 3
    reason: "A cordoned node keeps what runs on it."
    match: ["kubectl cordon node-1", "kubectl cordon --dry-run=client node-1"]
    not_match: ["kubectl drain node-1", "kubectl cordon -l app=web"]
  - id: launcher
    program: mylauncher
    args: ["..."]
    tier: 2
    reason: "It runs a program with our defaults."
    match: ["mylauncher docker ps", "mylauncher status"]
    not_match: ["docker system prune -af"]
  - id: trace
    program: curl
    args: ["*"]
    options: [-s, --trace-time]
    tier: 1
    reason: "It only prints."
    match: ["curl -s --trace-time http://ie01/"]
    not_match: ["curl --trace x http://ie01/"]
  - id: tools
    tier: 2
    mcp_tools: [mcp__grafana__search]
    web_hosts: [status.example.org]
`

func TestARuleWithFreeWordsStillHasEachOfThemJudged(t *testing.T) {
	rules, err := ParseRules([]byte(moreRules), "rules.yaml")
	must(t, err)
	g, err := New(rules)
	must(t, err)
	for _, c := range []struct{ want, command string }{
		{"dda", "kubectl cordon node-1"},
		{"ddd", "kubectl cordon node-1 node-2"},
		{"ddd", "kubectl cordon --kubeconfig=/tmp/x node-1"},
		{"ddd", "kubectl drain node-1"},
		{"daa", "mylauncher docker ps"},
		{"ddd", "mylauncher docker system prune -af"},
		{"ddd", "mylauncher sh -c 'rm -rf /'"},
		{"ddd", "mylauncher tee /etc/passwd"},
		{"ddd", "mylauncher --run='docker system prune -af'"},
		{"ddd", "mylauncher /root/.ssh/id_rsa"},
		{"ddd", "mylauncher docker restart web"}, // it may repeat what it runs
		{"ddd", "mylauncher $x"},
		{"aaa", "curl -s --trace-time http://ie01/"},
		{"ddd", "curl -s --trace-time http://169.254.169.254/"},
	} {
		got := ""
		for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
			got += string(g.Check(tier, "Bash", bashInput(t, c.command), testFacts()).Verdict)[:1]
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.command, got, c.want)
		}
	}
	for _, c := range []struct {
		want        Verdict
		tier        ops.Tier
		tool, input string
	}{
		{Deny, ops.Tier1, "mcp__grafana__search", `{}`},
		{Allow, ops.Tier2, "mcp__grafana__search", `{}`},
		{Deny, ops.Tier3, "mcp__grafana__delete", `{}`},
		{Allow, ops.Tier1, "WebFetch", `{"url":"https://status.example.org/"}`},
		{Deny, ops.Tier1, "WebFetch", `{"url":"https://example.org/"}`},
	} {
		if d := g.Check(c.tier, c.tool, []byte(c.input), testFacts()); d.Verdict != c.want {
			t.Errorf("%s %s at %s: %s (%s)", c.tool, c.input, c.tier, d.Verdict, d.Reason)
		}
	}
}

func TestARuleCannotReachTheNeverList(t *testing.T) {
	for name, body := range map[string]string{
		"volume rm":      "program: docker\nargs: [volume, rm, \"*\"]\ntier: 3\nmatch: [\"docker volume rm x\"]",
		"force push":     "program: git\nargs: [push]\noptions: [--force]\ntier: 3\nmatch: [\"git push --force\"]",
		"shell":          "program: bash\nargs: [\"*\"]\ntier: 3\nmatch: [\"bash x\"]",
		"free words":     "program: docker\nargs: [run, \"...\"]\ntier: 3\nmatch: [\"docker run x\"]",
		"secrets":        "program: cat\nargs: [\"*\"]\ntier: 1\nmatch: [\"cat /etc/shadow\"]",
		"own files":      "program: ls\nargs: [\"*\"]\noptions: [--wide]\ntier: 1\nmatch: [\"ls --wide /state/claudeops.db\"]",
		"sudo":           "program: sudo\nargs: [\"*\"]\ntier: 3\nmatch: [\"sudo ls\"]",
		"without a tier": "mcp_tools: [mcp__a__b]",
	} {
		file := "rules:\n  - id: bad\n    reason: x\n    not_match: [\"true\"]\n    " + strings.ReplaceAll(body, "\n", "\n    ") + "\n"
		if rules, err := ParseRules([]byte(file), "rules.yaml"); err == nil || rules != nil || !strings.HasPrefix(err.Error(), "rules.yaml:2: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARuleLendsItsPathsToItsCommandAlone(t *testing.T) {
	rules, err := ParseRules([]byte(`rules:
  - id: reindex
    program: reindex
    args: ["..."]
    tier: 2
    writable: [/srv/search/index, /srv/search/state.json]
    reason: It only writes its own index.
    match: ["reindex --all"]
    not_match: ["rebuild"]
`), "rules.yaml")
	must(t, err)
	g, err := New(rules)
	must(t, err)
	for command, want := range map[string]bool{
		"reindex --all":                    true,
		"reindex a b":                      true,
		"ls":                               false,
		"reindex --all; ls":                false,
		"reindex --all && true":            false,
		"reindex --all | cat":              false,
		"timeout 60 reindex --all":         false,
		"sh -c 'reindex --all'":            false,
		"(reindex --all)":                  false,
		"reindex --all > /tmp/x":           false,
		"LANG=C reindex --all":             false,
		"ssh ie01 reindex --all":           false,
		"if true; then reindex --all; fi":  false,
		"reindex --all &\nwait":            false,
		"reindex() { ls; }; reindex --all": false,
	} {
		d := g.Check(ops.Tier2, "Bash", bashInput(t, command), testFacts())
		if lent := len(d.Writable) == 2; lent != want || want && !d.Allowed() {
			t.Errorf("%q: %s, may write %q", command, d.Verdict, d.Writable)
		}
	}
	if d := g.Check(ops.Tier1, "Bash", bashInput(t, "reindex --all"), testFacts()); d.Allowed() || d.Writable != nil {
		t.Errorf("at Tier 1: %+v", d)
	}
}

func TestARuleOpensWholePathsFromTier2On(t *testing.T) {
	for writable, tier := range map[string]string{
		"srv/x": "tier: 2", "/srv/x/": "tier: 2", "/srv/../etc": "tier: 2", "/": "tier: 2", "/srv/x": "tier: 1", "/srv/y": "deny: true",
	} {
		file := "rules:\n  - id: bad\n    reason: x\n    program: reindex\n    match: [reindex]\n    not_match: [\"true\"]\n    " + tier +
			"\n    writable: [\"" + writable + "\"]\n"
		if _, err := ParseRules([]byte(file), "rules.yaml"); err == nil || !strings.HasPrefix(err.Error(), "rules.yaml:2: rule bad: writable") {
			t.Errorf("%s with %s: %v", writable, tier, err)
		}
	}
	if _, err := ParseRules([]byte("rules:\n  - id: bad\n    hosts: [a]\n    writable: [/srv/x]\n"), "rules.yaml"); err == nil {
		t.Error("a rule without a program may open a path")
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
