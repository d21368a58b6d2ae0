package guard

import (
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func TestAPatternIsJudgedByWhatItMatches(t *testing.T) {
	facts := testFacts()
	files := map[string][]string{
		"/etc/nginx/ssl/s*":   {"/etc/nginx/ssl/site.crt", "/etc/nginx/ssl/site.key"},
		"/etc/nginx/c*":       {"/etc/nginx/conf.d"},
		"/repos/infra/*.md":   {"/repos/infra/-n.md"},
		"/repos/infra/link*":  {"/repos/infra/link1"},
		"/repos/infra/HEAD":   nil,
		"/repos/infra/evil/*": nil,
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		files["/repos/infra/evil/"+name] = []string{"/repos/infra/evil/" + name}
	}
	facts.Glob = func(pattern string) []string { return files[pattern] }
	facts.Resolve = func(name string) (string, error) {
		if strings.HasSuffix(name, "link1") {
			return "/root/.ssh/id_rsa", nil
		}
		return name, nil
	}
	g := newGuard(t)
	for command, want := range map[string]bool{
		"cat /etc/nginx/c*":                true,
		"cat /etc/nginx/ssl/s*":            false, // it matches a key
		"ls -l /etc/nginx/ssl/s*":          true,
		"wc -l *.md":                       false, // it matches a file that reads as an option
		"cat link*":                        false, // it matches a link to a key
		"cat /var/log/nothing*":            true,
		"cat /root/.s?h/id*":               false, // it looks for a key, whether there is one or not
		"git -C /repos/infra log":          true,
		"git -C /repos/infra/evil log":     false, // a planted repository
		"git -C /repos/infra/evil/sub log": false,
	} {
		if d := g.Check(ops.Tier1, "Bash", bashInput(t, command), facts); d.Allowed() != want {
			t.Errorf("%q: %s (%s %s)", command, d.Verdict, d.Rule, d.Reason)
		}
	}
}

func TestTheSafeModeOfAProgramIsSwitchedOn(t *testing.T) {
	g := newGuard(t)
	for command, want := range map[string]string{
		"sed -n 1p x":                             "sed --sandbox -n 1p x\n",
		"sed --sandbox -n 1p x":                   "sed --sandbox -n 1p x\n",
		"timeout 5 sed 1d x | sed 2d":             "timeout 5 sed --sandbox 1d x | sed --sandbox 2d\n",
		"find . -name x -exec sed 1d {} +":        "find . -name x -exec sed --sandbox 1d {} +\n",
		"docker exec web sed 1d x":                "docker exec web sed 1d x\n",
		"ssh ie01 'sed 1d x'":                     "ssh ie01 'sed 1d x'\n",
		"gawk '{print $1}' x":                     "gawk --sandbox '{print $1}' x\n",
		"sqlite3 x.db .tables":                    "sqlite3 -readonly -safe x.db .tables\n",
		"docker exec db psql -c 'SELECT 1'":       "docker exec db psql -X -q -c 'SET default_transaction_read_only=on' -c 'SELECT 1'\n",
		"mysql -e 'SHOW TABLES'":                  "mysql --local-infile=0 '--init-command=SET SESSION TRANSACTION READ ONLY' -e 'SHOW TABLES'\n",
		"cat x":                                   "cat x\n",
		"curl -s http://ie01/":                    "curl --proto =http,https -s http://ie01/\n",
		"curl http://a.example/ --next http://b/": "curl --proto =http,https http://a.example/ --next --proto =http,https http://b/\n",
		"git status && echo \"$(git log -1)\"":    gitSafe("status") + " && echo \"$(" + gitSafe("log -1") + ")\"\n",
		"x=$(sed 1d y); echo \"$x\"":              "x=$(sed --sandbox 1d y)\necho \"$x\"\n",
		"for f in a b; do sed -n 1p \"$f\"; done": "for f in a b; do sed --sandbox -n 1p \"$f\"; done\n",
	} {
		d := g.Check(ops.Tier2, "Bash", bashInput(t, command), testFacts())
		if d.Script != want {
			t.Errorf("%q: %q, want %q (%s)", command, d.Script, want, d.Reason)
		}
	}
}

func gitSafe(rest string) string {
	words, _ := safeMode("git")
	return "git " + strings.Join(words, " ") + " " + rest
}
