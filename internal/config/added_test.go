package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/config"
)

// TestOnlyAdds compares a configuration with what a form may make of it, and with what it may not.
func TestOnlyAdds(t *testing.T) {
	t.Parallel()
	const base = `
services:
  - name: web
    probes: [{type: http, url: "http://web/"}]
  - name: db
`
	const more = "    probes: [{type: tcp, address: db:1}, {type: container, container: db}]\n"
	const secret = "    probes: [{type: http, url: http://a, headers: {A: b}}]\n"
	const own = base + "environments: [{name: default}, {name: lab, services: [{name: db}]}]\n"
	for name, c := range map[string]struct {
		before, after string
		add           config.Addition
		why           string // empty: it adds only that
	}{
		"service":            {base, base + "  - name: new\n", config.Addition{Service: "new"}, ""},
		"with a probe":       {base, base + "  - {name: new, probes: [{type: container, container: c}]}\n", config.Addition{Service: "new"}, ""},
		"first of all":       {"", "services: [{name: new}]", config.Addition{Service: "new"}, ""},
		"probe":              {base, base + "    probes: [{type: tcp, address: db:1}]\n", config.Addition{Service: "db", Probe: true}, ""},
		"container":          {base, base + "    probes: [{type: container, container: db}]\n", config.Addition{Service: "db", Probe: true}, ""},
		"trust":              {base, base + "    trust: ask\n", config.Addition{Service: "db", Trust: "ask"}, ""},
		"trust of all":       {own, "trust: ask\n" + own, config.Addition{Trust: "ask"}, ""},
		"of one":             {own, strings.Replace(own, "name: lab,", "name: lab, trust: ask,", 1), config.Addition{Trust: "ask"}, ""},
		"in one":             {own, strings.Replace(own, "[{name: db}]", "[{name: db}, {name: new}]", 1), config.Addition{Service: "new"}, ""},
		"target":             {base, base + "notify: {apprise_urls_file: /t}\n", config.Addition{Target: "ntfy://t"}, ""},
		"another target":     {base + "notify: {apprise_urls: ntfy://a}\n", base + "notify: {apprise_urls: ntfy://a, apprise_urls_file: /t}\n", config.Addition{Target: "ntfy://t"}, ""},
		"two services":       {base, base + "  - name: new\n  - name: more\n", config.Addition{Service: "new"}, "more than this"},
		"and a setting":      {base, base + "  - name: new\nmax_tier: 2\n", config.Addition{Service: "new"}, "more than this"},
		"and trust":          {base, base + "  - {name: new, trust: full}\n", config.Addition{Service: "new"}, "more than this"},
		"and methods":        {base, base + "  - {name: new, methods: [any]}\n", config.Addition{Service: "new"}, "more than this"},
		"and an action":      {base, base + "  - {name: new, actions: [{name: x, run: [/bin/x]}]}\n", config.Addition{Service: "new"}, "more than this"},
		"and a command":      {base, base + "  - {name: new, probes: [{type: command, command: [/bin/x]}]}\n", config.Addition{Service: "new"}, "more than this"},
		"and headers":        {base, base + "    probes: [{type: http, url: http://a, headers: {A: b}}]\n", config.Addition{Service: "db", Probe: true}, "more than this"},
		"and a method":       {base, base + "    probes: [{type: http, url: http://a, method: POST}]\n", config.Addition{Service: "db", Probe: true}, "more than this"},
		"probe of another":   {base, base + "    probes: [{type: tcp, address: db:1}]\n", config.Addition{Service: "web", Probe: true}, "more than this"},
		"two probes":         {base, base + "    probes: [{type: tcp, address: db:1}, {type: tcp, address: db:2}]\n", config.Addition{Service: "db", Probe: true}, "more than this"},
		"nothing":            {base, base, config.Addition{Service: "new"}, "no effect"},
		"two targets":        {base, base + "notify: {apprise_urls: ntfy://a, apprise_urls_file: /t}\n", config.Addition{Target: "ntfy://t"}, "more than this"},
		"target and routes":  {base, base + "notify: {apprise_urls_file: /t, routes: [{name: x, urls: []}]}\n", config.Addition{Target: "ntfy://t"}, "more than this"},
		"service gone":       {base, strings.TrimSuffix(base, "  - name: db\n"), config.Addition{Service: "db", Gone: true}, ""},
		"one with actions":   {base + "    actions: [{name: x, run: [/bin/x]}]\n    probes: [{type: command, command: [/bin/x]}]\n", strings.TrimSuffix(base, "  - name: db\n"), config.Addition{Service: "db", Gone: true}, ""},
		"another one gone":   {base, "services: [{name: db}]", config.Addition{Service: "db", Gone: true}, "more than this"},
		"two gone":           {base, "services: []", config.Addition{Service: "db", Gone: true}, "more than this"},
		"gone and a setting": {base, "max_tier: 2\n" + strings.TrimSuffix(base, "  - name: db\n"), config.Addition{Service: "db", Gone: true}, "more than this"},
		"first probe gone":   {base + more, base + strings.Replace(more, "{type: tcp, address: db:1}, ", "", 1), config.Addition{Service: "db", Probe: true, Gone: true}, ""},
		"container gone":     {base + more, base + strings.Replace(more, ", {type: container, container: db}", "", 1), config.Addition{Service: "db", Probe: true, Gone: true}, ""},
		"two probes gone":    {base + more, base, config.Addition{Service: "db", Probe: true, Gone: true}, "more than this"},
		"changed":            {base + more, base + strings.Replace(more, "db:1", "db:2", 1), config.Addition{Service: "db", Probe: true, Instead: true}, ""},
		"other container":    {base + more, base + strings.Replace(more, "container: db", "container: e", 1), config.Addition{Service: "db", Probe: true, Instead: true}, ""},
		"two changed":        {base + more, base + strings.ReplaceAll(strings.Replace(more, "db:1", "db:2", 1), "container: db", "container: e"), config.Addition{Service: "db", Probe: true, Instead: true}, "more than this"},
		"into a command":     {base + more, base + strings.Replace(more, "type: tcp, address: db:1", "type: command, command: [id]", 1), config.Addition{Service: "db", Probe: true, Instead: true}, "more than this"},
		"with its password":  {base + secret, base + strings.Replace(secret, "http://a", "http://b", 1), config.Addition{Service: "db", Probe: true, Instead: true}, "more than this"},
		"target gone":        {base + "notify: {apprise_urls_file: /t}\n", base, config.Addition{Target: "ntfy://t", Gone: true}, ""},
		"no target gone":     {base + "notify: {apprise_urls: ntfy://a}\n", base + "notify: {apprise_urls: ntfy://a}\n", config.Addition{Target: "ntfy://a", Gone: true}, "no effect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			load := func(text string) *config.Config {
				loaded, err := config.Load(config.Input{
					ConfigPath: "/c.yaml", Dir: "/", Environ: []string{"HOME=/h"},
					Instead: map[string][]byte{"/c.yaml": []byte(text), "/t": []byte("ntfy://t\n")},
				})
				if err != nil {
					t.Fatal(err)
				}
				return loaded
			}
			err := load(c.before).OnlyAdds(load(c.after), c.add)
			if c.why == "" && err != nil || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
				t.Errorf("%v, wanted %q", err, c.why)
			}
		})
	}
}

// TestBackupsAreSecret: a backup of the configuration holds the same secrets.
func TestBackupsAreSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "c[1].yaml")
	for _, name := range []string{path, path + config.BackupSuffix + "1"} {
		if err := os.WriteFile(name, []byte("trust: ask\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(config.Input{ConfigPath: path, Dir: dir, Environ: []string{"HOME=" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	for _, files := range [][]string{c.SecretFiles(), c.OwnFiles()} {
		if !slices.Contains(files, path+config.BackupSuffix+"1") || !slices.Contains(files, path) {
			t.Errorf("protected are %v", files)
		}
	}
}
