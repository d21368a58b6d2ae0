package guard

import (
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// Behind walls a pattern picks what they leave open. Without them nobody knows what it picks: a name and all of one extension is all there is.
func TestAPatternIsWrittenOutWhereNoWallHoldsWhatItPicks(t *testing.T) {
	g := newGuard(t)
	for command, without := range map[string]bool{
		"cat /etc/nginx/c*":                               false,
		"cat /var/log/*.log":                              false,
		"ls -l /etc/nginx/ssl/s*":                         true,
		"grep -r --include='*.conf' listen /etc/nginx":    true,
		"grep -r --include='site*' listen /etc/nginx":     false,
		"grep -r --exclude='[!s]*' listen /etc/nginx":     false,
		"find /etc/nginx -name 'nginx*'":                  true,
		"find /etc/nginx -name nginx.conf -exec cat {} +": false,
		"git log -p -- 'compose*'":                        false,
		"git log -p -- '*.yml'":                           false,
	} {
		for _, walled := range []bool{false, true} {
			facts := testFacts()
			facts.Walled = walled
			if d := g.Check(ops.Tier1, "Bash", bashInput(t, command), facts); d.Allowed() != (walled || without) {
				t.Errorf("%q, walls %v: %s (%s %s)", command, walled, d.Verdict, d.Rule, d.Reason)
			}
		}
	}
	facts := testFacts()
	facts.Walled = true
	if d := g.Check(ops.Tier1, "Grep", []byte(`{"pattern":"x","glob":"*.{yml,yaml}"}`), facts); !d.Allowed() {
		t.Errorf("the tool Grep: %s", d.Reason)
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
		"gawk '{print $1}' x":                     "gawk '{print $1}' x\n",
		"sqlite3 x.db .tables":                    "sqlite3 -readonly -safe x.db .tables\n",
		"docker exec db psql -c 'SELECT 1'":       "docker exec db psql -X -q -c 'SET default_transaction_read_only=on' -c 'SELECT 1'\n",
		"mysql -e 'SHOW TABLES'":                  "mysql --local-infile=0 '--init-command=SET SESSION TRANSACTION READ ONLY' -e 'SHOW TABLES'\n",
		"cat x":                                   "cat x\n",
		"curl -s http://ie01/":                    "curl --proto =http,https -s http://ie01/\n",
		"git status && echo \"$(git log -1)\"":    gitSafe("status") + " && echo \"$(" + gitSafe("log -1") + ")\"\n",
		"x=$(sed 1d y); echo \"$x\"":              "x=$(sed --sandbox 1d y)\necho \"$x\"\n",
		"for f in a b; do sed -n 1p \"$f\"; done": "for f in a b; do sed --sandbox -n 1p \"$f\"; done\n",
	} {
		facts := testFacts()
		facts.Walled = true
		d := g.Check(ops.Tier2, "Bash", bashInput(t, command), facts)
		if d.Script != want {
			t.Errorf("%q: %q, want %q (%s)", command, d.Script, want, d.Reason)
		}
	}
}

func gitSafe(rest string) string {
	words, _ := safeMode("git")
	return "git " + strings.Join(words, " ") + " " + rest
}

func TestWhereTheNetworkIsClosedTheSupervisorLooks(t *testing.T) {
	g, facts := newGuard(t), testFacts()
	facts.NetworkClosed, facts.LookProgram = true, "/run/gate/claudeops-act"
	const look = "/run/gate/claudeops-act look -- "
	for command, want := range map[string]string{
		"ss -tlnp | grep 80":         look + "ss -tlnp | grep 80\n",
		"timeout 5 ip -br addr show": "timeout 5 " + look + "ip -br addr show\n",
		"ip route":                   look + "ip route\n",
		"nft list ruleset":           look + "nft list ruleset\n",
		"dig +short ie01":            look + "dig +short ie01\n",
		"for p in 80 443; do nc -z -w 2 ie01 $p; done": "for p in 80 443; do " + look + "nc -z -w 2 ie01 $p; done\n",
		"ping -c 1 ie01 && sed -n 1p x":                look + "ping -c 1 ie01 && sed --sandbox -n 1p x\n",
		"docker exec web ss -tln":                      "docker exec web ss -tln\n",
		"ssh ie01 'ss -tln'":                           "ssh ie01 'ss -tln'\n",
		"lsof -p 1":                                    "lsof -p 1\n",
	} {
		if d := g.Check(ops.Tier1, "Bash", bashInput(t, command), facts); d.Script != want {
			t.Errorf("%q: %q, want %q (%s)", command, d.Script, want, d.Reason)
		}
	}
	for _, command := range []string{"netstat -tlnp", "lsof -i :80", "iptables -L", "arp -n", "host ie01", "traceroute ie01", "cat /proc/net/tcp"} {
		if d := g.Check(ops.Tier3, "Bash", bashInput(t, command), facts); d.Allowed() || !strings.Contains(d.Reason, "tool look") {
			t.Errorf("%q: %s", command, d.Reason)
		}
	}
	facts.LookProgram = ""
	if d := g.Check(ops.Tier1, "Bash", bashInput(t, "ss -tln"), facts); d.Allowed() {
		t.Error("ss runs where nobody can look outside")
	}
}

// Where a session knows the supervisor's program, that gives what nobody has read the rights of cat. In the text of another shell it cannot.
func TestWhatNobodyHasReadOnlyReads(t *testing.T) {
	g, facts := newGuard(t), testFacts()
	facts.Walled, facts.NetworkClosed, facts.LookProgram = true, true, "/run/gate/claudeops-act"
	const read = "/run/gate/claudeops-act read -- "
	for command, want := range map[string]string{
		"awk '{print $1}' x":                                "awk '{print $1}' x\n",
		"awk '{n++} END {print n}' x | sort":                read + "awk '{n++} END {print n}' x | sort\n",
		"timeout 5 mawk '{n++} END {print n}' x":            "timeout 5 " + read + "mawk '{n++} END {print n}' x\n",
		"echo \"$(awk '{n++} END {print n}' x)\"":           "echo \"$(" + read + "awk '{n++} END {print n}' x)\"\n",
		"ls | xargs awk '{n++} END {print n}'":              "ls | " + read + "xargs awk '{n++} END {print n}'\n",
		"find . -name '*.md' -exec wc -l {} +":              read + "find . -name '*.md' -exec wc -l {} +\n",
		"find . -name '*.md'":                               "find . -name '*.md'\n",
		"watch -n 2 ls":                                     read + "watch -n 2 ls\n",
		"sed -n 's/a/b/p' x":                                "sed --sandbox -n 's/a/b/p' x\n",
		"jq 'map(.a)' x":                                    "jq 'map(.a)' x\n",
		"kubectl get pods -o name | xargs kubectl describe": "kubectl get pods -o name | xargs kubectl describe\n",
		"docker exec web awk '{n++} END {print n}' x":       "docker exec web awk '{n++} END {print n}' x\n",
		"sh -c \"awk '{n++} END {print n}' x\"":             "",
		"sh -c \"ls | xargs cat\"":                          "",
		"sh -c 'ss -tln'":                                   "",
		"{awk,'{n++}',x}":                                   "",
	} {
		if d := g.Check(ops.Tier1, "Bash", bashInput(t, command), facts); d.Script != want {
			t.Errorf("%q: %q, want %q (%s)", command, d.Script, want, d.Reason)
		}
	}
}

// A client of a database that is refused, because it would change something or because nothing answers it, names the queries there are.
func TestClientsOfDatabasesAreAnsweredWithQueries(t *testing.T) {
	g, facts := newGuard(t), testFacts()
	facts.Walled = true
	check := func(command string) Decision { return g.Check(ops.Tier1, "Bash", bashInput(t, command), facts) }
	clients := []string{"psql -h db -c 'SELECT 1'", "mysql -e 'SHOW PROCESSLIST'", "redis-cli INFO | grep role", "pg_isready -h db", "mysqladmin status"}
	for _, command := range clients {
		if d := check(command); !d.Allowed() {
			t.Errorf("%q: %s", command, d.Reason)
		}
	}
	facts.NetworkClosed = true
	for _, command := range clients {
		if d := check(command); d.Allowed() || !strings.Contains(d.Reason, "declares as queries") {
			t.Errorf("%q: %s", command, d.Reason)
		}
	}
	facts.Services = append(facts.Services, ops.Service{Name: "db", Queries: []ops.Query{
		{Name: "order", Run: []string{"SELECT :id"}, Params: map[string]string{"id": ops.ParamInteger}}, {Name: "locks"},
	}})
	for _, command := range append(clients, "psql -c 'DELETE FROM orders'", "redis-cli FLUSHALL", "docker exec db psql -c 'DELETE FROM orders'", "psql < x.sql") {
		if d := check(command); d.Allowed() || !strings.Contains(d.Reason, "db order id=INTEGER, db locks") {
			t.Errorf("%q: %s", command, d.Reason)
		}
	}
	facts.RawNetwork = true
	for _, command := range append(clients, "psql --version", "sqlite3 /srv/repos/x.db 'SELECT 1'") {
		if d := check(command); !d.Allowed() {
			t.Errorf("%q: %s", command, d.Reason)
		}
	}
}
